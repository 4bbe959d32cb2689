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

type changer func(ctx context.Context, id string, force bool) (deploy.Deployment, error)

func (s *server) create(w http.ResponseWriter, r *http.Request) error {
	force, err := whether(r.URL.Query(), "force", false)
	if err != nil {
		return err
	}
	data, err := body(w, r)
	if err != nil {
		return err
	}
	settings, err := s.service.Settings(r.Context(), sentID(data, "/"))
	if err != nil {
		return err
	}
	app, err := marathon.Parse(data, settings)
	if err != nil {
		return err
	}
	d, made, err := s.service.Update(r.Context(), func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		if stored(app.ID) != nil {
			return nil, problemf(http.StatusConflict, "An app with id [%s] already exists.", app.ID)
		}
		return []*marathon.App{app}, nil
	}, force)
	if err != nil {
		return err
	}
	s.posted(r, made)
	return s.created(w, app, d)
}

// sentID is the id that a definition gives itself, from the group base; Parse
// says what is wrong with one that has none.
func sentID(data []byte, base string) string {
	var sent struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(data, &sent) != nil {
		return base
	}
	return marathon.Absolute(sent.ID, base)
}

// created answers with the app as the deployment begins it, whatever has
// become of it since.
func (s *server) created(w http.ResponseWriter, app *marathon.App, d deploy.Deployment) error {
	now := *app
	now.Version = d.Version
	now.VersionInfo = &marathon.VersionInfo{LastScalingAt: d.Version, LastConfigChangeAt: d.Version}
	w.Header().Set("Location", "/v2/apps"+app.ID)
	w.Header().Set(deploymentHeader, d.ID)
	s.answer(w, http.StatusCreated, s.info(App{App: &now, Deployments: []string{d.ID}}, embeds{counts: true, deployments: true}))
	return nil
}

// posted tells of a request that has given apps a definition. That is done by
// then, whoever hears of it.
func (s *server) posted(r *http.Request, apps []*marathon.App) {
	for _, a := range apps {
		s.tell(APIPost{ClientIP: clientIP(r), URI: r.URL.Path, App: a})
	}
}

func clientIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (s *server) put(w http.ResponseWriter, r *http.Request, p place) error {
	partial, err := whether(r.URL.Query(), "partialUpdate", true)
	if err != nil {
		return err
	}
	return s.updateOne(w, r, p.id, how{partial: partial, create: true})
}

func (s *server) patch(w http.ResponseWriter, r *http.Request, p place) error {
	return s.updateOne(w, r, p.id, how{partial: true})
}

// how an update is meant: partial ones change the fields they have, others
// are whole definitions; create allows apps that are not there yet.
type how struct{ partial, create, force bool }

// update is one app's, read as far as can be without the stored app.
type update struct {
	how
	id       string
	sent     patch
	settings marathon.Settings
	// back is the earlier version that the update asks for, else nil.
	back *marathon.App
}

func (s *server) updateOne(w http.ResponseWriter, r *http.Request, id string, h how) error {
	data, err := body(w, r)
	if err != nil {
		return err
	}
	if h, err = h.forced(r.URL.Query()); err != nil {
		return err
	}
	u, err := s.readUpdate(r, id, data, h)
	if err != nil {
		return err
	}
	status := http.StatusOK
	d, made, err := s.service.Update(r.Context(), func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		status = http.StatusOK
		if stored(id) == nil {
			status = http.StatusCreated
		}
		app, err := u.apply(stored(id))
		return []*marathon.App{app}, err
	}, h.force)
	if err != nil {
		return err
	}
	if status == http.StatusCreated {
		w.Header().Set("Location", "/v2/apps"+id)
	}
	s.posted(r, made)
	s.deployed(w, status, d)
	return nil
}

func (h how) forced(q url.Values) (how, error) {
	var err error
	h.force, err = whether(q, "force", false)
	return h, err
}

func (s *server) readUpdate(r *http.Request, id string, data []byte, h how) (*update, error) {
	settings, err := s.service.Settings(r.Context(), id)
	if err != nil {
		return nil, err
	}
	sent, err := readPatch(data, settings)
	if err != nil {
		return nil, err
	}
	u := &update{how: h, id: id, sent: sent, settings: settings}
	if !h.partial {
		return u, nil
	}
	version, err := sent.version()
	if err != nil || version == "" {
		return u, err
	}
	u.back, err = s.service.Version(r.Context(), id, version)
	return u, orNotFound(err, "App '%s' does not exist in version %s", id, version)
}

// apply makes the app that is wanted of the one there is, nil for none.
func (u *update) apply(stored *marathon.App) (*marathon.App, error) {
	switch {
	case stored == nil && (!u.create || u.back != nil):
		return nil, notFound("App '%s' does not exist", u.id)
	case u.back != nil:
		return u.back, nil
	case stored != nil && u.partial:
		return merge(stored, u.sent, u.settings)
	}
	return complete(u.sent, u.id, u.settings)
}

func (s *server) putAll(w http.ResponseWriter, r *http.Request) error {
	partial, err := whether(r.URL.Query(), "partialUpdate", true)
	if err != nil {
		return err
	}
	return s.updateMany(w, r, how{partial: partial, create: true})
}

func (s *server) patchAll(w http.ResponseWriter, r *http.Request) error {
	return s.updateMany(w, r, how{partial: true})
}

func (s *server) updateMany(w http.ResponseWriter, r *http.Request, h how) error {
	data, err := body(w, r)
	if err != nil {
		return err
	}
	if h, err = h.forced(r.URL.Query()); err != nil {
		return err
	}
	updates, err := s.readUpdates(r, data, h)
	if err != nil {
		return err
	}
	d, _, err := s.service.Update(r.Context(), func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		return applyAll(updates, stored)
	}, h.force)
	if err != nil {
		return err
	}
	s.deployed(w, http.StatusOK, d) // Marathon tells of no request for many apps
	return nil
}

func (s *server) readUpdates(r *http.Request, data []byte, h how) ([]*update, error) {
	var each []json.RawMessage
	if err := json.Unmarshal(data, &each); err != nil {
		if json.Valid(data) {
			return nil, unprocessable("/", "an array of apps is wanted here")
		}
		return nil, &marathon.Malformed{Cause: err}
	}
	var updates []*update
	seen := map[string]bool{}
	for i, one := range each {
		id := sentID(one, "/")
		switch {
		case id == "/":
			return nil, unprocessable(fmt.Sprintf("(%d)/id", i), "it is needed")
		case seen[id]:
			return nil, unprocessable(fmt.Sprintf("(%d)/id", i), "%s is there twice", id)
		}
		seen[id] = true
		u, err := s.readUpdate(r, id, one, h)
		if err != nil {
			return nil, within(err, i)
		}
		updates = append(updates, u)
	}
	return updates, nil
}

func applyAll(updates []*update, stored func(string) *marathon.App) ([]*marathon.App, error) {
	var apps []*marathon.App
	for i, u := range updates {
		app, err := u.apply(stored(u.id))
		if err != nil {
			return nil, within(err, i)
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// within says in which element of the array a definition is wrong.
func within(err error, i int) error {
	var invalid *marathon.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	moved := &marathon.Invalid{Message: invalid.Message}
	for _, d := range invalid.Details {
		d.Path = fmt.Sprintf("(%d)%s", i, d.Path)
		moved.Details = append(moved.Details, d)
	}
	return moved
}
