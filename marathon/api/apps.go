package api

import (
	"net/http"
	"strings"

	"mesos-gpu/marathon"
)

// routeApps returns the handlers below /v2/apps.
func (s *apiServer) routeApps(rest string) methodHandlers {
	p := parseAppPath(rest)
	at := func(h func(http.ResponseWriter, *http.Request, resourcePath) error) handlerFunc {
		return func(w http.ResponseWriter, r *http.Request) error { return h(w, r, p) }
	}
	switch {
	case p.group && p.part == "":
		return methodHandlers{http.MethodGet: at(s.listGroupApps)}
	case p.group && p.part == "tasks" && p.arg == "":
		return methodHandlers{http.MethodGet: at(s.listGroupTasks)}
	case p.group:
		return nil
	case p.part == "restart":
		return methodHandlers{http.MethodPost: at(s.restartApp)}
	case p.part == "tasks" && p.arg == "":
		return methodHandlers{http.MethodGet: at(s.listAppTasks), http.MethodDelete: at(s.killAppTasks)}
	case p.part == "tasks":
		return methodHandlers{http.MethodDelete: at(s.killAppTask)}
	case p.part == "versions" && p.arg == "":
		return methodHandlers{http.MethodGet: at(s.listVersions)}
	case p.part == "versions":
		return methodHandlers{http.MethodGet: at(s.showVersion)}
	case p.id == "/":
		return methodHandlers{http.MethodGet: s.listApps, http.MethodPost: s.createApp, http.MethodPut: s.putApps, http.MethodPatch: s.patchApps}
	}
	return methodHandlers{http.MethodGet: at(s.showApp), http.MethodPut: at(s.putApp), http.MethodPatch: at(s.patchApp), http.MethodDelete: at(s.removeApp)}
}

func (s *apiServer) listApps(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	wanted, err := searchSelector(q.Get("cmd"), q.Get("id"), q.Get("label"))
	if err != nil {
		return err
	}
	e := readAppEmbeds(q["embed"])
	e.counts, e.deployments = true, true
	infos, err := s.collectAppInfos(r, wanted, e)
	if err != nil {
		return err
	}
	s.writeJSON(w, http.StatusOK, map[string][]appInfo{"apps": infos})
	return nil
}

func (s *apiServer) collectAppInfos(r *http.Request, wanted appSelector, e embedOptions) ([]appInfo, error) {
	all, err := s.service.ListApps(r.Context())
	if err != nil {
		return nil, err
	}
	infos := []appInfo{}
	for _, a := range all {
		if wanted(a.App) {
			infos = append(infos, s.describeApp(a, e))
		}
	}
	return infos, nil
}

// detailEmbeds returns what the answer about one app always contains.
func detailEmbeds(params []string) embedOptions {
	e := readAppEmbeds(params)
	e.counts, e.tasks, e.failure, e.deployments = true, true, true, true
	return e
}

func (s *apiServer) showApp(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	a, err := s.getApp(r, p.id)
	if err != nil {
		return err
	}
	s.writeJSON(w, http.StatusOK, map[string]appInfo{"app": s.describeApp(a, detailEmbeds(r.URL.Query()["embed"]))})
	return nil
}

func (s *apiServer) getApp(r *http.Request, id string) (AppStatus, error) {
	a, err := s.service.GetApp(r.Context(), id)
	return a, orNotFound(err, "App '%s' does not exist", id)
}

func (s *apiServer) listGroupApps(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	infos, err := s.groupAppInfos(r, p.id, detailEmbeds(r.URL.Query()["embed"]))
	if err != nil {
		return err
	}
	s.writeJSON(w, http.StatusOK, map[string][]appInfo{"*": infos})
	return nil
}

// selectGroupApps selects the apps of a group and its subgroups.
func (s *apiServer) selectGroupApps(r *http.Request, group string) (appSelector, error) {
	if _, err := s.getGroup(r, group); err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(group, "/") + "/"
	return func(a *marathon.App) bool { return strings.HasPrefix(a.ID, prefix) }, nil
}

// groupAppInfos describes the apps of a group and its subgroups.
func (s *apiServer) groupAppInfos(r *http.Request, group string, e embedOptions) ([]appInfo, error) {
	wanted, err := s.selectGroupApps(r, group)
	if err != nil {
		return nil, err
	}
	return s.collectAppInfos(r, wanted, e)
}

func (s *apiServer) listVersions(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	versions, err := s.service.ListVersions(r.Context(), p.id)
	if err != nil {
		return orNotFound(err, "App '%s' does not exist", p.id)
	}
	s.writeJSON(w, http.StatusOK, map[string][]string{"versions": emptyIfNil(versions)})
	return nil
}

func (s *apiServer) showVersion(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	a, err := s.service.GetVersion(r.Context(), p.id, p.arg)
	if err != nil {
		return orNotFound(err, "App '%s' does not exist in version %s", p.id, p.arg)
	}
	s.writeJSON(w, http.StatusOK, a)
	return nil
}

func (s *apiServer) restartApp(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	return s.changeApp(w, r, p, false, s.service.RestartApp)
}

// removeApp uses force by default, as in Marathon.
func (s *apiServer) removeApp(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	return s.changeApp(w, r, p, true, s.service.RemoveApp)
}

func (s *apiServer) changeApp(w http.ResponseWriter, r *http.Request, p resourcePath, forced bool, do changeFunc) error {
	force, err := readBoolParam(r.URL.Query(), "force", forced)
	if err != nil {
		return err
	}
	d, err := do(r.Context(), p.id, force)
	if err != nil {
		return orNotFound(err, "App '%s' does not exist", p.id)
	}
	s.answerDeployment(w, http.StatusOK, d)
	return nil
}
