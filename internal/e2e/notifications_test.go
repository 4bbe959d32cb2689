package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestNotificationSurvivesAKill: the webhook of a job that has failed arrives with the same id after the scheduler was
// killed during its delivery, and a failed delivery is listed, tried again and dropped by commands.
func TestNotificationSurvivesAKill(t *testing.T) {
	type request struct{ id, body string }
	requests := make(chan request, 100)
	status := atomic.Int64{} // 0: no answer
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		requests <- request{r.Header.Get("X-Mesos-Gpu-Notification"), string(body)}
		if status.Load() == 0 {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(receiver.Close)
	await := func() request {
		t.Helper()
		select {
		case one := <-requests:
			return one
		case <-time.After(waitTimeout):
			t.Fatal("no webhook arrived")
			return request{}
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := writeJobFile(t, "notifications", fmt.Sprintf("webhooks: {hosts: [%q], secret_file: %s}\nretry: {first: 100ms, longest: 200ms, attempts: 3}\n",
		strings.TrimPrefix(receiver.URL, "http://"), secret))
	args := []string{"local", "--free-ports", "--process-user=", "--work-dir", makeWorkDir(t), "--notifications", settings}
	c := startDaemon(t, binary, args...)
	c.mustRun("run", "--detach", "--name", "train", "--gpus", "0", "--notify", receiver.URL+"/path-secret", "--", "sh", "-c", "exit 3")
	first := await()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	status.Store(http.StatusNoContent)
	c = startDaemon(t, binary, args...)
	second := await()
	if first.id == "" || first != second || !strings.Contains(first.body, `"event":"failure"`) || !strings.Contains(first.body, `"exit_code":3`) {
		t.Errorf("before the kill %+v, after it %+v", first, second)
	}
	c.awaitOutput("Every notification was delivered.", "notifications")

	status.Store(http.StatusServiceUnavailable)
	c.mustRun("run", "--detach", "--name", "refused", "--gpus", "0", "--notify", "end,"+receiver.URL+"/path-secret", "--", "true")
	id := await().id
	c.awaitOutput(id, "notifications", "--failed")
	out := c.mustRun("notifications", "--failed", "-o", "wide")
	if strings.Contains(out, "path-secret") || !strings.Contains(out, "it answers 503") || !strings.Contains(out, "refused") {
		t.Errorf("failed notifications:\n%s", out)
	}
	status.Store(http.StatusOK)
	c.mustRun("notifications", "retry", id)
	c.awaitOutput("Every notification was delivered.", "notifications")
	if r := c.run("notifications", "drop", id); r.code == 0 || !strings.Contains(r.err, "no notification") {
		t.Errorf("drop of a delivered one: status %d, %s", r.code, r.err)
	}
	if r := c.run("run", "--detach", "--name", "forbidden", "--gpus", "0", "--notify", "http://169.254.169.254/", "--", "true"); r.code == 0 ||
		!strings.Contains(r.err, "allows webhooks of") {
		t.Errorf("a forbidden target: status %d, %s", r.code, r.err)
	}
}
