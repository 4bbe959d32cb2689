package master

import (
	"fmt"
	"os"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// TestProofOfEnd: what Mesos 1.12 sends in each situation, and what that proves.
func TestProofOfEnd(t *testing.T) {
	master, agent, executor := mesos.SOURCE_MASTER, mesos.SOURCE_AGENT, mesos.SOURCE_EXECUTOR
	for _, c := range []struct {
		situation string
		state     mesos.TaskState
		source    mesos.TaskStatus_Source
		reason    mesos.TaskStatus_Reason // 0 for none
		want      sched.EndProof
	}{
		{"the master does not know the task, its agent is registered", mesos.TASK_GONE, master, mesos.REASON_RECONCILIATION, sched.UnknownToMaster},
		{"the same, to a framework that is not aware of partitions", mesos.TASK_LOST, master, mesos.REASON_RECONCILIATION, sched.UnknownToMaster},
		{"the master knows neither task nor agent", mesos.TASK_UNKNOWN, master, mesos.REASON_RECONCILIATION, sched.AgentUnknown},
		{"an operator has marked the agent as gone", mesos.TASK_GONE_BY_OPERATOR, master, mesos.REASON_AGENT_REMOVED_BY_OPERATOR, sched.ProvenEnd},
		{"the same, in answer to a reconciliation", mesos.TASK_GONE_BY_OPERATOR, master, mesos.REASON_RECONCILIATION, sched.ProvenEnd},
		{"the offer was rescinded", mesos.TASK_DROPPED, master, mesos.REASON_INVALID_OFFERS, sched.ProvenEnd},
		{"the agent was disconnected when the launch was accepted", mesos.TASK_DROPPED, master, mesos.REASON_AGENT_DISCONNECTED, sched.ProvenEnd},
		{"the agent was removed when the launch was accepted", mesos.TASK_DROPPED, master, mesos.REASON_AGENT_REMOVED, sched.ProvenEnd},
		{"the agent has shut down, or its machine has registered under another id", mesos.TASK_LOST, master, mesos.REASON_AGENT_REMOVED, sched.AgentRemoved},
		{"an agent that registers again does not have the task", mesos.TASK_DROPPED, agent, mesos.REASON_RECONCILIATION, sched.AbsentFromAgent},
		{"the master repeats that", mesos.TASK_DROPPED, master, mesos.REASON_RECONCILIATION, sched.AbsentFromAgent},
		{"an agent has no executor for a KILL", mesos.TASK_DROPPED, agent, mesos.REASON_EXECUTOR_TERMINATED, sched.AbsentFromAgent},
		{"an agent rejects a launch", mesos.TASK_DROPPED, agent, mesos.REASON_INVALID_OFFERS, sched.ProvenEnd},
		{"an agent drains", mesos.TASK_DROPPED, agent, mesos.REASON_AGENT_DRAINING, sched.ProvenEnd},
		{"an executor did not return to its agent", mesos.TASK_GONE, agent, mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT, sched.ProvenEnd},
		{"an executor reports it", mesos.TASK_LOST, executor, 0, sched.ProvenEnd},
	} {
		s := mesos.TaskStatus{State: &c.state, Source: &c.source}
		if c.reason != 0 {
			s.Reason = &c.reason
		}
		if u := convertUpdate(&s); u.State != job.Lost || u.Proof != c.want {
			t.Errorf("%s (%s, %s, %s): got %s with proof %q, want %q", c.situation, c.state, c.source, c.reason, u.State, u.Proof, c.want)
		}
	}
	for _, state := range []mesos.TaskState{mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_ERROR} {
		if u := convertUpdate(&mesos.TaskStatus{State: &state, Source: &executor}); u.Proof != sched.ProvenEnd {
			t.Errorf("%s: got proof %q", state, u.Proof)
		}
	}
}

// TestEndProofsAreDocumented: the table of the API's reference has the rows of endProofs, in order.
func TestEndProofsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	name := func(is bool, text string) string {
		if !is {
			return "any"
		}
		return "`" + text + "`"
	}
	for i, row := range endProofs {
		state, source, reason := "", "", ""
		if row.state != nil {
			state = row.state.String()
		}
		if row.source != nil {
			source = strings.TrimPrefix(row.source.String(), "SOURCE_")
		}
		if row.reason != nil {
			reason = strings.TrimPrefix(row.reason.String(), "REASON_")
		}
		line := fmt.Sprintf("| %s | %s | %s |", name(row.state != nil, state), name(row.source != nil, source), name(row.reason != nil, reason))
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Fatalf("docs/reference/api.md lacks row %d after the ones before it: %s", i+1, line)
		}
		rest = after
	}
}
