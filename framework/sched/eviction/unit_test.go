package eviction

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestHarmOrder: each field counts more than the fields after it, also where several units end together.
func TestHarmOrder(t *testing.T) {
	ordered := []Harm{
		{},
		{Tasks: 1},
		{Work: 1},
		{Work: 1, Tasks: 1},
		{Priority: 1},
		{Priority: 2},
		{NotPreemptible: true},
		{WithinEntitlement: true},
		{WithinEntitlement: true, Tasks: 1},
	}
	for i := range ordered {
		for k := range ordered {
			if got := ordered[i].Compare(&ordered[k]); got != min(max(i-k, -1), 1) {
				t.Errorf("%+v compared with %+v: %d", ordered[i], ordered[k], got)
			}
		}
	}
	sum := Harm{NotPreemptible: true, Priority: 1, Work: 2, Tasks: 3}.add(&Harm{WithinEntitlement: true, Priority: 4, Work: 5, Tasks: 6})
	if diff := cmp.Diff(Harm{true, true, 4, 7, 9}, sum); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(sum, (&Harm{}).add(&sum)); diff != "" {
		t.Error(diff)
	}
}

// TestCollectUnits: which tasks may end, what they hold, and what is lost with them.
func TestCollectUnits(t *testing.T) {
	gang := &job.Spec{Name: "gang", Role: "r", Gang: true, Preemptible: true, Priority: 2, Request: gpu.Request{GPUs: 2}}
	kept := &job.Spec{Name: "kept", Role: "r", Gang: true}
	rest := &job.Spec{Name: "rest", Role: "r", Gang: true, Request: gpu.Request{GPUs: 1}}
	array := &job.Spec{Name: "array", Role: "s", Request: gpu.Request{GPUs: 1}}
	cpus := &job.Spec{Name: "cpus", Role: "s", Preemptible: true}
	since := testTime.Add(-time.Hour)
	share := gpu.DeviceShare{UUID: "d", Type: "T4", MilliDevices: 500}
	running := []queue.RunningTask{
		{TaskID: "gang.0", Spec: gang, GPUTypes: map[string]int{"V100": 2}, Since: since},
		{TaskID: "array.1", Spec: array, Shares: []gpu.DeviceShare{share}, Since: testTime.Add(time.Hour)},
		{TaskID: "array.0", Spec: array, Shares: []gpu.DeviceShare{share}, Since: testTime},
		{TaskID: "gang.1", Spec: gang, GPUTypes: map[string]int{"V100": 1, "A100": 1}, Since: since},
		{TaskID: "kept.0", Spec: kept, Since: since},
		{TaskID: "kept.1", Spec: kept, Since: since, Ending: true},
		{TaskID: "rest.0", Spec: rest, Since: since},
		{TaskID: "rest.1", Spec: rest, Since: since, Ending: true, Ended: true},
		{TaskID: "cpus.0", Spec: cpus, Since: since},
		{TaskID: "cpus.1", Spec: cpus, Since: since, Stuck: true},
		{TaskID: "cpus.2", Spec: cpus, Since: since},
	}
	mayEnd := func(r *queue.RunningTask) bool { return r.TaskID != "cpus.2" }
	type unit struct {
		Tasks  []string
		Role   string
		Types  map[string]int
		Shares int
		Harm   Harm
		GPUs   bool
	}
	var got []unit
	for _, u := range CollectUnits(running, testTime, mayEnd, func(role string) bool { return role == "r" }) {
		one := unit{Role: u.Role, Types: u.Types, Shares: len(u.Shares), Harm: u.Harm, GPUs: u.HoldsGPUs}
		for _, r := range u.Tasks {
			one.Tasks = append(one.Tasks, r.TaskID)
		}
		got = append(got, one)
	}
	want := []unit{
		{[]string{"cpus.0"}, "s", map[string]int{}, 0, Harm{false, false, 0, time.Hour, 1}, false},
		{[]string{"array.0"}, "s", map[string]int{}, 1, Harm{false, true, 0, 0, 1}, true},
		{[]string{"array.1"}, "s", map[string]int{}, 1, Harm{false, true, 0, 0, 1}, true},
		{[]string{"gang.0", "gang.1"}, "r", map[string]int{"V100": 3, "A100": 1}, 0, Harm{true, false, 2, 4 * time.Hour, 2}, true},
		{[]string{"rest.0"}, "r", map[string]int{}, 0, Harm{true, true, 0, time.Hour, 1}, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
}

// TestUnitFrees: a unit can make room for a request only if it holds what the request needs.
func TestUnitFrees(t *testing.T) {
	v100 := gpu.TypeSelector{Include: []string{"V100"}}
	for _, c := range []struct {
		name    string
		held    int
		types   map[string]int
		shares  []gpu.DeviceShare
		request gpu.Request
		want    bool
	}{
		{"the type", 1, map[string]int{"V100": 1}, nil, gpu.Request{GPUs: 1, Types: v100}, true},
		{"another type", 1, map[string]int{"T4": 1}, nil, gpu.Request{GPUs: 1, Types: v100}, false},
		{"an unknown type", 1, map[string]int{"": 1}, nil, gpu.Request{GPUs: 1, Types: v100}, true},
		{"one of several types", 1, map[string]int{"T4|V100": 1}, nil, gpu.Request{GPUs: 1, Types: v100}, true},
		{"a share of the type", 1, nil, []gpu.DeviceShare{{Type: "V100"}}, gpu.Request{GPUs: 1, Types: v100}, true},
		{"a share of another type", 1, nil, []gpu.DeviceShare{{Type: "T4"}}, gpu.Request{GPUs: 1, Types: v100}, false},
		{"a share of an unknown type", 1, nil, []gpu.DeviceShare{{}}, gpu.Request{GPUs: 1, Types: v100}, true},
		{"CPUs for a task without GPUs", 1, map[string]int{"T4": 1}, nil, gpu.Request{}, true},
		{"CPUs beside free GPUs", 0, nil, nil, gpu.Request{GPUs: 1, Types: v100}, true},
	} {
		u := Unit{Holding: quota.Holding{HoldsGPUs: c.held > 0, Types: c.types, Shares: c.shares}}
		if got := u.frees(&c.request); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestTimesOfVictims: a task runs for its MinRunTime, and no victim gets SIGTERM before the waiting job's PreemptAfter.
func TestTimesOfVictims(t *testing.T) {
	spec := &job.Spec{MinRunTime: time.Minute}
	for since, want := range map[time.Duration]bool{59 * time.Second: false, time.Minute: true, 2 * time.Minute: true} {
		if got := HasRunEnough(&queue.RunningTask{Spec: spec, Since: testTime.Add(-since)}, testTime); got != want {
			t.Errorf("after %s the task has run enough: %t", since, got)
		}
	}
	victim := &job.Spec{KillGrace: 10 * time.Second}
	for waited, want := range map[time.Duration]bool{0: true, time.Minute - time.Second: true, time.Minute: false} {
		waiting := &queue.WaitingJob{Spec: &job.Spec{PreemptAfter: time.Minute}, Submitted: testTime.Add(-waited)}
		if got := IsTooEarly(waiting, victim, testTime); got != want {
			t.Errorf("after %s it is too early: %t", waited, got)
		}
		if waiting.Spec = (&job.Spec{}); IsTooEarly(waiting, victim, testTime) {
			t.Error("it is too early for a job without PreemptAfter")
		}
	}
	u := Unit{Tasks: []*queue.RunningTask{{Spec: victim}, {Spec: victim}}}
	ended := u.End(testTime)
	if len(ended) != 2 || slices.ContainsFunc(ended, func(r *queue.RunningTask) bool {
		return !r.Ending || !r.Ends.Equal(testTime.Add(victim.EvictionGrace()+ExitSlack))
	}) {
		t.Errorf("the tasks of the unit: %+v, %+v", *u.Tasks[0], *u.Tasks[1])
	}
}
