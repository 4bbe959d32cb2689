package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/marathon/api"
)

// appView is what the tests read of an app.
type appView struct {
	Version                                 string
	Instances                               int
	TasksStaged, TasksRunning, TasksHealthy int
	Tasks                                   []api.AppTask
	Deployments                             []struct{ ID string }
	VersionInfo                             struct{ LastConfigChangeAt string }
	LastTaskFailure                         *struct{ Message, TaskID string }
}

// settled reports whether the app runs as it was last defined, and nothing
// else of it does.
func (a *appView) settled() bool {
	for _, t := range a.Tasks {
		if t.State != "TASK_RUNNING" || t.Version < a.VersionInfo.LastConfigChangeAt { // or of a scaling since
			return false
		}
	}
	return len(a.Deployments) == 0 && len(a.Tasks) == a.Instances
}

// v2 sends a request to the API of apps. A scheduler that has just started
// has it sent again: it does not lead yet.
func (c *cluster) v2(method, path, body string) (status int, answer []byte) {
	c.t.Helper()
	apachemesos.PollUntil(c.t, "the scheduler to lead", func() bool {
		status, answer = c.send(method, c.api+"/v2"+path, body)
		return status != http.StatusServiceUnavailable
	})
	return status, answer
}

func (c *cluster) send(method, url, body string) (status int, answer []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// deploys is v2 for what has to be accepted.
func (c *cluster) deploys(method, path, body string) {
	c.t.Helper()
	if status, answer := c.v2(method, path, body); status != http.StatusOK && status != http.StatusCreated {
		c.t.Fatalf("%s %s: status %d: %s", method, path, status, answer)
	}
}

// app is an app as it is now.
func (c *cluster) app(id string) *appView {
	c.t.Helper()
	status, answer := c.v2(http.MethodGet, "/apps"+id+"?embed=app.tasks&embed=app.counts&embed=app.deployments&embed=app.lastTaskFailure", "")
	var view struct{ App appView }
	if err := json.Unmarshal(answer, &view); err != nil || status != http.StatusOK {
		c.t.Fatalf("app %s: status %d: %s", id, status, answer)
	}
	return &view.App
}

// awaitApp waits until an app is as wanted. It looks when the event stream
// tells of something, and at intervals.
func (c *cluster) awaitApp(id, what string, wanted func(*appView) bool) *appView {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	events := c.events(ctx)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		view := c.app(id)
		if wanted(view) {
			return view
		}
		select {
		case <-events:
		case <-tick.C:
		case <-ctx.Done():
			text, _ := json.Marshal(view) // it came as JSON
			c.t.Fatalf("waited %s for app %s to %s: %s", patience, id, what, text)
		}
	}
}

// events reports that the event stream has sent something, until ctx ends.
func (c *cluster) events(ctx context.Context) <-chan struct{} {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api+"/v2/events", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	told := make(chan struct{}, 1)
	go func() {
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if !bytes.HasPrefix(lines.Bytes(), []byte("event:")) {
				continue
			}
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}()
	return told
}

// webapp builds the program of that name.
func webapp(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "webapp")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "mesos-gpu/internal/e2e/webapp").CombinedOutput(); err != nil {
		t.Fatalf("build webapp: %v\n%s", err, out)
	}
	return path
}
