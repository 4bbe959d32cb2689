package control

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// instances answers readiness probes without a network, which bubbles do not support.
type instances func(*http.Request) int

func (f instances) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(f(r))
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	_, _ = w.WriteString("loading")
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

const slow = `{"id": "/shop/web", "cmd": "two", "instances": 3, "mem": 32, "portDefinitions": [{"name": "main", "port": 0}],
	"readinessChecks": [{"portName": "main", "path": "/ready?full=1", "intervalSeconds": 5, "timeoutSeconds": 2, "preserveLastResponse": true}]}`

type underWay []struct {
	CurrentActions []struct {
		Results []struct {
			TaskID       string
			Ready        bool
			LastResponse struct {
				Status int
				Body   string
			}
		} `json:"readinessCheckResults"`
	}
}

// TestReadiness checks that a deployment waits until new instances are ready, and that old instances run until then.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.ports = []int{31000}
		var ready atomic.Bool
		var asked atomic.Int64
		s := lead(t, f, &http.Client{Transport: instances(func(r *http.Request) int {
			if asked.Add(1); r.URL.String() != "http://127.0.0.1:31000/ready?full=1" {
				t.Errorf("asked %s", r.URL)
			}
			if ready.Load() {
				return http.StatusOK
			}
			return http.StatusServiceUnavailable
		})})
		s.create("one", "3")
		s.must("PUT", web, slow)
		time.Sleep(time.Minute)
		var d underWay
		if s.ask("GET", "/v2/deployments", "", &d); len(d) != 1 {
			t.Fatalf("deployments %+v: nobody is ready", d)
		}
		results := d[0].CurrentActions[0].Results
		if len(results) != 3 || results[0].Ready || results[0].LastResponse.Status != 503 || results[0].LastResponse.Body != "loading" || results[0].TaskID == "" {
			t.Errorf("results %+v", results)
		}
		if got := f.runs(t); got["one"] != 3 || got["two"] != 3 {
			t.Errorf("runs %v, want three of each", got)
		}
		if n := asked.Load(); n < 36 || n > 39 {
			t.Errorf("asked %d times in a minute, want 3 every 5 s", n)
		}
		ready.Store(true)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		s.settled(map[string]int{"two": 3})
		before := asked.Load()
		time.Sleep(time.Minute)
		if asked.Load() != before {
			t.Error("those that are ready are asked still")
		}
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestReadinessProbesStop checks that probes end with the leadership and that the next scheduler starts them again.
// The bubble ends when no goroutine is left.
func TestReadinessProbesStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.ports = []int{31000}
		hang := &http.Client{Transport: instances(func(r *http.Request) int {
			<-r.Context().Done()
			return http.StatusGatewayTimeout
		})}
		s := lead(t, f, hang)
		s.must("POST", "/v2/apps", strings.Replace(slow, `"instances": 3`, `"instances": 200`, 1))
		time.Sleep(time.Second)
		if err := s.end(); err != nil {
			t.Error(err)
		}
		s = lead(t, f.succeeds(), &http.Client{Transport: instances(func(*http.Request) int { return http.StatusOK })})
		s.settled(map[string]int{"two": 200})
		s.must("DELETE", web, "")
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestReadinessOverHTTP probes a server with the Controller's own client, which follows no redirects.
func TestReadinessOverHTTP(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.ports = []int{port}
	s := keep(t, f, nil)
	own := strings.NewReplacer(`"intervalSeconds": 5, "timeoutSeconds": 2`, `"intervalSeconds": 2, "timeoutSeconds": 1, "httpStatusCodesForReady": [204]`, `"instances": 3`, `"instances": 1`)
	<-f.leads
	events := listen(t, s)
	if code := s.ask("POST", "/v2/apps", own.Replace(slow), nil); code != http.StatusCreated {
		t.Fatalf("status %d", code)
	}
	events.await(t, "deployment_success")
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}
