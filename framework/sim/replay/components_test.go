package replay

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sim"
	"mesos-gpu/job"
)

func makeRecords(t *testing.T, list ...[3]int) []JobRecord {
	t.Helper()
	var all []JobRecord
	for i, x := range list { // arrival, run time, GPUs
		s, err := NewGangSpec("j"+string(rune('a'+i)), x[2], 8, sched.Amount{CPUs: 1, MemMiB: 64})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, JobRecord{Spec: s, ArrivesAt: time.Duration(x[0]) * time.Second, RunTimes: []time.Duration{time.Duration(x[1]) * time.Second}})
	}
	return all
}

// TestCompletionBound compares with manual calculations.
func TestCompletionBound(t *testing.T) {
	for _, c := range []struct {
		name  string
		works []JobRecord
		gpus  int
		want  float64
	}{
		{"nothing", nil, 8, 0},
		{"a job takes as long as it runs", makeRecords(t, [3]int{0, 100, 1}), 8, 100},
		{"one after the other, the shortest first", makeRecords(t, [3]int{0, 100, 8}, [3]int{0, 10, 8}), 8, (10 + 110) / 2.0},
		{"a shorter one comes later and goes before", makeRecords(t, [3]int{0, 100, 8}, [3]int{50, 10, 8}), 8, (110 + 10) / 2.0},
		{"a longer one does not", makeRecords(t, [3]int{0, 100, 8}, [3]int{50, 60, 8}), 8, (100 + 110) / 2.0},
		{"idle between", makeRecords(t, [3]int{0, 10, 8}, [3]int{100, 10, 8}), 8, 10},
	} {
		if got := CompletionBound(slices.Values(c.works), c.gpus); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: got %g, want %g", c.name, got, c.want)
		}
	}
}

// TestHandMadeRecord replays four jobs on one agent. The expected order was computed manually; free resources are
// offered within a second.
func TestHandMadeRecord(t *testing.T) {
	for _, c := range []struct {
		name  string
		role  queue.Role
		times RunTimeSource
		short time.Duration
		want  string // jobs in the order of their starts
	}{
		{name: "the oldest that fits", want: "ja jc jd jb"},
		{name: "no job overtakes", role: queue.Role{Strict: true}, want: "ja jb jc jd"},
		{name: "backfill: what would delay the head waits", times: RunTimeExact, want: "ja jc jb jd"},
		{name: "the shortest", role: queue.Role{Order: queue.ShortestFirst}, times: RunTimeExact, want: "ja jc jb jd"},
		{name: "preemption: the last is short and takes the place of the first", times: RunTimeExact, short: 55 * time.Second, want: "jb jc ja jd"},
	} {
		list := makeRecords(t, [3]int{0, 100, 4}, [3]int{10, 50, 8}, [3]int{20, 60, 2}, [3]int{30, 300, 2})
		var starts []string
		cfg := ReplaySettings{Agents: agents(1), RunTimes: c.times, Short: c.short}
		cfg.Sched.Policy.Roles = []queue.Role{c.role}
		type life struct {
			name string
			at   time.Duration
		}
		var lives []life
		cfg.JobEnded = func(w *JobRecord, started, ended time.Duration) {
			at := started
			if c.short > 0 {
				at = ended - w.RunTimes.longest() // its last start
			}
			lives = append(lives, life{w.Spec.Name, at})
		}
		if _, err := RunReplay(cfg, slices.Values(list)); err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(lives, func(a, b life) int { return int(a.at - b.at) })
		for _, l := range lives {
			starts = append(starts, l.name)
		}
		if got := strings.Join(starts, " "); got != c.want {
			t.Errorf("%s: %s start in this order, want %s", c.name, got, c.want)
		}
	}
}

