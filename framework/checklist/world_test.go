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

	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// waitTimeout limits every wait: a test that waits longer fails.
const waitTimeout = time.Minute

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

// testEnv is a master with its agents, behind a fault proxy. The type cluster depends on the
// build tag.
type testEnv struct {
	*faultproxy.Proxy
	t       testing.TB
	server  *httptest.Server
	cluster *cluster
	dir     string // where tasks poll for the file that ends them
}

func newTestEnv(t *testing.T, machines ...machine) *testEnv {
	t.Helper()
	t.Parallel()
	return startTestEnv(t, machines...)
}

func startTestEnv(t testing.TB, machines ...machine) *testEnv {
	t.Helper()
	w := &testEnv{t: t, server: httptest.NewUnstartedServer(nil), dir: t.TempDir()}
	if err := os.Chmod(w.dir, 0o777); err != nil { // tasks run as any user
		t.Fatal(err)
	}
	w.cluster = newCluster(t, w.server.Listener.Addr().String(), machines)
	w.Proxy = faultproxy.New(w.cluster.handler())
	w.server.Config.Handler = w.Proxy
	w.server.Start()
	t.Cleanup(w.crashMaster)
	return w
}

// crashMaster ends the master abruptly, as a crash would.
func (w *testEnv) crashMaster() {
	w.server.CloseClientConnections()
	w.server.Close()
}

// addProxy returns another fault proxy in front of the same master, at its own address.
func (w *testEnv) addProxy() *testEnv {
	d := &testEnv{t: w.t, cluster: w.cluster, dir: w.dir, Proxy: faultproxy.New(w.cluster.handler())}
	d.server = httptest.NewServer(d.Proxy)
	w.t.Cleanup(d.crashMaster)
	return d
}

// taskCommand returns a task's command, which exits once finish is called for its job.
// Scripted agents run no commands and end tasks themselves.
func (w *testEnv) taskCommand(name string) []string {
	return []string{"sh", "-c", "while [ ! -e " + w.dir + "/" + name + " ]; do sleep 0.05; done"}
}

// finishTasks lets the tasks of a job exit with status 0.
func (w *testEnv) finishTasks(name string) {
	w.t.Helper()
	if err := os.WriteFile(w.dir+"/"+name, nil, 0o666); err != nil {
		w.t.Fatal(err)
	}
	w.cluster.finishTasks(name)
}

// newSpec returns the specification of a job with one small task.
func (w *testEnv) newSpec(name string, gpus int) job.Spec {
	s := job.Spec{Name: name, CPUs: 0.1, MemMiB: 256, Command: w.taskCommand(name)}
	s.Request.GPUs = gpus
	return s
}

// awaitCondition waits until the calls and events in the fault proxy satisfy done.
func (w *testEnv) awaitCondition(what string, done func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if err := w.AwaitCondition(ctx, done); err != nil {
		w.t.Fatalf("waited %s for %s; calls: %s", waitTimeout, what, w.callTypes())
	}
}

// awaitCall waits for the nth call (from 1) of that type that match accepts; a nil match
// accepts all.
func (w *testEnv) awaitCall(n int, kind scheduler.Call_Type, match func(faultproxy.RecordedCall) bool) (found faultproxy.RecordedCall) {
	w.t.Helper()
	w.awaitCondition(kind.String(), func() bool {
		calls := w.listCalls(kind, match)
		if len(calls) < n {
			return false
		}
		found = calls[n-1]
		return true
	})
	return found
}

// listCalls returns the calls so far of that type that match accepts.
func (w *testEnv) listCalls(kind scheduler.Call_Type, match func(faultproxy.RecordedCall) bool) (found []faultproxy.RecordedCall) {
	for _, c := range w.Calls() {
		if c.GetType() == kind && (match == nil || match(c)) {
			found = append(found, c)
		}
	}
	return found
}

// awaitEvent waits for the nth event (from 1) of that type that match accepts.
func (w *testEnv) awaitEvent(n int, kind scheduler.Event_Type, match func(faultproxy.RecordedEvent) bool) (found faultproxy.RecordedEvent) {
	w.t.Helper()
	w.awaitCondition("event "+kind.String(), func() bool {
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

// callTypes returns the types of the scheduler's calls, for failure messages.
func (w *testEnv) callTypes() (all []string) {
	for _, c := range w.Calls() {
		all = append(all, c.GetType().String())
	}
	return all
}

// callOperator makes an operator call; an error fails the test.
func (w *testEnv) callOperator(call *operator.Call) *operator.Response {
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

// listAgents returns the master's agents by hostname.
func (w *testEnv) listAgents() map[string]operator.Response_GetAgents_Agent {
	w.t.Helper()
	all := map[string]operator.Response_GetAgents_Agent{}
	for _, a := range w.callOperator(&operator.Call{Type: operator.Call_GET_AGENTS}).GetAgents.Agents {
		all[a.AgentInfo.Hostname] = a
	}
	return all
}

func (w *testEnv) agentID(m machine) mesos.AgentID {
	w.t.Helper()
	return *w.listAgents()[m.ip].AgentInfo.ID
}

// frameworkID returns the framework id from the first subscription.
func (w *testEnv) frameworkID() string {
	w.t.Helper()
	return w.awaitEvent(1, scheduler.Event_SUBSCRIBED, nil).Subscribed.FrameworkID.Value
}

// newSuccessor returns another master, at its own address, that leads once moveTo is
// called.
func (w *testEnv) newSuccessor() *testEnv {
	next := &testEnv{t: w.t, dir: w.dir, server: httptest.NewUnstartedServer(nil)}
	next.cluster = w.cluster.newSuccessor(next.server.Listener.Addr().String())
	next.Proxy = faultproxy.New(next.cluster.handler())
	next.server.Config.Handler = next.Proxy
	next.server.Start()
	next.ReportLeader(w.server.URL)
	w.t.Cleanup(next.crashMaster)
	return next
}

// moveLeadership makes next the leading master and makes the agents register there.
func (w *testEnv) moveLeadership(next *testEnv) {
	next.ReportLeader("")
	next.cluster.registerAgents()
}
