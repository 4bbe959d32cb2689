package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

type changeFunc func(ctx context.Context, id string, force bool) (deploy.Deployment, error)

func (s *apiServer) createApp(w http.ResponseWriter, r *http.Request) error {
	force, err := readBoolParam(r.URL.Query(), "force", false)
	if err != nil {
		return err
	}
	data, err := readBody(w, r)
	if err != nil {
		return err
	}
	settings, err := s.parseSettings(r, marathon.ReadID(data, "/"))
	if err != nil {
		return err
	}
	app, err := marathon.ParseApp(data, settings)
	if err != nil {
		return err
	}
	d, made, err := s.service.UpdateApps(r.Context(), func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		if stored(app.ID) != nil {
			return nil, newProblem(http.StatusConflict, "An app with id [%s] already exists.", app.ID)
		}
		return []*marathon.App{app}, nil
	}, force)
	if err != nil {
		return err
	}
	s.publishAPIPosts(r, made)
	if len(made) == 1 {
		app = made[0] // with its service ports
	}
	return s.answerCreated(w, app, d)
}

// answerCreated answers with the app as it is when its deployment starts.
func (s *apiServer) answerCreated(w http.ResponseWriter, app *marathon.App, d deploy.Deployment) error {
	now := *app
	now.Version = d.Version
	now.VersionInfo = &marathon.VersionInfo{LastScalingAt: d.Version, LastConfigChangeAt: d.Version}
	w.Header().Set("Location", "/v2/apps"+app.ID)
	w.Header().Set(deploymentHeader, d.ID)
	s.writeJSON(w, http.StatusCreated, s.describeApp(AppStatus{App: &now, Deployments: []string{d.ID}}, embedOptions{counts: true, deployments: true}))
	return nil
}

// publishAPIPosts publishes that a request has defined apps. The change is already recorded.
func (s *apiServer) publishAPIPosts(r *http.Request, apps []*marathon.App) {
	for _, a := range apps {
		s.publishEvent(APIPost{ClientIP: clientIP(r), URI: r.URL.Path, App: a})
	}
}

func clientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (s *apiServer) putApp(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	partial, err := readBoolParam(r.URL.Query(), "partialUpdate", true)
	if err != nil {
		return err
	}
	return s.updateApp(w, r, p.id, updateMode{partial: partial, create: true})
}

func (s *apiServer) patchApp(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	return s.updateApp(w, r, p.id, updateMode{partial: true})
}

// updateMode is how an update is applied: partial ones change the fields that they contain,
// others are whole definitions. create allows new apps.
type updateMode struct{ partial, create, force bool }

// appUpdate is the update of one app before it is applied to the stored app.
type appUpdate struct {
	updateMode
	id       string
	sent     appPatch
	settings marathon.ParseSettings
	// back is the earlier version that the update requests, or nil.
	back *marathon.App
}

func (s *apiServer) updateApp(w http.ResponseWriter, r *http.Request, id string, h updateMode) error {
	data, err := readBody(w, r)
	if err != nil {
		return err
	}
	if h, err = h.withForce(r.URL.Query()); err != nil {
		return err
	}
	u, err := s.readUpdate(r, id, data, h)
	if err != nil {
		return err
	}
	status := http.StatusOK
	d, made, err := s.service.UpdateApps(r.Context(), func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		status = http.StatusOK
		if stored(id) == nil {
			status = http.StatusCreated
		}
		app, err := u.applyTo(stored(id))
		return []*marathon.App{app}, err
	}, h.force)
	if err != nil {
		return err
	}
	if status == http.StatusCreated {
		w.Header().Set("Location", "/v2/apps"+id)
	}
	s.publishAPIPosts(r, made)
	s.answerDeployment(w, status, d)
	return nil
}

func (m updateMode) withForce(q url.Values) (updateMode, error) {
	var err error
	m.force, err = readBoolParam(q, "force", false)
	return m, err
}

