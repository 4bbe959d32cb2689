package client

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"mesos-gpu/framework/api"
)

const token = "mgpu.ci.SECRETSECRET"

// serveTLS starts a TLS server and returns an option that trusts it.
func serveTLS(t *testing.T, h http.HandlerFunc) (url string, trusting Option) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL, WithTrustedCA(file)
}

func newClient(t *testing.T, address string, options ...Option) *Client {
	t.Helper()
	c, err := New(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestTokenFollowsRedirect checks that the token is sent to a leader with TLS, and not to one
// without.
func TestTokenFollowsRedirect(t *testing.T) {
	var heard atomic.Value
	heard.Store("")
	leader, trusting := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		heard.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusAccepted)
	})
	to := leader
	standby, _ := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to+r.URL.RequestURI())
		writeProblem(w, api.RedirectToLeader(to))
	}) // httptest uses the same certificate for both servers
	c := newClient(t, standby, trusting, WithToken(token))
	if err := c.KillJob(context.Background(), "x"); err != nil || heard.Load() != "Bearer "+token {
		t.Errorf("the leader heard %v, %v", heard.Load(), err)
	}
	to = "http://192.0.2.1:8080"
	err := c.KillJob(context.Background(), "x")
	if err == nil || !strings.Contains(err.Error(), "http://192.0.2.1:8080: the token could be read on the way") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("got %v", err)
	}
}

func TestTokenIsNotSentUnencrypted(t *testing.T) {
	c := newClient(t, "http://192.0.2.1:8080", WithToken(token))
	_, err := c.ListJobs(context.Background())
	if err == nil || !strings.Contains(err.Error(), "use an https address") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("got %v", err)
	}
	for address, want := range map[string]bool{
		"https://s1:8080": true, "http://127.0.0.1:8080": true, "http://[::1]:8080": true, "http://localhost:1": true, "http://127.1.2.3": true,
		"http://s1:8080": false, "http://localhost.evil": false, "http://127.0.0.1.evil": false, "http://10.0.0.1": false, "http://0.0.0.0": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if IsConfidential(u) != want {
			t.Errorf("%s: %t", address, !want)
		}
	}
}

// TestUntrustedServersAreRejected checks that no token is sent to a server with an untrusted certificate.
func TestUntrustedServersAreRejected(t *testing.T) {
	address, _ := serveTLS(t, func(http.ResponseWriter, *http.Request) { t.Error("a stranger was asked") })
	if _, err := newClient(t, address, WithToken(token)).ListJobs(context.Background()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}

func TestNoTokenIsSentByDefault(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		if got, sent := r.Header["Authorization"]; sent {
			t.Errorf("sent %q", got)
		}
		fmt.Fprint(w, `{"jobs":[]}`)
	})
	if _, err := c.ListJobs(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestTokenFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string][2]string{
		file("own", token+"\n", 0o600):    {token, ""},
		file("others", token+"\n", 0o644): {token, "others may use it"},
	} {
		got, warning, err := ReadToken(path)
		if err != nil || got != want[0] || !strings.Contains(warning, want[1]) || (warning == "") != (want[1] == "") {
			t.Errorf("%s: %q, %q, %v", path, got, warning, err)
		}
	}
	for _, path := range []string{file("empty", "\n", 0o600), filepath.Join(dir, "none")} {
		if _, _, err := ReadToken(path); err == nil {
			t.Errorf("%s was read", path)
		}
		if _, err := New("https://s1", WithTrustedCA(path)); err == nil {
			t.Errorf("%s must not identify a user", path)
		}
	}
}
