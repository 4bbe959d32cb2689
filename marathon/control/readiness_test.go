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

// probeResponder answers readiness probes without a network, which bubbles do not support.
type probeResponder func(*http.Request) int

func (f probeResponder) RoundTrip(r *http.Request) (*http.Response, error) {
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

// TestDeploymentWaitsForReadiness checks that a deployment waits until new instances are ready, and that old instances run until then.
func TestDeploymentWaitsForReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		f.ports = []int{31000}
		var ready atomic.Bool
		var asked atomic.Int64
		s := startInBubble(t, f, &http.Client{Transport: probeResponder(func(r *http.Request) int {
			if asked.Add(1); r.URL.String() != "http://127.0.0.1:31000/ready?full=1" {
				t.Errorf("probed %s", r.URL)
			}
			if ready.Load() {
				return http.StatusOK
			}
			return http.StatusServiceUnavailable
		})})
		s.createApp("one", "3")
		s.mustSend("PUT", web, slow)
		time.Sleep(time.Minute)
		var d underWay
		if s.sendRequest("GET", "/v2/deployments", "", &d); len(d) != 1 {
			t.Fatalf("deployments %+v: no instance is ready", d)
		}
		results := d[0].CurrentActions[0].Results
		if len(results) != 3 || results[0].Ready || results[0].LastResponse.Status != 503 || results[0].LastResponse.Body != "loading" || results[0].TaskID == "" {
			t.Errorf("results %+v", results)
		}
		if got := f.countRunning(t); got["one"] != 3 || got["two"] != 3 {
			t.Errorf("runs %v, want three of each", got)
		}
		if n := asked.Load(); n < 36 || n > 39 {
			t.Errorf("probed %d times in a minute, want 3 every 5 s", n)
		}
		ready.Store(true)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		s.checkSettled(map[string]int{"two": 3})
		before := asked.Load()
		time.Sleep(time.Minute)
		if asked.Load() != before {
			t.Error("ready instances are still probed")
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestReadyResultsRemainDuringDeployment checks that the result of a ready instance is part of the answers until its
// deployment has ended.
func TestReadyResultsRemainDuringDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		f.ports = []int{31000}
		var probes atomic.Int64
		var allReady atomic.Bool
		s := startInBubble(t, f, &http.Client{Transport: probeResponder(func(*http.Request) int {
			if probes.Add(1) == 1 || allReady.Load() { // the first new instance
				return http.StatusOK
			}
			return http.StatusServiceUnavailable
		})})
		s.createApp("one", "2")
		halves := strings.NewReplacer(`"instances": 3`, `"instances": 2, "upgradeStrategy": {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}`)
		s.mustSend("PUT", web, halves.Replace(slow))
		time.Sleep(time.Minute)
		results := func() (ready, other int) {
			var got struct {
				Apps []struct{ ReadinessCheckResults []struct{ Ready bool } }
			}
			s.sendRequest("GET", "/v2/apps?embed=apps.readiness", "", &got)
			for _, r := range got.Apps[0].ReadinessCheckResults {
				if r.Ready {
					ready++
				} else {
					other++
				}
			}
			return ready, other
		}
		if ready, other := results(); ready != 1 || other != 1 {
			t.Errorf("%d results are ready and %d are not, want one of each", ready, other)
		}
		allReady.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		s.checkSettled(map[string]int{"two": 2})
		if ready, other := results(); ready+other > 0 {
			t.Errorf("%d results remain after the deployment", ready+other)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestReadinessProbesStop checks that probes end with the leadership and that the next scheduler starts them again.
// The bubble ends when no goroutine is left.
func TestReadinessProbesStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		f.ports = []int{31000}
		hang := &http.Client{Transport: probeResponder(func(r *http.Request) int {
			<-r.Context().Done()
			return http.StatusGatewayTimeout
		})}
		s := startInBubble(t, f, hang)
		s.mustSend("POST", "/v2/apps", strings.Replace(slow, `"instances": 3`, `"instances": 200`, 1))
		time.Sleep(time.Second)
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
		s = startInBubble(t, f.newSuccessor(), &http.Client{Transport: probeResponder(func(*http.Request) int { return http.StatusOK })})
		s.checkSettled(map[string]int{"two": 200})
		s.mustSend("DELETE", web, "")
		if err := s.stopAndWait(); err != nil {
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
	f := newFakeCluster()
	f.ports = []int{port}
	s := startController(t, f, nil)
	own := strings.NewReplacer(`"intervalSeconds": 5, "timeoutSeconds": 2`,
		`"intervalSeconds": 2, "timeoutSeconds": 1, "httpStatusCodesForReady": [204]`, `"instances": 3`, `"instances": 1`)
	<-f.leads
	events := openEventStream(t, s)
	if code := s.sendRequest("POST", "/v2/apps", own.Replace(slow), nil); code != http.StatusCreated {
		t.Fatalf("status %d", code)
	}
	events.awaitEvent(t, "deployment_success")
	if n := asked.Load(); n != 2 {
		t.Errorf("probed %d times, want 2", n)
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}