func (s *apiServer) readUpdate(r *http.Request, id string, data []byte, h updateMode) (*appUpdate, error) {
	settings, err := s.parseSettings(r, id)
	if err != nil {
		return nil, err
	}
	sent, err := readPatch(data, settings)
	if err != nil {
		return nil, err
	}
	u := &appUpdate{updateMode: h, id: id, sent: sent, settings: settings}
	if !h.partial {
		return u, nil
	}
	version, err := sent.requestedVersion()
	if err != nil || version == "" {
		return u, err
	}
	u.back, err = s.service.GetVersion(r.Context(), id, version)
	return u, orNotFound(err, "App '%s' does not exist in version %s", id, version)
}

// applyTo returns the new definition of an app, whose stored definition may be nil.
func (u *appUpdate) applyTo(stored *marathon.App) (*marathon.App, error) {
	switch {
	case stored == nil && (!u.create || u.back != nil):
		return nil, notFound("App '%s' does not exist", u.id)
	case u.back != nil:
		return u.back, nil
	case stored != nil && u.partial:
		return mergePatch(stored, u.sent, u.settings)
	}
	return parseComplete(u.sent, u.id, u.settings)
}

func (s *apiServer) putApps(w http.ResponseWriter, r *http.Request) error {
	partial, err := readBoolParam(r.URL.Query(), "partialUpdate", true)
	if err != nil {
		return err
	}
	return s.updateApps(w, r, updateMode{partial: partial, create: true})
}

func (s *apiServer) patchApps(w http.ResponseWriter, r *http.Request) error {
	return s.updateApps(w, r, updateMode{partial: true})
}

func (s *apiServer) updateApps(w http.ResponseWriter, r *http.Request, h updateMode) error {
	data, err := readBody(w, r)
	if err != nil {
		return err
	}
	if h, err = h.withForce(r.URL.Query()); err != nil {
		return err
	}
	updates, err := s.readUpdates(r, data, h)
	if err != nil {
		return err
	}
	d, _, err := s.service.UpdateApps(r.Context(), func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		return applyUpdates(updates, stored)
	}, h.force)
	if err != nil {
		return err
	}
	s.answerDeployment(w, http.StatusOK, d) // Marathon publishes no event for several apps
	return nil
}

func (s *apiServer) readUpdates(r *http.Request, data []byte, h updateMode) ([]*appUpdate, error) {
	var each []json.RawMessage
	if err := json.Unmarshal(data, &each); err != nil {
		if json.Valid(data) {
			return nil, invalidAt("/", "an array of apps is wanted here")
		}
		return nil, &marathon.SyntaxError{Cause: err}
	}
	var updates []*appUpdate
	seen := map[string]bool{}
	for i, one := range each {
		id := marathon.ReadID(one, "/")
		switch {
		case id == "/":
			return nil, invalidAt(fmt.Sprintf("(%d)/id", i), "it is needed")
		case seen[id]:
			return nil, invalidAt(fmt.Sprintf("(%d)/id", i), "%s is there twice", id)
		}
		seen[id] = true
		u, err := s.readUpdate(r, id, one, h)
		if err != nil {
			return nil, inElement(err, i)
		}
		updates = append(updates, u)
	}
	return updates, nil
}

func applyUpdates(updates []*appUpdate, stored func(string) *marathon.App) ([]*marathon.App, error) {
	var apps []*marathon.App
	for i, u := range updates {
		app, err := u.applyTo(stored(u.id))
		if err != nil {
			return nil, inElement(err, i)
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// inElement adds the index of the array's element to the paths of an error.
func inElement(err error, i int) error {
	var invalid *marathon.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	moved := &marathon.ValidationError{Message: invalid.Message}
	for _, d := range invalid.Details {
		d.Path = fmt.Sprintf("(%d)%s", i, d.Path)
		moved.Details = append(moved.Details, d)
	}
	return moved
}
