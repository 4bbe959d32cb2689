package audit

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/internal/apihttp"
)

// TestReadOnlyRequestsAreOmitted checks that the validation of a job, a POST that changes nothing,
// is not in the log.
func TestReadOnlyRequestsAreOmitted(t *testing.T) {
	l, _, entries := openLog(t)
	for _, readOnly := range []bool{true, false} {
		l.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			apihttp.AuditNoteOf(r.Context()).ReadOnly = readOnly
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/validate", nil))
	}
	if got := entries(l.path); len(got) != 1 {
		t.Errorf("the log has %d entries, want that of the request which is not read-only: %+v", len(got), got)
	}
}

// openLog opens a log and returns a function that parses a file of it.
func openLog(t *testing.T) (l *AuditLog, said *bytes.Buffer, entries func(path string) []AuditEntry) {
	t.Helper()
	log := logrus.New()
	said = &bytes.Buffer{}
	log.SetOutput(said)
	l, err := Open(filepath.Join(t.TempDir(), "audit.log"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // a test may have closed it
	l.clock = func() time.Time { return time.Unix(1, 0) }
	return l, said, func(path string) (all []AuditEntry) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e AuditEntry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			all = append(all, e)
		}
		return all
	}
}

// sendRequest sends a request of the user who, or of an unknown user if who is empty, through
// the log to a handler that responds with the status.
func sendRequest(l *AuditLog, who, method, path string, status int, body string) {
	rules := &access.AccessPolicy{Rules: []access.PermissionRule{{Permission: access.Admin, Roles: []string{"/"}, Groups: []string{access.AnyUser}}}}
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer SECRET")
	r = r.WithContext(apihttp.WithGrant(r.Context(), rules.GrantFor(access.Identity{Name: who})))
	l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*apihttp.AuditNoteOf(r.Context()) = apihttp.AuditNote{Job: "train", Role: "research"}
		if status == http.StatusCreated {
			w.Header().Set("Location", "/v1/jobs/train")
		}
		if status != http.StatusOK {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, "an answer")
	})).ServeHTTP(httptest.NewRecorder(), r)
}

func TestEntries(t *testing.T) {
	l, _, entries := openLog(t)
	sendRequest(l, "ci", "POST", "/v1/jobs?token=SECRET", http.StatusCreated, `{"env":{"PASSWORD":"SECRET"}}`)
	sendRequest(l, "ci", "GET", "/v1/jobs", http.StatusOK, "")
	sendRequest(l, "ci", "DELETE", "/v1/jobs/train", http.StatusForbidden, "")
	sendRequest(l, "ci", "DELETE", "/v1/jobs/train", http.StatusTemporaryRedirect, "") // the redirect of a standby
	sendRequest(l, "", "DELETE", "/v1/jobs/train", http.StatusUnauthorized, "")
	sendRequest(l, "ci\nwho", "PUT", "/"+strings.Repeat("x", 5000), http.StatusOK, "")
	at := time.Unix(1, 0).UTC()
	want := []AuditEntry{
		{Time: at, User: "ci", RemoteAddr: "192.0.2.1", Method: "POST", Path: "/v1/jobs", Job: "train", Role: "research", Created: "/v1/jobs/train", Status: 201},
		{Time: at, User: "ci", RemoteAddr: "192.0.2.1", Method: "DELETE", Path: "/v1/jobs/train", Job: "train", Role: "research", Status: 403},
		{Time: at, User: "ci\nwho", RemoteAddr: "192.0.2.1", Method: "PUT", Path: "/" + strings.Repeat("x", maxFieldSize-1),
			Job: "train", Role: "research", Status: 200},
	}
	if diff := cmp.Diff(want, entries(l.path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(l.path)
	if err != nil || strings.Contains(string(text), "SECRET") {
		t.Errorf("the log contains a secret: %s, %v", text, err)
	}
	if info, err := os.Stat(l.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestLogRotation checks that the log creates a new file after the old one was moved, and
// appends to an existing one.
func TestLogRotation(t *testing.T) {
	l, _, entries := openLog(t)
	sendRequest(l, "a", "POST", "/1", 200, "")
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		t.Fatal(err)
	}
	sendRequest(l, "a", "POST", "/2", 200, "")
	sendRequest(l, "a", "POST", "/3", 200, "")
	if old, now := entries(l.path+".1"), entries(l.path); len(old) != 1 || len(now) != 2 || now[0].Path != "/2" {
		t.Errorf("old %v, new %v", old, now)
	}
	again, err := Open(l.path, logrus.New())
	if err != nil {
		t.Fatal(err)
	}
	sendRequest(again, "a", "POST", "/4", 200, "")
	if now := entries(l.path); len(now) != 3 {
		t.Errorf("opened again: %v", now)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestConcurrentLinesAreWhole checks that concurrent writers do not mix lines.
func TestConcurrentLinesAreWhole(t *testing.T) {
	l, _, entries := openLog(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				sendRequest(l, "a", "POST", "/"+strings.Repeat("y", 400), 200, "")
			}
		})
	}
	all.Wait()
	if n := len(entries(l.path)); n != 400 {
		t.Errorf("%d entries", n)
	}
}

// TestFailedWriteIsLogged checks that a failed write is logged and the request is served.
func TestFailedWriteIsLogged(t *testing.T) {
	l, said, _ := openLog(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	sendRequest(l, "a", "POST", "/1", 200, "")
	if !strings.Contains(said.String(), "a change is not in the audit log") {
		t.Errorf("logged %q", said)
	}
	if _, err := Open(t.TempDir(), logrus.New()); err == nil {
		t.Error("opened a folder")
	}
}

// TestExecEntries checks that an exec session is logged when it starts, with its task and the
// start of the command, and a rejected one too. Reads are not logged.
func TestExecEntries(t *testing.T) {
	l, _, entries := openLog(t)
	rules := &access.AccessPolicy{Rules: []access.PermissionRule{{Permission: access.Admin, Roles: []string{"/"}, Groups: []string{access.AnyUser}}}}
	for _, c := range []struct {
		status int
		header string
	}{{http.StatusSwitchingProtocols, "websocket"}, {http.StatusForbidden, "websocket"}, {http.StatusUpgradeRequired, ""}} {
		r := httptest.NewRequest("GET", "/v1/jobs/train/tasks/0/exec?argv=SECRET", nil)
		if c.header != "" {
			r.Header["Upgrade"] = []string{"", c.header} // the first header line is empty
		}
		r = r.WithContext(apihttp.WithGrant(r.Context(), rules.GrantFor(access.Identity{Name: "ci"})))
		l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			*apihttp.AuditNoteOf(r.Context()) = apihttp.AuditNote{Job: "train", Role: "research", Task: "train.0.1.x", Argv: `["id"]`}
			before := len(entries(l.path))
			w.WriteHeader(c.status)
			if got := len(entries(l.path)) - before; got != map[int]int{http.StatusSwitchingProtocols: 1}[c.status] {
				t.Errorf("%d: %d lines at its beginning", c.status, got)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
	of := func(status int) AuditEntry {
		return AuditEntry{
			Time:       time.Unix(1, 0).UTC(),
			User:       "ci",
			RemoteAddr: "192.0.2.1",
			Method:     "GET",
			Path:       "/v1/jobs/train/tasks/0/exec",
			Job:        "train",
			Role:       "research",
			Task:       "train.0.1.x",
			Argv:       `["id"]`,
			Status:     status,
		}
	}
	if diff := cmp.Diff([]AuditEntry{of(101), of(403)}, entries(l.path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
