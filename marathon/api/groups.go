package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// routeGroups returns the handlers below /v2/groups.
func (s *apiServer) routeGroups(p resourcePath) methodHandlers {
	at := func(h func(http.ResponseWriter, *http.Request, resourcePath) error) handlerFunc {
		return func(w http.ResponseWriter, r *http.Request) error { return h(w, r, p) }
	}
	switch {
	case p.part == "apps":
		return methodHandlers{http.MethodGet: at(s.showGroupApps)}
	case p.part == "versions" && p.arg == "":
		return methodHandlers{http.MethodGet: at(s.groupVersions)}
	case p.part == "versions":
		return methodHandlers{http.MethodGet: at(s.groupVersion)}
	}
	return methodHandlers{
		http.MethodGet:    at(s.showGroup),
		http.MethodPost:   at(s.createGroup),
		http.MethodPut:    at(s.putGroup),
		http.MethodDelete: at(s.removeGroup),
	}
}

// groupInfo is a group in an answer. Lists that are not embedded are absent.
type groupInfo struct {
	ID           string      `json:"id"`
	Apps         []appInfo   `json:"apps,omitzero"`
	Pods         []struct{}  `json:"pods,omitzero"`
	Groups       []groupInfo `json:"groups,omitzero"`
	Dependencies []string    `json:"dependencies"`
	EnforceRole  *bool       `json:"enforceRole,omitempty"`
	Version      string      `json:"version,omitempty"`
}

// groupView converts a group to a groupInfo.
type groupView struct {
	apps, groups, pods bool
	info               func(*marathon.App) appInfo
}

func (v groupView) describeGroup(g *marathon.Group) groupInfo {
	i := groupInfo{ID: g.ID, Dependencies: emptyIfNil(g.Dependencies), EnforceRole: g.EnforceRole, Version: g.Version}
	if v.apps {
		i.Apps = []appInfo{}
		for _, a := range g.Apps {
			i.Apps = append(i.Apps, v.info(a))
		}
	}
	if v.pods {
		i.Pods = []struct{}{}
	}
	if v.groups {
		i.Groups = []groupInfo{}
		for _, inner := range g.Groups {
			i.Groups = append(i.Groups, v.describeGroup(inner))
		}
	}
	return i
}

// readGroupView reads embed parameters. By default all lists are embedded, with only the
// definitions of apps.
func (s *apiServer) readGroupView(r *http.Request) (groupView, error) {
	params := r.URL.Query()["embed"]
	has := func(name string) bool { return len(params) == 0 || slices.Contains(params, name) }
	v := groupView{apps: has("group.apps"), groups: has("group.groups"), pods: has("group.pods"), info: definitionOnly}
	e := readGroupAppEmbeds(params)
	if e == (embedOptions{}) || !v.apps {
		return v, nil
	}
	all, err := s.service.ListApps(r.Context())
	if err != nil {
		return v, err
	}
	byID := map[string]AppStatus{}
	for _, a := range all {
		byID[a.App.ID] = a
	}
	v.info = func(a *marathon.App) appInfo {
		now := byID[a.ID]
		now.App = a
		return s.describeApp(now, e)
	}
	return v, nil
}

func definitionOnly(a *marathon.App) appInfo { return appInfo{App: a} }

func readGroupAppEmbeds(params []string) embedOptions {
	return readAppEmbeds(slices.DeleteFunc(slices.Clone(params), func(p string) bool { return !strings.HasPrefix(p, "group.apps.") }))
}

func (s *apiServer) getGroup(r *http.Request, id string) (*marathon.Group, error) {
	g, err := s.service.GetGroup(r.Context(), id)
	return g, orNotFound(err, "Group '%s' does not exist", id)
}

func (s *apiServer) showGroup(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	g, err := s.getGroup(r, p.id)
	if err != nil {
		return err
	}
	v, err := s.readGroupView(r)
	if err != nil {
		return err
	}
	s.writeJSON(w, http.StatusOK, v.describeGroup(g))
	return nil
}

func (s *apiServer) showGroupApps(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	infos, err := s.groupAppInfos(r, p.id, readGroupAppEmbeds(r.URL.Query()["embed"]))
	if err != nil {
		return err
	}
	s.writeJSON(w, http.StatusOK, infos)
	return nil
}

// appVersions returns a group, and the kept versions of the apps of it and its subgroups, by id.
func (s *apiServer) appVersions(r *http.Request, group string) (*marathon.Group, map[string][]string, error) {
	g, err := s.getGroup(r, group)
	if err != nil {
		return nil, nil, err
	}
	all := map[string][]string{}
	for _, a := range g.OrderedApps() {
		if all[a.ID], err = s.service.ListVersions(r.Context(), a.ID); err != nil {
			return nil, nil, err
		}
	}
	return g, all, nil
}

