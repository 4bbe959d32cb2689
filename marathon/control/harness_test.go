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

func quiet() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// scheduler is a Controller that runs the apps of a fake cluster. Its tests run in synctest bubbles, which end when
// no goroutine is left.
type scheduler struct {
	testing.TB
	control *Controller
	cluster *fake
	stop    context.CancelFunc
	ended   chan error
}

// lead starts a Controller in a bubble. client is for readiness probes; nil means the Controller's own.
func lead(t *testing.T, f *fake, client *http.Client) *scheduler {
	t.Helper()
	s := keep(t, f, client)
	synctest.Wait()
	return s
}

// keep is lead outside of a bubble. The Controller leads when cluster.leads is closed.
func keep(t testing.TB, f *fake, client *http.Client) *scheduler {
	return keepFor(t, f, ControllerConfig{Log: quiet(), Client: client, Version: "test"})
}

func keepFor(t testing.TB, f *fake, cfg ControllerConfig) *scheduler {
	ctx, stop := context.WithCancel(context.Background())
	s := &scheduler{t, New(cfg), f, stop, make(chan error, 1)}
	f.wake <- struct{}{} // the first WaitForChange returns at once, even without jobs
	go func() { s.ended <- s.control.Run(ctx, f) }()
	return s
}

// end stops the Controller and returns the error of Run.
func (s *scheduler) end() error {
	s.stop()
	err := <-s.ended
	if len(s.cluster.early) > 0 {
		s.Errorf("these were submitted before they were recorded: %v", s.cluster.early)
	}
	return err
}

// ask sends a request, decodes the answer unless into is nil, and returns the status.
func (s *scheduler) ask(method, path, body string, into any) int {
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

// must sends a request that has to succeed, and waits for its immediate effects.
func (s *scheduler) must(method, path, body string) {
	s.Helper()
	var answer any
	if code := s.ask(method, path, body, &answer); code/100 != 2 {
		s.Fatalf("%s %s %s: %d %v", method, path, body, code, answer)
	}
	synctest.Wait()
}

// settled checks that no deployment is left, and how many tasks of each command run.
func (s *scheduler) settled(want map[string]int) {
	s.Helper()
	var under []any
	s.ask("GET", "/v2/deployments", "", &under)
	if len(under) > 0 {
		s.Errorf("under way: %v", under)
	}
	got := s.cluster.runs(s)
	for cmd, n := range want {
		if got[cmd] != n {
			s.Errorf("%d run of %q, want %d: %v", got[cmd], cmd, n, got)
		}
		delete(got, cmd)
	}
	if len(got) > 0 {
		s.Errorf("these run too: %v", got)
	}
}

const web = "/v2/apps/shop/web"

func (s *scheduler) create(cmd string, instances string) {
	s.Helper()
	s.must("POST", "/v2/apps", `{"id": "/shop/web", "cmd": "`+cmd+`", "instances": `+instances+`, "mem": 32}`)
}

// listener reads an event stream. await returns when an event of the type arrives.
type listener struct{ kinds chan string }

func listen(t *testing.T, s *scheduler) *listener {
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

func (l *listener) await(t *testing.T, kind string) {
	t.Helper()
	for got := range l.kinds {
		if got == kind {
			return
		}
	}
	t.Fatalf("the stream ended without %s", kind)
}