// TestJobThatNeverFits checks that the replay ends and reports the job.
func TestJobThatNeverFits(t *testing.T) {
	list := makeRecords(t, [3]int{0, 10, 16}, [3]int{1, 10, 1})
	list[1].Spec.Name = "UPPER case"
	r, err := RunReplay(ReplaySettings{Agents: agents(1)}, slices.Values(append(list, makeRecords(t, [3]int{}, [3]int{}, [3]int{2, 5, 1})[2])))
	if err != nil {
		t.Fatal(err)
	}
	if r.Jobs != 1 || r.Never != 1 || r.Refused != 1 || !strings.Contains(r.Why, "UPPER case") {
		t.Errorf("%d ended, %d never started, %d refused: %s", r.Jobs, r.Never, r.Refused, r.Why)
	}
}

func TestRejectsRecordsOutOfOrder(t *testing.T) {
	if _, err := RunReplay(ReplaySettings{Agents: agents(1)}, slices.Values(makeRecords(t, [3]int{10, 1, 1}, [3]int{5, 1, 1}))); err == nil ||
		!strings.Contains(err.Error(), "sort the record") {
		t.Errorf("got %v", err)
	}
}

func TestNewSpec(t *testing.T) {
	for gpus, want := range map[int][2]int{1: {1, 1}, 8: {1, 8}, 12: {2, 6}, 16: {2, 8}, 24: {3, 8}, 128: {16, 8}, 11: {11, 1}} {
		s, err := NewGangSpec("j", gpus, 8, sched.Amount{CPUs: 2, MemMiB: 100})
		if err != nil || s.Tasks != want[0] || s.Request.GPUs != want[1] || s.Gang != (want[0] > 1) || s.CPUs != float64(2*want[1]) {
			t.Errorf("%d GPUs: %d tasks of %d GPUs and %g CPUs, gang %t, %v", gpus, s.Tasks, s.Request.GPUs, s.CPUs, s.Gang, err)
		}
	}
	if _, err := NewGangSpec("j", 2, 0, sched.Amount{}); err == nil {
		t.Error("a job of GPUs is made for agents without")
	}
}