// groupVersions answers with the versions of the group's apps: groups have no others.
func (s *apiServer) groupVersions(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	g, of, err := s.appVersions(r, p.id)
	if err != nil {
		return err
	}
	all := map[string]bool{g.Version: g.Version != ""}
	for _, versions := range of {
		for _, v := range versions {
			all[v] = true
		}
	}
	list := slices.Sorted(maps.Keys(all))
	list = slices.DeleteFunc(list, func(v string) bool { return v == "" })
	slices.Reverse(list)
	s.writeJSON(w, http.StatusOK, emptyIfNil(list))
	return nil
}

// groupVersion answers with the group's apps as they were at a version, without newer apps.
func (s *apiServer) groupVersion(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	g, of, err := s.appVersions(r, p.id)
	if err != nil {
		return err
	}
	missing := notFound("Group '%s' does not exist in version %s", p.id, p.arg)
	version, ok := deploy.ParseVersion(p.arg)
	if !ok {
		return missing
	}
	old, err := s.groupAsOf(r, g, of, version)
	if err != nil {
		return err
	}
	if len(old.OrderedApps()) == 0 {
		return missing
	}
	s.writeJSON(w, http.StatusOK, groupView{apps: true, groups: true, pods: true, info: definitionOnly}.describeGroup(old))
	return nil
}

func (s *apiServer) groupAsOf(r *http.Request, g *marathon.Group, of map[string][]string, version string) (*marathon.Group, error) {
	old := &marathon.Group{ID: g.ID, Dependencies: g.Dependencies, EnforceRole: g.EnforceRole, Version: version}
	for _, a := range g.Apps {
		last := ""
		for _, v := range of[a.ID] {
			if v <= version {
				last = max(last, v)
			}
		}
		if last == "" {
			continue
		}
		was, err := s.service.GetVersion(r.Context(), a.ID, last)
		if err != nil {
			return nil, err
		}
		old.Apps = append(old.Apps, was)
	}
	for _, inner := range g.Groups {
		was, err := s.groupAsOf(r, inner, of, version)
		if err != nil {
			return nil, err
		}
		old.Groups = append(old.Groups, was)
	}
	return old, nil
}

func (s *apiServer) createGroup(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	id, g, o, err := s.readGroup(w, r, p.id)
	if err != nil {
		return err
	}
	switch _, err := s.getGroup(r, id); {
	case err == nil:
		return newProblem(http.StatusConflict, "Group %s is already created. Use PUT to change this group.", id)
	case problemOf(err).Status != http.StatusNotFound:
		return err
	}
	switch _, err := s.getApp(r, id); {
	case err == nil:
		return newProblem(http.StatusConflict, "An app with the path %s already exists.", id)
	case problemOf(err).Status != http.StatusNotFound:
		return err
	}
	d, err := s.service.PutGroup(r.Context(), id, g, GroupOptions{Force: o.Force})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v2/groups"+id)
	s.answerDeployment(w, http.StatusCreated, d)
	return nil
}

// readGroup reads a group and its id. The id in the body may be relative to that in the path.
func (s *apiServer) readGroup(w http.ResponseWriter, r *http.Request, base string) (id string, g *marathon.Group, o GroupOptions, err error) {
	if o.Force, err = readBoolParam(r.URL.Query(), "force", false); err != nil {
		return "", nil, o, err
	}
	if o.DryRun, err = readBoolParam(r.URL.Query(), "dryRun", false); err != nil {
		return "", nil, o, err
	}
	data, err := readBody(w, r)
	if err != nil {
		return "", nil, o, err
	}
	id = marathon.ReadID(data, base)
	settings, err := s.parseSettings(r, id)
	if err != nil {
		return "", nil, o, err
	}
	g, err = marathon.ParseGroup(data, base, settings)
	return id, g, o, err
}

func (s *apiServer) putGroup(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	id, g, o, err := s.readGroup(w, r, p.id)
	if err != nil {
		return err
	}
	d, err := s.service.PutGroup(r.Context(), id, g, o)
	switch {
	case err != nil && g.Version != "" && problemOf(err).Status == http.StatusNotFound:
		return newProblem(http.StatusUnprocessableEntity, "Group %s not available in version %s", id, g.Version)
	case err != nil:
		return orNotFound(err, "Group '%s' does not exist", id)
	}
	if o.DryRun {
		s.writeJSON(w, http.StatusOK, map[string][]deploy.PlanStep{"steps": emptyIfNil(d.Steps)})
		return nil
	}
	s.answerDeployment(w, http.StatusOK, d)
	return nil
}

func (s *apiServer) removeGroup(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	force, err := readBoolParam(r.URL.Query(), "force", false)
	if err != nil {
		return err
	}
	d, err := s.service.RemoveGroup(r.Context(), p.id, force)
	if err != nil {
		return orNotFound(err, "Group '%s' does not exist", p.id)
	}
	s.answerDeployment(w, http.StatusOK, d)
	return nil
}
