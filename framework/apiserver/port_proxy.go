package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
)

// proxyPattern is the path of requests that are passed on to a task's port.
const proxyPattern = "/v1/jobs/{reference}/tasks/{task}/proxy/{port}/{path...}"

const (
	// proxyDepth is the number of slashes before the path that the task gets.
	proxyDepth = 8
	// maxProxyHeader limits the header of a task's response, in bytes.
	maxProxyHeader = 64 << 10
)

// proxyRoute returns the permission of requests to a task's port, the same as for handleExec.
func proxyRoute() *route {
	return &route{request: proxyPattern, permission: access.Operate, scope: ifExecEnabled(requireOnJob)}
}

// serveProxy passes a request on to a port of a running task, and its answer back.
//
// The answer has the origin of the API, so a browser must not run it with the rights of
// its user. Therefore requests from pages, also from pages of tasks, are rejected; the
// task receives no credential, its answer sets none, and a browser that opens the answer
// treats it as a page without scripts of an origin of its own.
func (s *apiServer) serveProxy(w http.ResponseWriter, r *http.Request) {
	if err := s.passToTask(w, r); err != nil {
		apihttp.WriteProblem(w, r, err, s.log)
	}
}

// passToTask checks a request as handleExec does and proxies it. It returns an error only before it has written anything.
func (s *apiServer) passToTask(w http.ResponseWriter, r *http.Request) error {
	if err := s.authorizeRequest(r, proxyRoute()); err != nil {
		return err
	}
	if err := checkSameOrigin(r); err != nil {
		return err
	}
	leader, spec, task, err := s.findExecTarget(r.Context(), r.PathValue(runOfPath), r.PathValue("task"))
	if err != nil {
		return err
	}
	port := r.PathValue("port")
	if port == firstPort {
		port = ""
	}
	if _, err := spec.ConnectAddresses(&task, port); err != nil {
		return api.NewProblemf(http.StatusConflict, "%v", err)
	}
	note := apihttp.AuditNoteOf(r.Context())
	note.Job, note.Task = task.Job, task.ID
	parts := strings.SplitN(r.URL.EscapedPath(), "/", proxyDepth+1)
	prefix, rest := strings.Join(parts[:proxyDepth], "/"), "/"+parts[proxyDepth]
	target, err := url.Parse("http://task" + rest)
	if err != nil {
		return api.NewProblemf(http.StatusBadRequest, "%v", err)
	}
	target.RawQuery = r.URL.RawQuery
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return leader.Streams.OpenPort(ctx, task.RunID().String(), task.Index, port)
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxProxyHeader,
	}
	defer leader.Streams.TrackConnection(task.RunID().String())()
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a body may be long
	proxy := &httputil.ReverseProxy{
		Transport: finalResponses{transport}, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = target, "localhost"
			removeCredentials(p.Out.Header)
		},
		ModifyResponse: func(res *http.Response) error { return containResponse(res, target, prefix) },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if p := (*api.Problem)(nil); !errors.As(err, &p) {
				err = api.NewProblemf(http.StatusBadGateway, "task %s: %v", task.ID, err)
			}
			apihttp.WriteProblem(w, r, err, s.log)
		},
	}
	proxy.ServeHTTP(w, r)
	return nil
}

// finalResponses omits informational responses, which would pass on headers that
// containResponse does not see.
type finalResponses struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper. The proxy observes informational responses by a
// value of the context.
func (f finalResponses) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
	return f.RoundTripper.RoundTrip(r.WithContext(ctx))
}

// firstPort is the first port of the job, in the path.
const firstPort = "-"

// removeCredentials removes what a browser or client sends for the API alone.
func removeCredentials(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Sec-Fetch-") || slices.Contains([]string{"Authorization", "Cookie", "Origin", "Referer", "If-Match", api.IdempotencyKey}, name) {
			h.Del(name)
		}
	}
}

// passedHeaders are the headers of a task's answer that a client receives. Others could
// set cookies, weaken the checks of origins, or ask for the API's credentials.
var passedHeaders = []string{
	"Accept-Ranges", "Cache-Control", "Connection", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length",
	"Content-Range", "Content-Type", "Date", "Etag", "Expires", "Last-Modified", "Retry-After", "Sec-Websocket-Accept",
	"Sec-Websocket-Extensions", "Sec-Websocket-Protocol", "Upgrade", "Vary",
}

// containResponse removes from a task's answer what has effects outside of it. Redirects
// stay below prefix, the path of the task's root.
func containResponse(res *http.Response, target *url.URL, prefix string) error {
	location := res.Header.Get("Location")
	for name := range res.Header {
		if !slices.Contains(passedHeaders, name) {
			res.Header.Del(name)
		}
	}
	res.Trailer = nil
	res.Header.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	res.Header.Set("X-Content-Type-Options", "nosniff")
	res.Header.Set("Cross-Origin-Resource-Policy", "same-origin")
	res.Header.Set("Referrer-Policy", "no-referrer")
	if location == "" {
		return nil
	}
	to, err := target.Parse(location)
	if err != nil {
		return fmt.Errorf("it redirects to %q, which is no URL", location)
	}
	if to.Scheme != "http" || to.Host != target.Host && to.Hostname() != "localhost" && to.Hostname() != "127.0.0.1" || to.User != nil {
		return fmt.Errorf("it redirects to %s, outside of the task", to.Redacted())
	}
	clean := path.Clean("/" + to.Path)
	if strings.HasSuffix(to.Path, "/") && clean != "/" {
		clean += "/"
	}
	local := url.URL{Path: clean, RawQuery: to.RawQuery, Fragment: to.Fragment}
	res.Header.Set("Location", prefix+local.EscapedPath())
	if suffix := (&url.URL{RawQuery: local.RawQuery, Fragment: local.Fragment}).String(); suffix != "" {
		res.Header.Set("Location", prefix+local.EscapedPath()+suffix)
	}
	return nil
}
