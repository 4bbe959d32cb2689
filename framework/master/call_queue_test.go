package master

import (
	"fmt"
	"testing"
	"time"

	"mesos-gpu/framework/sched"
)

// takeReady returns the operations that may be sent at the given time, and how long the next one must wait.
func takeReady(q *callQueue, now time.Time) (ops []sched.Operation, wait time.Duration) {
	for {
		op, wait := q.dequeue(now, nil)
		if op == nil {
			return ops, wait
		}
		ops = append(ops, op)
	}
}

func TestQueueKeepsOrder(t *testing.T) {
	q := newCallQueue(100)
	want := []sched.Operation{
		sched.ReviveOffers{},
		sched.KillTask{TaskID: "a"},
		sched.SuppressOffers{},
		sched.AcknowledgeUpdate{TaskID: "b"},
		sched.KillTask{TaskID: "c"},
	}
	for _, op := range want {
		q.enqueue(op)
	}
	got, wait := takeReady(q, time.Unix(1, 0))
	if fmt.Sprint(got) != fmt.Sprint(want) || wait != 0 {
		t.Errorf("took %v, want %v; wait %s", got, want, wait)
	}
}

// TestQueueBoundsTheRate checks that no second has more calls than the first burst and the rate allow, and that
// urgent calls go first.
func TestQueueBoundsTheRate(t *testing.T) {
	q := newCallQueue(10)
	for range 100 {
		q.enqueue(sched.ReviveOffers{})
	}
	for range 20 {
		q.enqueue(sched.KillTask{})
	}
	count := func(ops []sched.Operation) (kills, revives int) {
		for _, op := range ops {
			if isUrgent(op) {
				kills++
			} else {
				revives++
			}
		}
		return kills, revives
	}
	now := time.Unix(1, 0)
	ops, wait := takeReady(q, now)
	if kills, revives := count(ops); kills != 5 || revives != 5 || wait <= 0 || wait > 101*time.Millisecond {
		t.Errorf("at once %d KILLs and %d REVIVEs, then a wait of %s; want 5, 5 and 0.1 s", kills, revives, wait)
	}
	for range 15 { // then only KILLs
		now = now.Add(wait)
		if ops, wait = takeReady(q, now); len(ops) != 1 || !isUrgent(ops[0]) {
			t.Fatalf("took %v, want a KILL", ops)
		}
	}
	sent := 0
	for range 1000 {
		if wait == 0 {
			break
		}
		now = now.Add(wait)
		ops, wait = takeReady(q, now)
		sent += len(ops)
	}
	if sent != 95 {
		t.Errorf("%d REVIVEs were sent in all, want 95", sent)
	}
	if took := now.Sub(time.Unix(1, 0)); took < 11*time.Second || took > 12*time.Second {
		t.Errorf("120 calls took %s, want 11 to 12 s: a burst of 10, a reserve of 5, 10 a second", took)
	}
}

// Calls that are made at the same time are for different agents: those for one agent, and calls without an agent, keep
// their order.
func TestConcurrentCallsAreForDifferentAgents(t *testing.T) {
	q := newCallQueue(100)
	accept := func(agent string) sched.Operation { return sched.AcceptOffers{AgentID: agent} }
	kill := func(agent string) sched.Operation { return sched.KillTask{AgentID: agent, TaskID: "t"} }
	ack := func(agent string) sched.Operation { return sched.AcknowledgeUpdate{AgentID: agent, TaskID: "t"} }
	for _, op := range []sched.Operation{
		accept("a"), accept("b"), ack("c"), kill("a"), accept("d"), sched.ReviveOffers{}, kill(""), kill(""), accept("a"), accept("b"), accept("c"), accept("d"),
	} {
		q.enqueue(op)
	}
	inFlight := map[string]bool{}
	for _, step := range []struct {
		ended []string // the agents of calls that end before
		want  []sched.Operation
	}{
		{nil, []sched.Operation{accept("a"), accept("b"), ack("c")}},
		{[]string{"b"}, nil},
		{[]string{"a"}, []sched.Operation{kill("a"), accept("d")}},
		{[]string{"a", "c"}, nil}, // REVIVE is made alone
		{[]string{"d"}, []sched.Operation{sched.ReviveOffers{}}},
		{nil, nil},
		{[]string{""}, []sched.Operation{kill("")}},
		{[]string{""}, []sched.Operation{kill("")}},
		{[]string{""}, []sched.Operation{accept("a"), accept("b"), accept("c"), accept("d")}},
		{[]string{"a", "b", "c", "d"}, nil},
	} {
		for _, agent := range step.ended {
			delete(inFlight, agent)
		}
		var got []sched.Operation
		for {
			op, wait := q.dequeue(time.Unix(1, 0), inFlight)
			if wait != 0 {
				t.Errorf("wait %s", wait)
			}
			if op == nil {
				break
			}
			inFlight[agentOf(op)] = true
			got = append(got, op)
		}
		if fmt.Sprint(got) != fmt.Sprint(step.want) {
			t.Errorf("after the calls for %q, took %v, want %v", step.ended, got, step.want)
		}
	}
}
