package executor

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/job"
)

// addressedTask is a task that listens on real ports.
type addressedTask struct {
	probedRuntime
	host string
}

func (a addressedTask) ProbeAddress() string { return a.host }

// HTTP and TCP probes against a real server.
func TestHTTPAndTCPProbes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/well":
		case "/moved": // to where nothing answers
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		default:
			http.Error(w, "ill", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	host, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	port := uint32(number)
	byHTTP := func(c mesos.HealthCheck_HTTPCheckInfo) mesos.HealthCheck {
		c.Port = port
		return mesos.HealthCheck{Type: mesos.HealthCheck_HTTP, HTTP: &c}
	}
	byTCP := func(port uint32) mesos.HealthCheck {
		return mesos.HealthCheck{Type: mesos.HealthCheck_TCP, TCP: &mesos.HealthCheck_TCPCheckInfo{Port: port}}
	}
	code := func(code uint32) *mesos.CheckStatusInfo {
		return &mesos.CheckStatusInfo{Type: mesos.CheckInfo_HTTP.Enum(), HTTP: &mesos.CheckStatusInfo_Http{StatusCode: &code}}
	}
	listens := func(ok bool) *mesos.CheckStatusInfo {
		return &mesos.CheckStatusInfo{Type: mesos.CheckInfo_TCP.Enum(), TCP: &mesos.CheckStatusInfo_Tcp{Succeeded: &ok}}
	}
	tests := []struct {
		name, host, problem string
		check               mesos.HealthCheck
		found               *mesos.CheckStatusInfo
	}{
		{"http", host, "", byHTTP(mesos.HealthCheck_HTTPCheckInfo{Path: ptr("/well")}), code(200)},
		{"http, bad answer", host, "GET /ill answered 503", byHTTP(mesos.HealthCheck_HTTPCheckInfo{Path: ptr("/ill")}), code(503)},
		{"http, redirect is not followed", host, "", byHTTP(mesos.HealthCheck_HTTPCheckInfo{Path: ptr("/moved")}), code(302)},
		{"http, its own statuses", host, "", byHTTP(mesos.HealthCheck_HTTPCheckInfo{Statuses: []uint32{503}}), code(503)},
		{"http, no answer", host, "HTTP response to HTTPS client", byHTTP(mesos.HealthCheck_HTTPCheckInfo{Scheme: ptr("https")}), nil},
		{"tcp", host, "", byTCP(port), listens(true)},
		{"tcp without a listener", host, "connection refused", byTCP(1), listens(false)},
		{"tcp without a listener, IPv6", host, "[::1]:1", mesos.HealthCheck{Type: mesos.HealthCheck_TCP,
			TCP: &mesos.HealthCheck_TCPCheckInfo{Port: 1, Protocol: mesos.IPv6.Enum()}}, listens(false)},
		{"no network", "", "use COMMAND", byTCP(port), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			try, err := newProbe(&tt.check, job.Docker, addressedTask{probedRuntime{}, tt.host})
			var found *mesos.CheckStatusInfo
			if err == nil {
				found, err = try(t.Context())
			}
			if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("got %v, want %q in it", err, tt.problem)
			}
			if diff := cmp.Diff(tt.found, found); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// A check's arguments exclude the program's name under Docker and include it under Mesos.
func TestCheckArguments(t *testing.T) {
	no := false
	tests := []struct {
		name    string
		command mesos.CommandInfo
		by      job.Containerizer
		want    string
	}{
		{"shell", mesos.CommandInfo{Value: ptr("a b")}, job.Mesos, "/bin/sh|-c|a b"},
		{"docker", mesos.CommandInfo{Shell: &no, Value: ptr("/bin/x"), Arguments: []string{"a", "b"}}, job.Docker, "/bin/x|a|b"},
		{"mesos", mesos.CommandInfo{Shell: &no, Value: ptr("/bin/x"), Arguments: []string{"x", "b"}}, job.Mesos, "/bin/x|b"},
		{"mesos without arguments", mesos.CommandInfo{Shell: &no, Value: ptr("/bin/x")}, job.Mesos, "/bin/x"},
	}
	for _, tt := range tests {
		if got := strings.Join(commandArguments(&tt.command, tt.by), "|"); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