// TestVirtualMasterFilters checks that refused resources are offered again when there are more of them, when the
// filter expires, or on REVIVE, and that a suppressed role gets no offers.
func TestVirtualMasterFilters(t *testing.T) {
	m, err := newVirtualMaster(agents(1), []queue.Role{{Name: "a"}, {Name: "b"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	offered := func(now time.Duration) string {
		list := m.allocateOffers(now)
		if len(list) == 0 {
			return ""
		}
		o, err := m.withdrawOffer(list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		m.addFilter(o, now, 10*time.Second)
		return list[0].Role
	}
	for _, step := range []struct {
		at   time.Duration
		do   func()
		want string
	}{
		{0, nil, "a"}, {1, nil, "b"}, {2, nil, ""}, {10 * time.Second, nil, "a"},
		{10 * time.Second, func() { m.reviveRoles([]string{"b"}) }, "b"},
		{11 * time.Second, func() { m.agents[0].free.cpus++ }, "a"},
		{30 * time.Second, func() { m.suppressRoles([]string{"a"}) }, "b"},
	} {
		if step.do != nil {
			step.do()
		}
		if got := offered(step.at); got != step.want {
			t.Errorf("at %s: offered to %q, want %q", step.at, got, step.want)
		}
	}
	if _, err := m.withdrawOffer("o1"); err == nil {
		t.Error("an offer can be answered twice")
	}
}

// TestVirtualMasterRejectsOvercommit checks that the master allocates nothing twice.
func TestVirtualMasterRejectsOvercommit(t *testing.T) {
	m, err := newVirtualMaster(agents(1), []queue.Role{{}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := makeRecords(t, [3]int{0, 1, 1})[0].Spec
	l := sched.TaskLaunch{TaskID: "t", Spec: &s, DeviceIDs: []string{"GPU-vc-000-3"}}
	if _, err := m.takeResources(0, 0, &l); err != nil {
		t.Fatal(err)
	}
	if _, err := m.takeResources(0, 0, &l); err == nil || !strings.Contains(err.Error(), "free") {
		t.Errorf("a device is given twice: %v", err)
	}
	for _, id := range []string{"GPU-vc-000-8", "GPU-vc-001-0", "GPU-1", ""} {
		l.DeviceIDs = []string{id}
		if _, err := m.takeResources(0, 0, &l); err == nil || !strings.Contains(err.Error(), "has no device") {
			t.Errorf("the unknown device %q is given: %v", id, err)
		}
	}
	l.DeviceIDs = nil
	if _, err := m.takeResources(0, 0, &l); err == nil {
		t.Error("a task of one GPU is launched without")
	}
	if _, err := newVirtualMaster([]ReplayAgent{{ID: "a"}, {ID: "a"}}, nil, 1); err == nil {
		t.Error("two agents have one id")
	}
}

func TestReadPhilly(t *testing.T) {
	const head = "timestamp,duration,num_gpus,gpu_time,cluster\n"
	text := head + "2017-10-09 07:01:55,66.0,1,66.0,b\n2017-10-09 07:01:00,5,16,80,a\n"
	list, err := ReadPhillyJobs(strings.NewReader(text), "f", nil)
	want := []VirtualClusterJob{
		{Line: 3, RunTime: 5 * time.Second, GPUs: 16, Cluster: "a"},
		{Line: 2, ArrivesAt: 55 * time.Second, RunTime: 66 * time.Second, GPUs: 1, Cluster: "b"},
	}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("got %+v, %v", list, err)
	}
	for row, want := range map[string]string{
		"yesterday,66,1,66,a":           `f:2: timestamp "yesterday"`,
		"2017-10-09 07:01:55,-1,1,1,a":  `f:2: duration "-1"`,
		"2017-10-09 07:01:55,NaN,1,1,a": `f:2: duration "NaN"`,
		"2017-10-09 07:01:55,1,0,1,a":   `f:2: num_gpus "0": want 1 to 2048`,
		"2017-10-09 07:01:55,1,1,1,":    "f:2: cluster is empty",
		"2017-10-09 07:01:55,1":         "f:2: num_gpus",
	} {
		if _, err := ReadPhillyJobs(strings.NewReader(head+row+"\n"), "f", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", row, err, want)
		}
		var bad []error
		list, err := ReadPhillyJobs(strings.NewReader(text+row+"\n"), "f", func(err error) { bad = append(bad, err) })
		if err != nil || len(list) != 2 || len(bad) != 1 || !strings.Contains(bad[0].Error(), "f:4:") {
			t.Errorf("%s: %d jobs, %v, %v", row, len(list), bad, err)
		}
	}
	for text, want := range map[string]string{"": "first line", "a,b\n": `no column "timestamp"`, head: "no job"} {
		if _, err := ReadPhillyJobs(strings.NewReader(text), "f", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := ReadVirtualClusters(strings.NewReader("vc,node num\na,none\n"), "f"); err == nil ||
		!strings.Contains(err.Error(), `f:2: virtual cluster "a" has "none" agents`) {
		t.Errorf("got %v", err)
	}
}

func TestReadHelios(t *testing.T) {
	const head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
	text := head + "2,u2,vcA,16,32,2,FAILED,2020-04-01 00:01:00,,,5,0\n1,u1,vcB,0,3,1,COMPLETED,2020-04-01 00:00:30,,,60,0\n"
	list, err := ReadHeliosJobs(strings.NewReader(text), "f", nil)
	want := []VirtualClusterJob{
		{Line: 3, RunTime: time.Minute, CPUs: 3, Cluster: "vcB", User: "u1"},
		{Line: 2, ArrivesAt: 30 * time.Second, RunTime: 5 * time.Second, GPUs: 16, CPUs: 32, Cluster: "vcA", User: "u2"},
	}
	if err != nil || !slices.Equal(list, want) {
		t.Fatalf("got %+v, %v", list, err)
	}
	records := slices.Collect(recordsInOneRole(list))
	if one, gang := records[0].Spec, records[1].Spec; one.Tasks != 1 || one.Request.GPUs != 0 || one.CPUs != 3 || one.Owner != "u1" ||
		gang.Tasks != 2 || gang.Request.GPUs != 8 || gang.CPUs != 16 || !gang.Gang {
		t.Errorf("got %+v and %+v", one, gang)
	}
	for row, want := range map[string]string{
		"3,u,v,-1,1,1,,2020-04-01 00:00:30,,,1,0": `f:2: gpu_num "-1": want 0 to 2048`,
		"3,u,v,1,few,1,,2020-04-01 00:00:30,,,1,": `f:2: cpu_num "few"`,
		"3,u,,1,1,1,,2020-04-01 00:00:30,,,1,0":   "f:2: vc is empty",
		"3,u,v,1,1,1,,today,,,1,0":                `f:2: submit_time "today"`,
	} {
		if _, err := ReadHeliosJobs(strings.NewReader(head+row+"\n"), "f", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", row, err, want)
		}
	}
}

// TestRecordSources converts tasks and jobs of other traces.
func TestRecordSources(t *testing.T) {
	seq, err := RecordsFromTasks([]sim.RecordedTask{
		{Name: "late", GPUs: 1, GPUMilli: 500, Arrives: 20 * time.Second, Leaves: 50 * time.Second},
		{Name: "early", GPUs: 2, GPUMilli: 1000, Arrives: 5 * time.Second, Leaves: 6 * time.Second, Models: []string{"T4"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := slices.Collect(seq)
	if len(list) != 2 || list[0].Spec.Name != "early" || list[0].ArrivesAt != 0 || list[1].ArrivesAt != 15*time.Second ||
		list[1].RunTimes[0] != 30*time.Second || countGPUs(&list[1].Spec) != 1 {
		t.Errorf("got %+v", list)
	}
	if _, err := RecordsFromTasks([]sim.RecordedTask{{Name: "x"}}); err == nil {
		t.Error("a task without times is taken")
	}
	at := time.Unix(1_700_000_000, 0)
	ended := func(name string, role string, tasks ...job.Task) *job.Job {
		s := makeRecords(t, [3]int{0, 1, 1})[0].Spec
		s.Name, s.Role, s.Tasks = name, role, len(tasks)
		return &job.Job{Spec: new(s), Submitted: at, Tasks: tasks}
	}
	ok := job.Task{State: job.Finished, Started: at.Add(time.Second), Ended: at.Add(4 * time.Second)}
	later := ended("b", "r", ok)
	later.Submitted = at.Add(time.Minute)
	works, left := RecordsFromJobs([]*job.Job{
		later, ended("a", "r", ok, job.Task{State: job.Failed, Started: at, Ended: at.Add(time.Hour)}),
		ended("c", "r", ok, job.Task{State: job.Running, Started: at}), ended("d", "r", job.Task{State: job.Killed}),
	})
	if left != 2 || len(works) != 2 || works[0].Spec.Name != "a" || works[0].RunTimes.longest() != time.Hour ||
		works[0].RunTimes.forTask(0) != 3*time.Second || works[1].ArrivesAt != time.Minute || works[0].ArrivesAt != 0 {
		t.Errorf("%d left, got %+v", left, works)
	}
}

// TestMergeResults checks that two separate replays merge into one result.
func TestMergeResults(t *testing.T) {
	one, err := RunReplay(ReplaySettings{Agents: agents(1)}, slices.Values(makeRecords(t, [3]int{0, 100, 8})))
	if err != nil {
		t.Fatal(err)
	}
	two, err := RunReplay(ReplaySettings{Agents: agents(3)}, slices.Values(makeRecords(t, [3]int{0, 50, 8}, [3]int{0, 50, 8})))
	if err != nil {
		t.Fatal(err)
	}
	m := MergeResults(one, two)
	if m.GPUs != 32 || m.Jobs != 3 || m.Completion.Max != one.Completion.Max || math.Abs(m.Completion.Mean-200.0/3) > 1 || m.Sizes[8].Jobs != 3 {
		t.Errorf("got %+v", m)
	}
	if want := 100 * 1600 / (32 * m.Span); math.Abs(m.Allocation-want) > 0.01 {
		t.Errorf("allocation %g %%, want %g", m.Allocation, want)
	}
}
