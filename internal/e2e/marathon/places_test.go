package marathon

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gomarathon "github.com/gambol99/go-marathon"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/testing/apachemesos"
)

// newAppWithoutPorts returns an app that requests no port.
func newAppWithoutPorts(id, cmd string, instances int) *gomarathon.Application {
	return new(gomarathon.Application).Name(id).Command(cmd).CPU(0.05).Memory(32).Count(instances).EmptyPortDefinitions()
}

// deployApp creates an app and waits until its deployment has ended.
func (c *client) deployApp(a *gomarathon.Application) {
	c.Helper()
	made, err := c.CreateApplication(a)
	c.requireNoError(err)
	c.requireNoError(c.WaitOnDeployment(made.DeploymentIDs()[0].DeploymentID, waitTimeout))
}

// countInstancesByRack counts the running instances of an app by host.
func (c *client) countInstancesByRack(id string) map[string]int {
	c.Helper()
	count := map[string]int{}
	for _, one := range c.getApp(id).Tasks {
		if one.State == "TASK_RUNNING" {
			count[one.Host]++
		}
	}
	return count
}

// TestScaleDownRemovesInstancesOfTheFullestRack runs 3 instances on one rack and 2 newer ones
// on another, and scales to 2. One must remain on each rack: the spread has precedence over
// age.
func TestScaleDownRemovesInstancesOfTheFullestRack(t *testing.T) {
	cluster, url := startCluster(t)
	c := newClient(t, url)
	cluster.startAgent("west")
	c.deployApp(newAppWithoutPorts("/spread", "exec sleep 1000", 3).AddConstraint("rack", "MAX_PER", "3"))
	cluster.startAgent("east")
	c.awaitDeployment(c.ScaleApplicationInstances("/spread", 5, false))
	if got, want := c.countInstancesByRack("/spread"), map[string]int{"west": 3, "east": 2}; !maps.Equal(got, want) {
		t.Fatalf("before: got %v, want %v", got, want)
	}
	for _, one := range c.getApp("/spread").Tasks {
		cluster.awaitAttributes(one.SlaveID)
	}
	c.awaitDeployment(c.ScaleApplicationInstances("/spread", 2, false))
	if got, want := c.countInstancesByRack("/spread"), map[string]int{"west": 1, "east": 1}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestAppIsRedeployedAfterItsJobIsKilled loses the agent of an app that never replaces
// unreachable instances, and then kills the app's job through the jobs API. The app must run
// on another agent under a new job, and the old instance must be killed when its agent
// returns.
func TestAppIsRedeployedAfterItsJobIsKilled(t *testing.T) {
	cluster, url := startCluster(t)
	c := newClient(t, url)
	cluster.startAgent("west")
	a := newAppWithoutPorts("/stays", "exec sleep 1000", 1)
	c.deployApp(a.SetUnreachableStrategy(gomarathon.UnreachableStrategy{AbsenceReason: gomarathon.UnreachableStrategyAbsenceReasonDisabled}))
	first, version := c.getApp("/stays").Tasks[0], c.getApp("/stays").Version
	cluster.startAgent("east")
	cluster.master.Lost(mesos.AgentID{Value: first.SlaveID})
	apachemesos.PollUntil(t, "the instance to be out of reach", func() bool {
		tasks := c.getApp("/stays").Tasks
		return len(tasks) == 1 && tasks[0].ID == first.ID && tasks[0].State == "TASK_UNREACHABLE"
	})
	kill, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/v1/jobs/"+jobNameOf(first.ID), nil)
	c.requireNoError(err)
	answer, err := http.DefaultClient.Do(kill)
	c.requireNoError(err)
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatalf("ending the job: %s", answer.Status)
	}
	apachemesos.PollUntil(t, "the app to run again", func() bool { return c.countInstancesByRack("/stays")["east"] == 1 })
	if now := c.getApp("/stays"); now.Version == version || *now.Instances != 1 {
		t.Errorf("it runs %d as version %s, which was that of the job that was ended", *now.Instances, now.Version)
	}
	if err := cluster.agents["west"].Join(t.Context(), cluster.master); err != nil {
		t.Fatal(err)
	}
	apachemesos.PollUntil(t, "what came back to be ended", func() bool {
		tasks := c.getApp("/stays").Tasks
		return len(tasks) == 1 && tasks[0].Host == "east" && tasks[0].State == "TASK_RUNNING"
	})
}

// jobNameOf returns the name of a task's job.
func jobNameOf(task string) string {
	parts := strings.Split(task, ".")
	return strings.Join(parts[:len(parts)-3], ".")
}

// TestEventStreamReportsFailureOfEachAttempt runs an app that crashes. The event stream must
// contain one TASK_FAILED of each attempt.
func TestEventStreamReportsFailureOfEachAttempt(t *testing.T) {
	c := newClient(t, startLocalCluster(t))
	heard := c.recordEvents()
	a := newAppWithoutPorts("/crashes", "exit 3", 1)
	a.BackoffSeconds = new(0.0)
	_, err := c.CreateApplication(a)
	c.requireNoError(err)
	states := map[string][]string{} // by attempt
	ended := map[string]bool{}
	deadline := time.After(waitTimeout)
	for !ended["1"] || !ended["2"] || !ended["3"] { // the client delivers events in any order
		select {
		case ev := <-heard.events:
			s, ok := ev.Event.(*gomarathon.EventStatusUpdate)
			if !ok {
				continue
			}
			attempt := strings.Split(s.TaskID, ".")[3]
			states[attempt] = append(states[attempt], s.TaskStatus)
			if s.AppID != "/crashes" || s.TaskStatus == "TASK_FAILED" && !strings.Contains(s.Message, "3") {
				t.Errorf("got %+v", s)
			}
			if s.TaskStatus == "TASK_FAILED" {
				ended[attempt] = true
			}
		case <-deadline:
			t.Fatalf("received fewer than three failures: %v", states)
		}
	}
	for n := 1; n <= 3; n++ {
		attempt := fmt.Sprint(n)
		failed := len(slices.DeleteFunc(slices.Clone(states[attempt]), func(s string) bool { return s != "TASK_FAILED" }))
		if failed != 1 {
			t.Errorf("attempt %s: got states %v, want TASK_FAILED once", attempt, states[attempt])
		}
	}
}
