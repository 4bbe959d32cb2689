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

	"mesos-gpu/internal/apachemesos"
)

// sleeper is an app that opens no port.
func sleeper(id, cmd string, instances int) *gomarathon.Application {
	return new(gomarathon.Application).Name(id).Command(cmd).CPU(0.05).Memory(32).Count(instances).EmptyPortDefinitions()
}

// runs creates an app and waits until it runs.
func (c *client) runs(a *gomarathon.Application) {
	c.Helper()
	made, err := c.CreateApplication(a)
	c.check(err)
	c.check(c.WaitOnDeployment(made.DeploymentIDs()[0].DeploymentID, patience))
}

// racks counts the instances of an app that run by the hosts they are on.
func (c *client) racks(id string) map[string]int {
	c.Helper()
	count := map[string]int{}
	for _, one := range c.app(id).Tasks {
		if one.State == "TASK_RUNNING" {
			count[one.Host]++
		}
	}
	return count
}

// TestScalingDownSpreads: of too many instances those go that are where most
// are, though others are younger.
func TestScalingDownSpreads(t *testing.T) {
	cluster, url := startCluster(t)
	c := newClient(t, url)
	cluster.join("west")
	c.runs(sleeper("/spread", "exec sleep 1000", 3).AddConstraint("rack", "MAX_PER", "3"))
	cluster.join("east")
	c.done(c.ScaleApplicationInstances("/spread", 5, false))
	if got, want := c.racks("/spread"), map[string]int{"west": 3, "east": 2}; !maps.Equal(got, want) {
		t.Fatalf("before: got %v, want %v", got, want)
	}
	c.done(c.ScaleApplicationInstances("/spread", 2, false))
	if got, want := c.racks("/spread"), map[string]int{"west": 1, "east": 1}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestAppOutlivesItsJob: an app waits for an agent that is away for as long as
// it says. Once somebody has ended the job under it, nothing is left to wait
// for: the app comes back elsewhere, as another job.
func TestAppOutlivesItsJob(t *testing.T) {
	cluster, url := startCluster(t)
	c := newClient(t, url)
	cluster.join("west")
	a := sleeper("/stays", "exec sleep 1000", 1)
	c.runs(a.SetUnreachableStrategy(gomarathon.UnreachableStrategy{AbsenceReason: gomarathon.UnreachableStrategyAbsenceReasonDisabled}))
	first, version := c.app("/stays").Tasks[0], c.app("/stays").Version
	cluster.join("east")
	cluster.master.Lost(mesos.AgentID{Value: first.SlaveID})
	apachemesos.PollUntil(t, "the instance to be out of reach", func() bool {
		tasks := c.app("/stays").Tasks
		return len(tasks) == 1 && tasks[0].ID == first.ID && tasks[0].State == "TASK_UNREACHABLE"
	})
	kill, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/v1/jobs/"+jobOf(first.ID), nil)
	c.check(err)
	answer, err := http.DefaultClient.Do(kill)
	c.check(err)
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Fatalf("ending the job: %s", answer.Status)
	}
	apachemesos.PollUntil(t, "the app to run again", func() bool { return c.racks("/stays")["east"] == 1 })
	if now := c.app("/stays"); now.Version == version || *now.Instances != 1 {
		t.Errorf("it runs %d as version %s, which was that of the job that was ended", *now.Instances, now.Version)
	}
	if err := cluster.agents["west"].Join(t.Context(), cluster.master); err != nil {
		t.Fatal(err)
	}
	apachemesos.PollUntil(t, "what came back to be ended", func() bool {
		tasks := c.app("/stays").Tasks
		return len(tasks) == 1 && tasks[0].Host == "east" && tasks[0].State == "TASK_RUNNING"
	})
}

// jobOf is the name of a task's job.
func jobOf(task string) string {
	parts := strings.Split(task, ".")
	return strings.Join(parts[:len(parts)-3], ".")
}

// TestEachEndIsTold: every attempt of an app that crashes has its own end in
// the stream of events, though others have been started since.
func TestEachEndIsTold(t *testing.T) {
	c := newClient(t, start(t))
	heard := c.listen()
	a := sleeper("/crashes", "exit 3", 1)
	a.BackoffSeconds = new(0.0)
	_, err := c.CreateApplication(a)
	c.check(err)
	states := map[string][]string{} // of each attempt
	ended := map[string]bool{}
	deadline := time.After(patience)
	for !ended["1"] || !ended["2"] || !ended["3"] { // the client hands them over in any order
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
			t.Fatalf("three ends never came: %v", states)
		}
	}
	for n := 1; n <= 3; n++ {
		attempt := fmt.Sprint(n)
		failed := len(slices.DeleteFunc(slices.Clone(states[attempt]), func(s string) bool { return s != "TASK_FAILED" }))
		if failed != 1 {
			t.Errorf("attempt %s: got states %v, want one end", attempt, states[attempt])
		}
	}
}
