package sched

import (
	"slices"
	"strings"
	"testing"
)

// TestTasksThatNoJobOwnsAreEnded: however the scheduler learns that a task runs which no job needs any more, it sends a KILL. A
// KILL does not reach a task that its master does not know, so its executor is shut down. Both are repeated.
func TestTasksThatNoJobOwnsAreEnded(t *testing.T) {
	const (
		kill     = "kill train.0.1 on a"
		shutdown = "shut down executor train.0.1 on a"
		unknown  = "update train.0.1 LOST reconciled proof=unknown_to_master"
		listed   = "inspected a train.0.1=RUNNING"
	)
	running := func(then ...string) []string {
		return append([]string{"submit train", "offer o1 agent=a", "update train.0.1 RUNNING"}, then...)
	}
	givenUp := func(then ...string) []string {
		return append(running("update train.0.1 UNREACHABLE", "agent-lost a", "wait 15m", "kill train"), then...)
	}
	for _, c := range []struct {
		task     string
		commands []string
		want     []string // at the end
	}{
		{"without a record, in a status", []string{"update train.0.1 RUNNING"}, []string{kill}},
		{"without a record, in its agent's list", []string{listed}, []string{kill}},
		{"without a record, unknown to its master", []string{listed, "wait 5s", unknown}, []string{kill, shutdown}},
		{"given up, in a status", givenUp("update train.0.1 RUNNING"), []string{kill}},
		{"given up, in its agent's list", givenUp(listed), []string{kill}},
		{"given up, unknown to its master", givenUp("offer o2 agent=a", "wait 1s", unknown, listed), []string{kill, shutdown}},
		{
			"given up before a restart of the scheduler",
			givenUp("restart", "subscribed f1", "offer o2 agent=a", "wait 1s", unknown, listed), []string{kill, shutdown},
		},
		{"of a killed job, unknown to its master", running(unknown, "kill train"), []string{kill, shutdown}},
		{"of a killed job, which its master forgets later", running("kill train", unknown), []string{kill, shutdown}},
	} {
		t.Run(c.task, func(t *testing.T) {
			count := 0
			for _, more := range [][]string{nil, {"wait 1m"}} {
				got := play(t, slices.Concat([]string{"subscribed f1"}, c.commands, more)...)
				sent := slices.DeleteFunc(strings.Split(got, "\n"), func(line string) bool { return line != kill && line != shutdown })
				if n := len(sent) - len(c.want); n < count || !slices.Equal(sent[n:], c.want) {
					t.Errorf("no KILL or SHUTDOWN ends a task %s: sent %q, want another %q:\n%s", c.task, sent, c.want, got)
				}
				count = len(sent)
			}
		})
	}
}

// TestAgentsAreAskedForTasksInDoubt: the master does not know a task, so only its agent knows whether the task runs. The agent is
// asked, also for a task that was given up, once the agent is back.
func TestAgentsAreAskedForTasksInDoubt(t *testing.T) {
	running := []string{"subscribed f1", "submit train", "offer o1 agent=a", "update train.0.1 RUNNING"}
	for task, commands := range map[string][]string{
		"its master does not know":         {"update train.0.1 LOST reconciled proof=unknown_to_master", "wait 1s"},
		"was given up":                     {"update train.0.1 UNREACHABLE", "agent-lost a", "wait 15m", "offer o2 agent=a", "wait 1s"},
		"was given up, after a new leader": {"update train.0.1 UNREACHABLE", "agent-lost a", "wait 15m", "restart", "subscribed f1", "offer o2 agent=a", "wait 1s"},
	} {
		if got := play(t, slices.Concat(running, commands)...); !strings.Contains(got, "inspect a\n") {
			t.Errorf("the scheduler does not ask the agent for a task that %s:\n%s", task, got)
		}
	}
}

// TestTaskThatItsJobNeedsIsAdopted: a task that its master does not know runs on the agent, and its job needs it.
func TestTaskThatItsJobNeedsIsAdopted(t *testing.T) {
	got := play(t, "subscribed f1", "submit train", "offer o1 agent=a", "update train.0.1 RUNNING",
		"update train.0.1 LOST reconciled proof=unknown_to_master", "wait 1s", "inspected a train.0.1=RUNNING", "offer o2 agent=a", "wait 1m")
	for _, line := range []string{"kill train.0.1", "shut down executor train.0.1", "train.0.2"} {
		if strings.Contains(got, line) {
			t.Errorf("the scheduler does not adopt a task that its agent has and its job needs: %q in\n%s", line, got)
		}
	}
}
