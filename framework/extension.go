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
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/web"
	"mesos-gpu/internal/writedeadline"
)

// Extension is an optional part of the scheduler that manages more than jobs,
// such as services with Marathon definitions. The leader's extension serves the
// requests; standbys forward them to the leader.
type Extension interface {
	http.Handler
	// Paths returns the paths that the extension serves, including everything
	// below them.
	Paths() []string
	// Lead runs while this scheduler leads. It returns when ctx ends; an
	// earlier error ends the scheduler.
	Lead(ctx context.Context, c *leader.ExtensionHandle) error
}

// newHandler returns the handler of the API, the web page and the extension.
func (s *Scheduler) newHandler() http.Handler {
	v1 := web.NewHandler(s.cfg.API.newHandler(s.currentBackend, s.security.gate, s.cfg.Log))
	limits := s.limits.RequestLimits
	limits.Usage = s.cfg.counters
	return apiserver.LimitRequests(s.withExtension(v1), limits, s.cfg.Log)
}

// withExtension returns the handler of v1 and, if there is one, of the extension.
func (s *Scheduler) withExtension(v1 http.Handler) http.Handler {
	if s.cfg.Extension == nil {
		return v1
	}
	guarded := apiserver.RejectCrossOrigin(http.HandlerFunc(s.serveExtension), s.cfg.Log)
	paths := s.cfg.Extension.Paths()
	// http.ServeMux would redirect paths that contain //, which is common before
	// app ids.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		under := func(p string) bool { return r.URL.Path == p || strings.HasPrefix(r.URL.Path, p+"/") }
		if slices.ContainsFunc(paths, under) {
			guarded.ServeHTTP(w, r)
			return
		}
		v1.ServeHTTP(w, r)
	})
}

// forwardedHeader marks a request that another scheduler forwarded to this one
// because it took this one for the leader. It is not forwarded again.
const forwardedHeader = "Mesos-Gpu-Passed-On"

// pingPath is Marathon's liveness endpoint. Load balancers request it without a
// token.
const pingPath = "/ping"

// serveExtension serves a request by the extension, or forwards it to the leader.
func (s *Scheduler) serveExtension(w http.ResponseWriter, r *http.Request) {
	g := apihttp.GrantOf(r.Context())
	err := request.CheckAnyAccess(g)
	if err == nil && !g.CanRunAs("") { // an app has no owner as whom it could run
		err = request.CheckRoleAccess(g, access.Admin, admission.AllRoles)
	}
	if err != nil && r.URL.Path != pingPath {
		apihttp.WriteProblem(w, r, err, s.cfg.Log)
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

// leaderURL returns the URL of the leader's API.
func (s *Scheduler) leaderURL(r *http.Request) (*url.URL, error) {
	b := s.currentBackend()
	if b.Reads == nil {
		return nil, b.Redirect(r.Context())
	}
	h, err := b.Reads.Status.GetHealth(r.Context())
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
		return nil, fmt.Errorf("the leader serves %s without TLS, which would expose the token: configure a certificate", to)
	}
	return to, err
}

// CheckAccess returns an error if the request has no permission p on objects of role. ctx is
// the context of a request to an extension.
func CheckAccess(ctx context.Context, p access.Permission, role string) error {
	if p > access.View {
		apihttp.AuditNoteOf(ctx).Role = role
	}
	return request.CheckRoleAccess(apihttp.GrantOf(ctx), p, role)
}

// UserOf returns the name of the user of a request to an extension, "" if it is unknown. ctx is the context of the request.
func UserOf(ctx context.Context) string { return apihttp.GrantOf(ctx).UserName() }

// CheckOutputAccess returns an error if the requester may not read the output and all fields of an object of role that has no
// owner. ctx is the context of a request to an extension.
func CheckOutputAccess(ctx context.Context, role string) error {
	g := apihttp.GrantOf(ctx)
	return request.CheckPermission(g, g.CanReadOutput(role, ""), access.Operate, "role "+role)
}

// writeUnavailable answers 503 with the reason, in a form that Marathon clients
// read too.
func writeUnavailable(w http.ResponseWriter, why error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": why.Error() + ": ask again"}) // fails only if the client disconnected
}

// responseWriteTimeout is how long one write to a client may block.
const responseWriteTimeout = time.Minute
