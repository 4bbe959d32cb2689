package client

import (
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// A state is new once, and at most maxEnded attempts that have ended are remembered.
func TestEventHistoryIsBounded(t *testing.T) {
	h := eventHistory{maxEnded: 2}
	for i, step := range []struct {
		task  string
		state job.State
		isNew bool
	}{
		{"a", job.Running, true}, {"a", job.Running, false},
		{"a", job.Finished, true}, {"b", job.Finished, true}, {"a", job.Finished, false},
		{"live", job.Running, true},
		{"c", job.Failed, true}, // a is forgotten
		{"b", job.Finished, false}, {"c", job.Failed, false}, {"live", job.Running, false},
		{"a", job.Finished, true}, // b is forgotten
	} {
		ev := api.TaskEvent{Task: step.task, State: step.state, Time: time.Unix(int64(i), 0)}
		if got := h.add(ev); got != step.isNew {
			t.Errorf("step %d: %s %s is new: %t", i, step.task, step.state, got)
		}
	}
	if len(h.last) != 3 || len(h.ended) != 2 {
		t.Errorf("%d events and %d ended attempts are remembered, want 3 and 2", len(h.last), len(h.ended))
	}
}
