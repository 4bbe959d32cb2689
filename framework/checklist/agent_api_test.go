//go:build !mesos

package checklist

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	agentapi "github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/updates"
)

// serveAPI serves the part of the operator API with which the scheduler asks an agent for its tasks, at a free port of the
// agent's address.
func (a *agent) serveAPI() {
	a.t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(a.ip, "0"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.port = int32(l.Addr().(*net.TCPAddr).Port)
	mux := http.NewServeMux()
	mux.HandleFunc("/slave(1)/api/v1", a.serveCall)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux}}
	server.Start()
	a.t.Cleanup(server.Close)
}

func (a *agent) serveCall(w http.ResponseWriter, r *http.Request) {
	var call agentapi.Call
	if err := mesosapi.ReadCall(r, &call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	switch call.GetType() {
	case agentapi.Call_GET_AGENT:
		a.mu.Lock()
		info := &mesos.AgentInfo{Hostname: a.ip, Port: new(a.port), ID: new(a.id)}
		a.mu.Unlock()
		mesosapi.WriteResponse(w, r, &agentapi.Response{Type: agentapi.Response_GET_AGENT, GetAgent: &agentapi.Response_GetAgent{AgentInfo: info}})
	case agentapi.Call_GET_TASKS:
		mesosapi.WriteResponse(w, r, &agentapi.Response{Type: agentapi.Response_GET_TASKS, GetTasks: a.describeTasks()})
	default:
		http.Error(w, "the scripted agent has no "+call.GetType().String(), http.StatusNotImplemented)
	}
}

// describeTasks lists all tasks. An ended task is completed once its terminal update is acknowledged.
func (a *agent) describeTasks() *agentapi.Response_GetTasks {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := &agentapi.Response_GetTasks{}
	for _, id := range slices.Sorted(maps.Keys(a.tasks)) {
		all.LaunchedTasks = append(all.LaunchedTasks, a.tasks[id].describe())
	}
	for _, id := range slices.Sorted(maps.Keys(a.ended)) {
		r := a.ended[id]
		if a.streams.HasPending(updates.TaskKey{Framework: r.framework.ID.Value, Task: id}) {
			all.TerminatedTasks = append(all.TerminatedTasks, r.describe())
		} else {
			all.CompletedTasks = append(all.CompletedTasks, r.describe())
		}
	}
	return all
}

func (r runs) describe() mesos.Task {
	return events.NewTask(r.task, *r.framework.ID, &r.executor.ExecutorID, r.state)
}
