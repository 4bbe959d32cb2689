package api

import (
	"net/http"
	"strings"

	"mesos-gpu/marathon"
)

// apps answers below /v2/apps.
func (s *server) apps(rest string) methods {
	p := appPlace(rest)
	at := func(h func(http.ResponseWriter, *http.Request, place) error) handler {
		return func(w http.ResponseWriter, r *http.Request) error { return h(w, r, p) }
	}
	switch {
	case p.group && p.part == "":
		return methods{http.MethodGet: at(s.groupApps)}
	case p.group && p.part == "tasks" && p.arg == "":
		return methods{http.MethodGet: at(s.groupTasks)}
	case p.group:
		return nil
	case p.part == "restart":
		return methods{http.MethodPost: at(s.restart)}
	case p.part == "tasks" && p.arg == "":
		return methods{http.MethodGet: at(s.appTasks), http.MethodDelete: at(s.killAppTasks)}
	case p.part == "tasks":
		return methods{http.MethodDelete: at(s.killAppTask)}
	case p.part == "versions" && p.arg == "":
		return methods{http.MethodGet: at(s.versions)}
	case p.part == "versions":
		return methods{http.MethodGet: at(s.version)}
	case p.id == "/":
		return methods{http.MethodGet: s.list, http.MethodPost: s.create, http.MethodPut: s.putAll, http.MethodPatch: s.patchAll}
	}
	return methods{http.MethodGet: at(s.show), http.MethodPut: at(s.put), http.MethodPatch: at(s.patch), http.MethodDelete: at(s.remove)}
}

func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	wanted, err := searched(q.Get("cmd"), q.Get("id"), q.Get("label"))
	if err != nil {
		return err
	}
	e := appEmbeds(q["embed"])
	e.counts, e.deployments = true, true
	infos, err := s.infos(r, wanted, e)
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, map[string][]appInfo{"apps": infos})
	return nil
}

func (s *server) infos(r *http.Request, wanted selector, e embeds) ([]appInfo, error) {
	all, err := s.service.Apps(r.Context())
	if err != nil {
		return nil, err
	}
	infos := []appInfo{}
	for _, a := range all {
		if wanted(a.App) {
			infos = append(infos, s.info(a, e))
		}
	}
	return infos, nil
}

// shown is what the answer about one app always holds.
func shown(params []string) embeds {
	e := appEmbeds(params)
	e.counts, e.tasks, e.failure, e.deployments = true, true, true, true
	return e
}

func (s *server) show(w http.ResponseWriter, r *http.Request, p place) error {
	a, err := s.app(r, p.id)
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, map[string]appInfo{"app": s.info(a, shown(r.URL.Query()["embed"]))})
	return nil
}

func (s *server) app(r *http.Request, id string) (App, error) {
	a, err := s.service.App(r.Context(), id)
	return a, orNotFound(err, "App '%s' does not exist", id)
}

func (s *server) groupApps(w http.ResponseWriter, r *http.Request, p place) error {
	wanted, err := s.below(r, p.id)
	if err != nil {
		return err
	}
	infos, err := s.infos(r, wanted, shown(r.URL.Query()["embed"]))
	if err != nil {
		return err
	}
	s.answer(w, http.StatusOK, map[string][]appInfo{"*": infos})
	return nil
}

// below selects the apps of a group and of those in it.
func (s *server) below(r *http.Request, group string) (selector, error) {
	if _, err := s.service.Group(r.Context(), group); err != nil {
		return nil, orNotFound(err, "Group '%s' does not exist", group)
	}
	prefix := strings.TrimSuffix(group, "/") + "/"
	return func(a *marathon.App) bool { return strings.HasPrefix(a.ID, prefix) }, nil
}

func (s *server) versions(w http.ResponseWriter, r *http.Request, p place) error {
	versions, err := s.service.Versions(r.Context(), p.id)
	if err != nil {
		return orNotFound(err, "App '%s' does not exist", p.id)
	}
	s.answer(w, http.StatusOK, map[string][]string{"versions": some(versions)})
	return nil
}

func (s *server) version(w http.ResponseWriter, r *http.Request, p place) error {
	a, err := s.service.Version(r.Context(), p.id, p.arg)
	if err != nil {
		return orNotFound(err, "App '%s' does not exist in version %s", p.id, p.arg)
	}
	s.answer(w, http.StatusOK, a)
	return nil
}

func (s *server) restart(w http.ResponseWriter, r *http.Request, p place) error {
	return s.change(w, r, p, false, s.service.Restart)
}

// remove forces its way unless told otherwise, as in Marathon.
func (s *server) remove(w http.ResponseWriter, r *http.Request, p place) error {
	return s.change(w, r, p, true, s.service.Remove)
}

func (s *server) change(w http.ResponseWriter, r *http.Request, p place, forced bool, do changer) error {
	force, err := whether(r.URL.Query(), "force", forced)
	if err != nil {
		return err
	}
	d, err := do(r.Context(), p.id, force)
	if err != nil {
		return orNotFound(err, "App '%s' does not exist", p.id)
	}
	s.deployed(w, http.StatusOK, d)
	return nil
}
