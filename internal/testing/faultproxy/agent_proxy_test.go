package faultproxy_test

import (
	"fmt"
	"slices"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/testing/faultproxy"
)

// recordedCalls are the calls that a master and an agent have received.
type recordedCalls struct {
	agent link.AgentLink // the master's interface for the agent
	calls []string
}

// masterLink is a master that records its calls.
type masterLink struct {
	link.MasterLink
	*recordedCalls
}

func (l masterLink) Register(_ mesos.AgentInfo, _ []mesos.Resource, _ []link.RunningExecutor, a link.AgentLink) (mesos.AgentID, error) {
	l.agent = a
	l.calls = append(l.calls, "register")
	return mesos.AgentID{Value: "a"}, nil
}

func (l masterLink) Status(_ mesos.AgentID, _ mesos.FrameworkID, s mesos.TaskStatus) {
	l.calls = append(l.calls, "status "+s.TaskID.Value)
}

func (l masterLink) Lost(id mesos.AgentID) { l.calls = append(l.calls, "lost "+id.Value) }

// agentLink is an agent that records its calls.
type agentLink struct {
	link.AgentLink
	*recordedCalls
}

func (l agentLink) Run(_ mesos.FrameworkInfo, _ mesos.ExecutorInfo, t mesos.TaskInfo) {
	l.calls = append(l.calls, "run "+t.TaskID.Value)
}

func (l agentLink) Kill(_ mesos.FrameworkID, t mesos.TaskID, _ *mesos.KillPolicy) {
	l.calls = append(l.calls, "kill "+t.Value)
}

func (l agentLink) ReconcileTasks(mesos.FrameworkInfo, []mesos.TaskID) {
	l.calls = append(l.calls, "reconcile")
}

// TestCutNetworkDelaysMessages checks that messages wait while their direction is
// cut, and arrive in order afterwards, also across a registration.
func TestCutNetworkDelaysMessages(t *testing.T) {
	r := &recordedCalls{}
	p := faultproxy.NewAgentProxy(masterLink{recordedCalls: r})
	register := func() error {
		_, err := p.Register(mesos.AgentInfo{Hostname: "h"}, nil, nil, agentLink{recordedCalls: r})
		return err
	}
	want := func(calls ...string) {
		t.Helper()
		if !slices.Equal(r.calls, calls) {
			t.Errorf("got %q, want %q", r.calls, calls)
		}
		r.calls = nil
	}
	if err := register(); err != nil {
		t.Fatal(err)
	}
	status := func(task string) {
		p.Status(mesos.AgentID{Value: "a"}, mesos.FrameworkID{}, mesos.TaskStatus{TaskID: mesos.TaskID{Value: task}})
	}
	r.agent.Run(mesos.FrameworkInfo{}, mesos.ExecutorInfo{}, mesos.TaskInfo{TaskID: mesos.TaskID{Value: "1"}})
	status("1")
	want("register", "run 1", "status 1")

	p.Cut(true, false)
	r.agent.Run(mesos.FrameworkInfo{}, mesos.ExecutorInfo{}, mesos.TaskInfo{TaskID: mesos.TaskID{Value: "2"}})
	status("1")
	p.LoseAgent()
	if err := register(); err != nil {
		t.Fatal(err)
	}
	r.agent.ReconcileTasks(mesos.FrameworkInfo{}, nil)
	r.agent.Kill(mesos.FrameworkID{}, mesos.TaskID{Value: "2"}, nil)
	if toAgent, toMaster := p.Waiting(); toAgent != 3 || toMaster != 0 {
		t.Errorf("%d and %d messages wait", toAgent, toMaster)
	}
	want("status 1", "lost a", "register")
	p.Heal(true, false)
	want("run 2", "reconcile", "kill 2")

	p.Cut(false, true)
	status("3")
	if err := register(); err == nil {
		t.Error("the agent registered with a master that it cannot reach")
	}
	r.agent.Kill(mesos.FrameworkID{}, mesos.TaskID{Value: "3"}, nil)
	want("kill 3")
	p.Heal(true, true)
	want("status 3")
	if got := fmt.Sprint(p.Waiting()); got != "0 0" {
		t.Errorf("%s messages wait", got)
	}
}
