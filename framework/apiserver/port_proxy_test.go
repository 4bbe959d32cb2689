package apiserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/internal/portrelay"
	"mesos-gpu/job"
)

// proxyBackend is a scheduler with the running job train. Its port web is that of a server of the test.
type proxyBackend struct {
	*fakeBackend
	address   string
	connected *atomic.Int32
}

func (b proxyBackend) GetJob(context.Context, string) (api.JobView, error) {
	spec := job.Spec{Name: "train", Container: job.Container{Ports: []job.Port{{Name: "web"}, {Name: "closed"}}}}
	return api.NewJobView(&job.Job{Spec: new(spec), Tasks: []job.Task{{ID: "train.0", Job: "train", State: job.Running, Ports: []int{31000, 31001}}}}, ""), nil
}

func (b proxyBackend) OpenPort(_ context.Context, _ string, _ int, port string) (portrelay.HalfCloser, error) {
	if port == "closed" {
		return nil, api.NewProblemf(http.StatusConflict, "it accepts no connections").WithCode(api.CodePortClosed, "train.0")
	}
	conn, err := net.Dial("tcp", b.address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func (b proxyBackend) TrackConnection(string) func() {
	b.connected.Add(1)
	return func() { b.connected.Add(-1) }
}

// startProxy serves a task by a handler, and returns the URL of the API, in front of the task's path, and the backend.
func startProxy(t *testing.T, task http.HandlerFunc, options ...HandlerOption) (url string, b proxyBackend) {
	t.Helper()
	upstream := httptest.NewServer(task)
	t.Cleanup(upstream.Close)
	b = proxyBackend{&fakeBackend{whose: map[string][2]string{"train": {"research", "owner"}}}, strings.TrimPrefix(upstream.URL, "http://"), new(atomic.Int32)}
	s := httptest.NewServer(NewHandler(func() Backend { return newLeaderBackend(b) }, discardLogger(), options...))
	t.Cleanup(s.Close)
	return s.URL + "/v1/jobs/train/tasks/0/proxy/", b
}

// sendProxied sends a request without following redirects.
func sendProxied(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	return sendTraced(t, t.Context(), method, url, body, header...)
}

func sendTraced(t *testing.T, ctx context.Context, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// TestProxy checks what a task receives, and its answers.
func TestProxy(t *testing.T) {
	var b proxyBackend
	url, b := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if n := b.connected.Load(); n != 1 {
			t.Errorf("%d clients are counted, want 1", n)
		}
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Host, body)
	})
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "web/", "", "GET / localhost "},
		{"GET", "-/", "", "GET / localhost "},
		{"GET", "31000/a%2Fb/c%20d/?x=1&token=a%2Bb", "", "GET /a%2Fb/c%20d/?x=1&token=a%2Bb localhost "},
		{"POST", "web/api", "data", "POST /api localhost data"},
		{"DELETE", "web/api/1", "", "DELETE /api/1 localhost "},
		{"PATCH", "web/api/1", "x", "PATCH /api/1 localhost x"},
	} {
		res, body := sendProxied(t, tt.method, url+tt.path, tt.body)
		if res.StatusCode != http.StatusTeapot || body != tt.want {
			t.Errorf("%s %s: %d %q, want %q", tt.method, tt.path, res.StatusCode, body, tt.want)
		}
	}
	for path, want := range map[string]string{"closed/": "409 accepts no connections", "22/": "409 has no port", "127.0.0.1:22/": "409 has no port"} {
		res, body := sendProxied(t, "GET", url+path, "")
		if got := fmt.Sprint(res.StatusCode, " ", body); !strings.HasPrefix(got, want[:4]) || !strings.Contains(got, want[4:]) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if n := b.connected.Load(); n != 0 {
		t.Errorf("%d clients are counted after the last request", n)
	}
}

