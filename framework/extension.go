package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/web"
	"mesos-gpu/internal/writedeadline"
)

// Extension is a part of the scheduler that keeps more than jobs, such as
// services by Marathon's definitions. Its requests are answered where it
// leads; other schedulers pass them on.
type Extension interface {
	http.Handler
	// Paths are those that it answers, with all that is below them.
	Paths() []string
	// Lead runs while this scheduler leads: until ctx ends, or it cannot go
	// on, which ends the scheduler too.
	Lead(ctx context.Context, c *leader.ExtensionHandle) error
}

// newHandler is the API with the extension's part.
func (s *Scheduler) newHandler() http.Handler {
	v1 := web.NewHandler(s.cfg.API.newHandler(s.currentBackend, s.cfg.Log))
	if s.cfg.Extension == nil {
		return v1
	}
	guarded := api.RejectCrossOrigin(http.HandlerFunc(s.serveExtension), s.cfg.Log)
	paths := s.cfg.Extension.Paths()
	// http.ServeMux would send clients elsewhere for //, which the ids of apps
	// often have in front of them.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		under := func(p string) bool { return r.URL.Path == p || strings.HasPrefix(r.URL.Path, p+"/") }
		if slices.ContainsFunc(paths, under) {
			guarded.ServeHTTP(w, r)
			return
		}
		v1.ServeHTTP(w, r)
	})
}

// forwardedHeader marks a request of another scheduler, which took this one for the
// leader.
const forwardedHeader = "Mesos-Gpu-Passed-On"

// pingPath is Marathon's liveness endpoint, which load
// balancers ask without a token.
const pingPath = "/ping"

// serveExtension answers for the extension, or has the leader do it.
func (s *Scheduler) serveExtension(w http.ResponseWriter, r *http.Request) {
	if err := api.CheckAnyAccess(api.GrantOf(r.Context())); err != nil && r.URL.Path != pingPath {
		api.WriteProblem(w, r, err, s.cfg.Log)
		return
	}
	if s.currentBackend().Leader != nil {
		s.cfg.Extension.ServeHTTP(w, r)
		return
	}
	to, err := s.leaderURL(r)
	if err != nil {
		writeUnavailable(w, err)
		return
	}
	(&httputil.ReverseProxy{
		Transport:     s.security.leaderTransport,
		FlushInterval: -1, // event streams
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.SetXForwarded()
			p.Out.Header.Set(forwardedHeader, s.url)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			writeUnavailable(w, fmt.Errorf("pass the request on to %s, which leads: %w", to, err))
		},
	}).ServeHTTP(writedeadline.DeadlineWriter{ResponseWriter: w, Patience: responseWriteTimeout}, r)
}

// leaderURL is where the scheduler that leads answers.
func (s *Scheduler) leaderURL(r *http.Request) (*url.URL, error) {
	b := s.currentBackend()
	if b.Reads == nil {
		return nil, b.Redirect(r.Context())
	}
	h, err := b.Reads.GetHealth(r.Context())
	switch {
	case err != nil:
		return nil, err
	case h.LeaderURL == "":
		return nil, errors.New("no scheduler leads now")
	case h.LeaderURL == s.url || r.Header.Get(forwardedHeader) != "":
		return nil, errors.New("this scheduler does not lead yet")
	}
	to, err := url.Parse(h.LeaderURL)
	if err == nil && r.Header.Get("Authorization") != "" && !client.IsConfidential(to) {
		return nil, fmt.Errorf("the scheduler that leads answers at %s without TLS, and a token would be seen on the way: give it a certificate", to)
	}
	return to, err
}

// CheckAccess says what is in the way of a request to an extension, whose context it
// is: of seeing what is of a role or, with change, of changing it.
func CheckAccess(ctx context.Context, change bool, role string) error {
	p := access.View
	if change {
		p = access.Operate
		api.AuditNoteOf(ctx).Role = role
	}
	return api.CheckRoleAccess(api.GrantOf(ctx), p, role)
}

// writeUnavailable says why, in a form that clients of Marathon read too.
func writeUnavailable(w http.ResponseWriter, why error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": why.Error() + ": ask again"}) // the client that went away learns nothing more
}

// responseWriteTimeout is how long a reader may take for what is written to it.
const responseWriteTimeout = time.Minute
