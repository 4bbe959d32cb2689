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

	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/marathon/api"
)

// appView has the fields of an app that the tests read.
type appView struct {
	Version                                 string
	Instances                               int
	TasksStaged, TasksRunning, TasksHealthy int
	Tasks                                   []api.AppTask
	Deployments                             []struct{ ID string }
	VersionInfo                             struct{ LastConfigChangeAt string }
	LastTaskFailure                         *struct{ Message, TaskID string }
}

// isUpToDate reports whether all instances run the latest definition and no deployment is
// active.
func (a *appView) isUpToDate() bool {
	for _, t := range a.Tasks {
		if t.State != "TASK_RUNNING" || t.Version < a.VersionInfo.LastConfigChangeAt { // instances started by a later scaling have a later version
			return false
		}
	}
	return len(a.Deployments) == 0 && len(a.Tasks) == a.Instances
}

// callMarathon sends a request to the Marathon API. It repeats the request while the scheduler
// does not lead yet.
func (c *cluster) callMarathon(method, path, body string) (status int, answer []byte) {
	c.t.Helper()
	apachemesos.PollUntil(c.t, "the scheduler to lead", func() bool {
		status, answer = c.sendRequest(method, c.api+"/v2"+path, body)
		return status != http.StatusServiceUnavailable
	})
	return status, answer
}

func (c *cluster) sendRequest(method, url, body string) (status int, answer []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waitTimeout)
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

// mustCallMarathon sends a request and fails the test unless it is accepted.
func (c *cluster) mustCallMarathon(method, path, body string) {
	c.t.Helper()
	if status, answer := c.callMarathon(method, path, body); status != http.StatusOK && status != http.StatusCreated {
		c.t.Fatalf("%s %s: status %d: %s", method, path, status, answer)
	}
}

// getApp returns the current state of an app.
func (c *cluster) getApp(id string) *appView {
	c.t.Helper()
	status, answer := c.callMarathon(http.MethodGet, "/apps"+id+"?embed=app.tasks&embed=app.counts&embed=app.deployments&embed=app.lastTaskFailure", "")
	var view struct{ App appView }
	if err := json.Unmarshal(answer, &view); err != nil || status != http.StatusOK {
		c.t.Fatalf("app %s: status %d: %s", id, status, answer)
	}
	return &view.App
}

// awaitApp waits until an app satisfies wanted. It checks after each event, and periodically.
func (c *cluster) awaitApp(id, what string, wanted func(*appView) bool) *appView {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waitTimeout)
	defer cancel()
	events := c.subscribeToEvents(ctx)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		view := c.getApp(id)
		if wanted(view) {
			return view
		}
		select {
		case <-events:
		case <-tick.C:
		case <-ctx.Done():
			text, _ := json.Marshal(view) // it was decoded from JSON
			c.t.Fatalf("after %s app %s does not %s: %s", waitTimeout, id, what, text)
		}
	}
}

// subscribeToEvents returns a channel that receives a value after events in the event stream,
// until ctx ends.
func (c *cluster) subscribeToEvents(ctx context.Context) <-chan struct{} {
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
	changes := make(chan struct{}, 1)
	go func() {
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if !bytes.HasPrefix(lines.Bytes(), []byte("event:")) {
				continue
			}
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}()
	return changes
}

// buildWebapp builds the program webapp and returns its path.
func buildWebapp(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "webapp")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "mesos-gpu/internal/e2e/webapp").CombinedOutput(); err != nil {
		t.Fatalf("build webapp: %v\n%s", err, out)
	}
	return path
}
