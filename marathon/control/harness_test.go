package control

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sirupsen/logrus"
)

func discardLogger() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// testController is a Controller that runs the apps of a fake cluster. Its tests run in synctest bubbles, which end when
// no goroutine is left.
type testController struct {
	testing.TB
	control *Controller
	cluster *fakeCluster
	stop    context.CancelFunc
	ended   chan error
}

// startInBubble starts a Controller in a bubble. client is for readiness probes; nil means the Controller's own.
func startInBubble(t *testing.T, f *fakeCluster, client *http.Client) *testController {
	t.Helper()
	s := startController(t, f, client)
	synctest.Wait()
	return s
}

// startController is lead outside of a bubble. The Controller leads when cluster.leads is closed.
func startController(t testing.TB, f *fakeCluster, client *http.Client) *testController {
	return startControllerWith(t, f, ControllerConfig{Log: discardLogger(), client: client, Version: "test"})
}

func startControllerWith(t testing.TB, f *fakeCluster, cfg ControllerConfig) *testController {
	ctx, stop := context.WithCancel(context.Background())
	s := &testController{t, New(cfg), f, stop, make(chan error, 1)}
	f.wake <- struct{}{} // the first WaitForChange returns at once, even without jobs
	go func() { s.ended <- s.control.Run(ctx, f) }()
	return s
}

// stopAndWait stops the Controller and returns the error of Run.
func (s *testController) stopAndWait() error {
	s.stop()
	err := <-s.ended
	if len(s.cluster.early) > 0 {
		s.Errorf("jobs were submitted before they were recorded: %v", s.cluster.early)
	}
	return err
}

// sendRequest sends a request, decodes the answer unless into is nil, and returns the status.
func (s *testController) sendRequest(method, path, body string, into any) int {
	s.Helper()
	w := httptest.NewRecorder()
	s.control.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			s.Fatalf("%s %s: %d, %v in %s", method, path, w.Code, err, w.Body)
		}
	}
	return w.Code
}

// mustSend sends a request that has to succeed, and waits for its immediate effects.
func (s *testController) mustSend(method, path, body string) {
	s.Helper()
	var answer any
	if code := s.sendRequest(method, path, body, &answer); code/100 != 2 {
		s.Fatalf("%s %s %s: %d %v", method, path, body, code, answer)
	}
	synctest.Wait()
}

// checkSettled checks that no deployment is left, and how many tasks of each command run.
func (s *testController) checkSettled(want map[string]int) {
	s.Helper()
	var under []any
	s.sendRequest("GET", "/v2/deployments", "", &under)
	if len(under) > 0 {
		s.Errorf("deployments remain: %v", under)
	}
	got := s.cluster.countRunning(s)
	for cmd, n := range want {
		if got[cmd] != n {
			s.Errorf("%d tasks of %q run, want %d: %v", got[cmd], cmd, n, got)
		}
		delete(got, cmd)
	}
	if len(got) > 0 {
		s.Errorf("unexpected running tasks: %v", got)
	}
}

const web = "/v2/apps/shop/web"

func (s *testController) createApp(cmd string, instances string) {
	s.Helper()
	s.mustSend("POST", "/v2/apps", `{"id": "/shop/web", "cmd": "`+cmd+`", "instances": `+instances+`, "mem": 32}`)
}

// listener reads an event stream. await returns when an event of the type arrives.
type listener struct{ kinds chan string }

func openEventStream(t *testing.T, s *testController) *listener {
	t.Helper()
	server := httptest.NewServer(s.control)
	t.Cleanup(server.Close)
	answer, err := http.Get(server.URL + "/v2/events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	l := &listener{make(chan string, 1000)}
	go func() {
		defer close(l.kinds)
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				l.kinds <- kind
			}
		}
	}()
	return l
}

func (l *listener) awaitEvent(t *testing.T, kind string) {
	t.Helper()
	for got := range l.kinds {
		if got == kind {
			return
		}
	}
	t.Fatalf("the stream ended without %s", kind)
}