// TestProxyContainsHostileTask checks that a task gets no credential of its user, and that
// its page has no rights on the API: it has no scripts and another origin, sets no cookie,
// and requests of pages are rejected.
func TestProxyContainsHostileTask(t *testing.T) {
	requests := 0
	trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
		t.Errorf("the client receives a response %d with %v", code, header)
		return nil
	}})
	url, _ := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Link", "</v1/jobs>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		for name, values := range r.Header {
			switch name {
			case "Authorization", "Cookie", "Origin", "Referer", "Proxy-Authorization", "If-Match":
				t.Errorf("the task receives %s: %q", name, values)
			}
			if strings.HasPrefix(name, "Sec-Fetch-") || strings.HasPrefix(name, "X-Forwarded-") {
				t.Errorf("the task receives %s: %q", name, values)
			}
		}
		for name, value := range map[string]string{
			"Set-Cookie": "session=evil; Path=/", "Access-Control-Allow-Origin": "*", "Service-Worker-Allowed": "/", "Clear-Site-Data": `"*"`,
			"Content-Security-Policy": "default-src *", "Www-Authenticate": "Basic", "Refresh": "0;url=/v1/jobs", "Link": "</v1/jobs>; rel=preload",
			"Strict-Transport-Security": "max-age=1", "Alt-Svc": `h2="evil:443"`, "Content-Type": "text/html",
		} {
			w.Header().Set(name, value)
		}
		fmt.Fprint(w, `<script>fetch("/v1/jobs/train", {method: "DELETE"})</script>`)
	})
	own := strings.TrimSuffix(url, "/v1/jobs/train/tasks/0/proxy/")
	res, _ := sendTraced(t, trace, "GET", url+"web/", "", "Authorization", "Bearer secret", "Cookie", "a=b", "Referer", own+"/", "If-Match", "x",
		"Sec-Fetch-Site", "same-origin", "Origin", own, "X-Forwarded-For", "10.0.0.1", "Proxy-Authorization", "Basic x")
	for name := range res.Header {
		switch name {
		case "Content-Type", "Content-Length", "Date", "Content-Security-Policy", "X-Content-Type-Options", "Cross-Origin-Resource-Policy", "Referrer-Policy":
		default:
			t.Errorf("the client receives %s: %q", name, res.Header[name])
		}
	}
	policy := res.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "sandbox;") || strings.Contains(policy, "allow-") ||
		len(res.Header["Content-Security-Policy"]) != 1 || res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", res.Header)
	}
	if requests != 1 {
		t.Fatalf("%d requests, want 1", requests)
	}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site", "Origin", "null"},
		{"Origin", "null"}, {"Origin", "http://evil.example"}, append([]string{"Origin", "http://evil.example"}, upgrade...),
	} {
		for _, method := range []string{"GET", "POST"} {
			if res, body := sendProxied(t, method, url+"web/", "", header...); res.StatusCode != http.StatusForbidden || !strings.Contains(body, "another site's page") {
				t.Errorf("%s with %q: %d %s", method, header, res.StatusCode, body)
			}
		}
	}
	// The same for the API itself, in case a browser runs the page's script in its sandbox.
	if res, _ := sendProxied(t, "DELETE", own+"/v1/jobs/train", "", "Sec-Fetch-Site", "cross-site", "Origin", "null"); res.StatusCode != http.StatusForbidden {
		t.Errorf("a sandboxed page kills a job: %d", res.StatusCode)
	}
	if requests != 1 {
		t.Errorf("%d requests of pages reached the task", requests-1)
	}
}

// TestProxyContainsRedirects checks that redirects stay below the path of the task.
func TestProxyContainsRedirects(t *testing.T) {
	url, _ := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = []string{r.URL.Query().Get("to")}
		w.WriteHeader(http.StatusFound)
	})
	const root = "/v1/jobs/train/tasks/0/proxy/web"
	for to, want := range map[string]string{
		"/lab":                       root + "/lab",
		"/lab/?a=b%20c#d":            root + "/lab/?a=b%20c#d",
		"tree":                       root + "/dir/tree",
		"../x":                       root + "/x",
		"../../../../../v1/jobs":     root + "/v1/jobs",
		"/..%2f..%2f..%2fv1/jobs":    root + "/v1/jobs",
		"/%2e%2e/%2e%2e/":            root + "/",
		"http://localhost/lab":       root + "/lab",
		"http://localhost:31000/lab": root + "/lab",
		"http://task/lab":            root + "/lab",
		"?token=1":                   root + "/dir/page?token=1",
		"http://evil.example/":       "",
		"//evil.example/":            "",
		"https://localhost/":         "",
		"javascript:alert(1)":        "",
		"http://a@localhost/":        "",
		"http://[/":                  "",
		`/\evil.example`:             root + "/%5Cevil.example",
	} {
		r, _ := sendProxied(t, "GET", url+"web/dir/page?to="+strings.NewReplacer("%", "%25", "#", "%23", "&", "%26", "+", "%2B", " ", "%20").Replace(to), "")
		status := http.StatusFound
		if want == "" {
			status = http.StatusBadGateway
		}
		if got := r.Header.Get("Location"); got != want || r.StatusCode != status {
			t.Errorf("%s: %d to %q, want %d to %q", to, r.StatusCode, got, status, want)
		}
	}
}

// TestProxyWebSocket checks a WebSocket to a task.
func TestProxyWebSocket(t *testing.T) {
	url, b := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			kind, data, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			if err := conn.Write(r.Context(), kind, append([]byte("echo "), data...)); err != nil {
				return
			}
		}
	})
	conn, _, err := websocket.Dial(t.Context(), url+"web/kernel?token=t", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	for _, text := range []string{"one", "two"} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := conn.Read(t.Context()); err != nil || string(data) != "echo "+text {
			t.Errorf("got %q, %v", data, err)
		}
	}
	if n := b.connected.Load(); n != 1 {
		t.Errorf("%d clients are counted, want 1", n)
	}
}

// TestProxyPermissions checks that a port needs the permission of exec, and that exec can
// be disabled.
func TestProxyPermissions(t *testing.T) {
	url, b := startProxy(t, func(http.ResponseWriter, *http.Request) { t.Error("the task received the request") }, WithoutExec())
	if res, body := sendProxied(t, "GET", url+"web/", ""); res.StatusCode != http.StatusForbidden || !strings.Contains(body, "--exec=false") {
		t.Errorf("without exec: %d %s", res.StatusCode, body)
	}
	h := NewHandler(func() Backend { return newLeaderBackend(b) }, discardLogger())
	for user, want := range map[string]int{"": 401, "stranger": 404, "viewer": 403, "submitter": 403, "operator": 409} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/jobs/train/tasks/0/proxy/closed/", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(apihttp.WithGrant(r.Context(), rolePolicy().GrantFor(access.Identity{Name: user}))))
		if w.Code != want {
			t.Errorf("%q: %d %s, want %d", user, w.Code, w.Body, want)
		}
	}
}
