package checklist

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/faultproxy"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/job"
)

// patience limits every wait: a test that waits longer fails.
const patience = time.Minute

// machine is an agent to start, each at its own address.
type machine struct {
	ip   string
	gpus int
}

// The agents of most tests: two with two V100s each, and one without GPUs.
var (
	gpuAgent   = machine{ip: "127.0.0.2", gpus: 2}
	otherGPUs  = machine{ip: "127.0.0.3", gpus: 2}
	plainAgent = machine{ip: "127.0.0.4"}
)

// world is a master with its agents, behind a fault proxy. The type cluster depends on the
// build tag.
type world struct {
	*faultproxy.Proxy
	t       testing.TB
	server  *httptest.Server
	cluster *cluster
	dir     string // where tasks poll for the file that ends them
}

func newWorld(t *testing.T, machines ...machine) *world {
	t.Helper()
	t.Parallel()
	return startWorld(t, machines...)
}

func startWorld(t testing.TB, machines ...machine) *world {
	t.Helper()
	w := &world{t: t, server: httptest.NewUnstartedServer(nil), dir: t.TempDir()}
	if err := os.Chmod(w.dir, 0o777); err != nil { // tasks run as any user
		t.Fatal(err)
	}
	w.cluster = newCluster(t, w.server.Listener.Addr().String(), machines)
	w.Proxy = faultproxy.New(w.cluster.handler())
	w.server.Config.Handler = w.Proxy
	w.server.Start()
	t.Cleanup(w.lose)
	return w
}

// lose ends the master abruptly, as a crash would.
func (w *world) lose() {
	w.server.CloseClientConnections()
	w.server.Close()
}

// door returns another fault proxy in front of the same master, at its own address.
func (w *world) door() *world {
	d := &world{t: w.t, cluster: w.cluster, dir: w.dir, Proxy: faultproxy.New(w.cluster.handler())}
	d.server = httptest.NewServer(d.Proxy)
	w.t.Cleanup(d.lose)
	return d
}

// command returns a task's command, which exits once finish is called for its job.
// Scripted agents run no commands and end tasks themselves.
func (w *world) command(name string) []string {
	return []string{"sh", "-c", "while [ ! -e " + w.dir + "/" + name + " ]; do sleep 0.05; done"}
}

// finish lets the tasks of a job exit with status 0.
func (w *world) finish(name string) {
	w.t.Helper()
	if err := os.WriteFile(w.dir+"/"+name, nil, 0o666); err != nil {
		w.t.Fatal(err)
	}
	w.cluster.finish(name)
}

// spec returns the specification of a job with one small task.
func (w *world) spec(name string, gpus int) job.Spec {
	s := job.Spec{Name: name, CPUs: 0.1, MemMiB: 256, Command: w.command(name)}
	s.Request.GPUs = gpus
	return s
}

// until waits until the calls and events in the fault proxy satisfy done.
func (w *world) until(what string, done func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.AwaitCondition(ctx, done); err != nil {
		w.t.Fatalf("waited %s for %s; calls: %s", patience, what, w.story())
	}
}

// call waits for the nth call (from 1) of that type that match accepts; a nil match
// accepts all.
func (w *world) call(n int, kind scheduler.Call_Type, match func(faultproxy.RecordedCall) bool) (found faultproxy.RecordedCall) {
	w.t.Helper()
	w.until(kind.String(), func() bool {
		calls := w.these(kind, match)
		if len(calls) < n {
			return false
		}
		found = calls[n-1]
		return true
	})
	return found
}

// these returns the calls so far of that type that match accepts.
func (w *world) these(kind scheduler.Call_Type, match func(faultproxy.RecordedCall) bool) (found []faultproxy.RecordedCall) {
	for _, c := range w.Calls() {
		if c.GetType() == kind && (match == nil || match(c)) {
			found = append(found, c)
		}
	}
	return found
}

// event waits for the nth event (from 1) of that type that match accepts.
func (w *world) event(n int, kind scheduler.Event_Type, match func(faultproxy.RecordedEvent) bool) (found faultproxy.RecordedEvent) {
	w.t.Helper()
	w.until("event "+kind.String(), func() bool {
		seen := 0
		for _, e := range w.Events() {
			if e.GetType() == kind && (match == nil || match(e)) {
				if seen++; seen == n {
					found = e
					return true
				}
			}
		}
		return false
	})
	return found
}

// story returns the types of the scheduler's calls, for failure messages.
func (w *world) story() (all []string) {
	for _, c := range w.Calls() {
		all = append(all, c.GetType().String())
	}
	return all
}

// operate makes an operator call; an error fails the test.
func (w *world) operate(call *operator.Call) *operator.Response {
	w.t.Helper()
	body, err := proto.Marshal(call)
	if err != nil {
		w.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v1", bytes.NewReader(body))
	r.Header.Set("Content-Type", mesosapi.Protobuf)
	r.Header.Set("Accept", mesosapi.Protobuf)
	recorder := httptest.NewRecorder()
	w.cluster.handler().ServeHTTP(recorder, r)
	answer, err := io.ReadAll(recorder.Result().Body)
	response := &operator.Response{}
	if err == nil && recorder.Code < 300 {
		err = proto.Unmarshal(answer, response)
	}
	if err != nil || recorder.Code >= 300 {
		w.t.Fatalf("%s: %d %s %v", call.GetType(), recorder.Code, answer, err)
	}
	return response
}

// agents returns the master's agents by hostname.
func (w *world) agents() map[string]operator.Response_GetAgents_Agent {
	w.t.Helper()
	all := map[string]operator.Response_GetAgents_Agent{}
	for _, a := range w.operate(&operator.Call{Type: operator.Call_GET_AGENTS}).GetAgents.Agents {
		all[a.AgentInfo.Hostname] = a
	}
	return all
}

func (w *world) agentID(m machine) mesos.AgentID { w.t.Helper(); return *w.agents()[m.ip].AgentInfo.ID }

// frameworkID returns the framework id from the first subscription.
func (w *world) frameworkID() string {
	w.t.Helper()
	return w.event(1, scheduler.Event_SUBSCRIBED, nil).Subscribed.FrameworkID.Value
}

// successor returns another master, at its own address, that leads once moveTo is
// called.
func (w *world) successor() *world {
	next := &world{t: w.t, dir: w.dir, server: httptest.NewUnstartedServer(nil)}
	next.cluster = w.cluster.successor(next.server.Listener.Addr().String())
	next.Proxy = faultproxy.New(next.cluster.handler())
	next.server.Config.Handler = next.Proxy
	next.server.Start()
	next.ReportLeader(w.server.URL)
	w.t.Cleanup(next.lose)
	return next
}

// moveTo makes next the leading master and makes the agents register there.
func (w *world) moveTo(next *world) {
	next.ReportLeader("")
	next.cluster.takeOver()
}
