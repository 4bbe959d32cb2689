package replay

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sim"
	"mesos-gpu/job"
)

func works(t *testing.T, list ...[3]int) []Work {
	t.Helper()
	var all []Work
	for i, x := range list { // arrives, runs, GPUs
		s, err := NewSpec("j"+string(rune('a'+i)), x[2], 8, sched.Amount{CPUs: 1, MemMiB: 64})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Work{Spec: s, Arrives: time.Duration(x[0]) * time.Second, Runs: []time.Duration{time.Duration(x[1]) * time.Second}})
	}
	return all
}

// TestBound: by hand.
func TestBound(t *testing.T) {
	for _, c := range []struct {
		name  string
		works []Work
		gpus  int
		want  float64
	}{
		{"nothing", nil, 8, 0},
		{"a job takes as long as it runs", works(t, [3]int{0, 100, 1}), 8, 100},
		{"one after the other, the shortest first", works(t, [3]int{0, 100, 8}, [3]int{0, 10, 8}), 8, (10 + 110) / 2.0},
		{"a shorter one comes later and goes before", works(t, [3]int{0, 100, 8}, [3]int{50, 10, 8}), 8, (110 + 10) / 2.0},
		{"a longer one does not", works(t, [3]int{0, 100, 8}, [3]int{50, 60, 8}), 8, (100 + 110) / 2.0},
		{"idle between", works(t, [3]int{0, 10, 8}, [3]int{100, 10, 8}), 8, 10},
	} {
		if got := Bound(slices.Values(c.works), c.gpus); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: got %g, want %g", c.name, got, c.want)
		}
	}
}

// TestHandMade: one agent, times by hand; offers of what is free come within a
// second.
func TestHandMade(t *testing.T) {
	for _, c := range []struct {
		name  string
		role  sched.Role
		times RunTimes
		short time.Duration
		want  string // who starts, in order
	}{
		{name: "the oldest that fits", want: "ja jc jd jb"},
		{name: "nobody overtakes", role: sched.Role{Strict: true}, want: "ja jb jc jd"},
		{name: "backfill: what would delay the head waits", times: Exact, want: "ja jc jb jd"},
		{name: "the shortest", role: sched.Role{Order: sched.ShortestFirst}, times: Exact, want: "ja jc jb jd"},
		{name: "preemption: the last is short and takes the place of the first", times: Exact, short: 55 * time.Second, want: "jb jc ja jd"},
	} {
		list := works(t, [3]int{0, 100, 4}, [3]int{10, 50, 8}, [3]int{20, 60, 2}, [3]int{30, 300, 2})
		var starts []string
		cfg := Config{Agents: agents(1), RunTimes: c.times, Short: c.short}
		cfg.Sched.Policy.Roles = []sched.Role{c.role}
		type life struct {
			name string
			at   time.Duration
		}
		var lives []life
		cfg.Ended = func(w *Work, started, ended time.Duration) {
			at := started
			if c.short > 0 {
				at = ended - w.longest() // its last start
			}
			lives = append(lives, life{w.Spec.Name, at})
		}
		if _, err := Run(cfg, slices.Values(list)); err != nil {
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

// TestWhatNeverFits ends, and is told.
func TestWhatNeverFits(t *testing.T) {
	list := works(t, [3]int{0, 10, 16}, [3]int{1, 10, 1})
	list[1].Spec.Name = "UPPER case"
	r, err := Run(Config{Agents: agents(1)}, slices.Values(append(list, works(t, [3]int{}, [3]int{}, [3]int{2, 5, 1})[2])))
	if err != nil {
		t.Fatal(err)
	}
	if r.Jobs != 1 || r.Never != 1 || r.Refused != 1 || !strings.Contains(r.Why, "UPPER case") {
		t.Errorf("%d ended, %d never started, %d refused: %s", r.Jobs, r.Never, r.Refused, r.Why)
	}
}

func TestOutOfOrderIsRefused(t *testing.T) {
	if _, err := Run(Config{Agents: agents(1)}, slices.Values(works(t, [3]int{10, 1, 1}, [3]int{5, 1, 1}))); err == nil || !strings.Contains(err.Error(), "sort the record") {
		t.Errorf("got %v", err)
	}
}

func TestNewSpec(t *testing.T) {
	for gpus, want := range map[int][2]int{1: {1, 1}, 8: {1, 8}, 12: {2, 6}, 16: {2, 8}, 24: {3, 8}, 128: {16, 8}, 11: {11, 1}} {
		s, err := NewSpec("j", gpus, 8, sched.Amount{CPUs: 2, MemMiB: 100})
		if err != nil || s.Tasks != want[0] || s.Request.GPUs != want[1] || s.Gang != (want[0] > 1) || s.CPUs != float64(2*want[1]) {
			t.Errorf("%d GPUs: %d tasks of %d GPUs and %g CPUs, gang %t, %v", gpus, s.Tasks, s.Request.GPUs, s.CPUs, s.Gang, err)
		}
	}
	if _, err := NewSpec("j", 2, 0, sched.Amount{}); err == nil {
		t.Error("a job of GPUs is made for agents without")
	}
}

// TestHistory: the median of the last five of a kind.
func TestHistory(t *testing.T) {
	h := newHistory()
	if got := h.predict("a"); got != 0 {
		t.Errorf("nothing is known, got %s", got)
	}
	for _, seconds := range []int{1000, 1, 2, 3, 4, 5} {
		h.learn("a", time.Duration(seconds)*time.Second)
		h.learn("b", time.Hour)
	}
	if got := h.predict("a"); got != 3*time.Second {
		t.Errorf("got %s, want the median of 1 to 5 s", got)
	}
	if e := errorOf([]float32{0.5, 1, 3}); e.Jobs != 3 || e.Median != 2 || math.Abs(e.Within2-200.0/3) > 1e-9 {
		t.Errorf("factors 1.4, 2 and 8: got %+v", e)
	}
}

// TestFilters: what was refused comes back when it is more, when the time is
// over, or on REVIVE; a role is not offered what it suppressed.
func TestFilters(t *testing.T) {
	m, err := newMaster(agents(1), []sched.Role{{Name: "a"}, {Name: "b"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	offered := func(now time.Duration) string {
		list := m.allocate(now)
		if len(list) == 0 {
			return ""
		}
		o, err := m.withdraw(list[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		m.refuse(o.agent, o.role, now, 10*time.Second)
		return list[0].Role
	}
	for _, step := range []struct {
		at   time.Duration
		do   func()
		want string
	}{
		{0, nil, "a"}, {1, nil, "b"}, {2, nil, ""}, {10 * time.Second, nil, "a"},
		{10 * time.Second, func() { m.revive([]string{"b"}) }, "b"},
		{11 * time.Second, func() { m.agents[0].free.cpus++ }, "a"},
		{30 * time.Second, func() { m.suppress([]string{"a"}) }, "b"},
	} {
		if step.do != nil {
			step.do()
		}
		if got := offered(step.at); got != step.want {
			t.Errorf("at %s: offered to %q, want %q", step.at, got, step.want)
		}
	}
	if _, err := m.withdraw("o1"); err == nil {
		t.Error("an offer can be answered twice")
	}
}

// TestOvercommitIsRefused: the master gives nothing twice.
func TestOvercommitIsRefused(t *testing.T) {
	m, err := newMaster(agents(1), []sched.Role{{}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := works(t, [3]int{0, 1, 1})[0].Spec
	l := sched.Launch{TaskID: "t", Spec: &s, DeviceIDs: []string{"GPU-vc-000-3"}}
	if _, err := m.take(0, 0, &l); err != nil {
		t.Fatal(err)
	}
	if _, err := m.take(0, 0, &l); err == nil || !strings.Contains(err.Error(), "free") {
		t.Errorf("a device is given twice: %v", err)
	}
	l.DeviceIDs = nil
	if _, err := m.take(0, 0, &l); err == nil {
		t.Error("a task of one GPU is launched without")
	}
	if _, err := newMaster([]Agent{{ID: "a"}, {ID: "a"}}, nil, 1); err == nil {
		t.Error("two agents have one id")
	}
}

func TestReadPhilly(t *testing.T) {
	const head = "timestamp,duration,num_gpus,gpu_time,cluster\n"
	text := head + "2017-10-09 07:01:55,66.0,1,66.0,b\n2017-10-09 07:01:00,5,16,80,a\n"
	list, err := ReadPhilly(strings.NewReader(text), "f", nil)
	want := []PhillyJob{{Line: 3, Runs: 5 * time.Second, GPUs: 16, Cluster: "a"}, {Line: 2, Arrives: 55 * time.Second, Runs: 66 * time.Second, GPUs: 1, Cluster: "b"}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("got %+v, %v", list, err)
	}
	for row, want := range map[string]string{
		"yesterday,66,1,66,a":           `f:2: timestamp "yesterday"`,
		"2017-10-09 07:01:55,-1,1,1,a":  `f:2: duration "-1"`,
		"2017-10-09 07:01:55,NaN,1,1,a": `f:2: duration "NaN"`,
		"2017-10-09 07:01:55,1,0,1,a":   `f:2: num_gpus "0": want 1 to 1024`,
		"2017-10-09 07:01:55,1,1,1,":    "f:2: cluster is empty",
		"2017-10-09 07:01:55,1":         "f:2: num_gpus",
	} {
		if _, err := ReadPhilly(strings.NewReader(head+row+"\n"), "f", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", row, err, want)
		}
		var bad []error
		list, err := ReadPhilly(strings.NewReader(text+row+"\n"), "f", func(err error) { bad = append(bad, err) })
		if err != nil || len(list) != 2 || len(bad) != 1 || !strings.Contains(bad[0].Error(), "f:4:") {
			t.Errorf("%s: %d jobs, %v, %v", row, len(list), bad, err)
		}
	}
	for text, want := range map[string]string{"": "first line", "a,b\n": `no column "timestamp"`, head: "no job"} {
		if _, err := ReadPhilly(strings.NewReader(text), "f", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := ReadPhillyClusters(strings.NewReader("vc,node num\na,none\n"), "f"); err == nil || !strings.Contains(err.Error(), `f:2: virtual cluster "a" has "none" agents`) {
		t.Errorf("got %v", err)
	}
}

// TestSources: tasks and jobs of other records.
func TestSources(t *testing.T) {
	seq, err := FromTasks([]sim.Task{
		{Name: "late", GPUs: 1, GPUMilli: 500, Arrives: 20 * time.Second, Leaves: 50 * time.Second},
		{Name: "early", GPUs: 2, GPUMilli: 1000, Arrives: 5 * time.Second, Leaves: 6 * time.Second, Models: []string{"T4"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	list := slices.Collect(seq)
	if len(list) != 2 || list[0].Spec.Name != "early" || list[0].Arrives != 0 || list[1].Arrives != 15*time.Second || list[1].Runs[0] != 30*time.Second || list[1].gpus() != 1 {
		t.Errorf("got %+v", list)
	}
	if _, err := FromTasks([]sim.Task{{Name: "x"}}); err == nil {
		t.Error("a task without times is taken")
	}
	at := time.Unix(1_700_000_000, 0)
	ended := func(name string, role string, tasks ...job.Task) *job.Job {
		s := works(t, [3]int{0, 1, 1})[0].Spec
		s.Name, s.Role, s.Tasks = name, role, len(tasks)
		return &job.Job{Spec: s, Submitted: at, Tasks: tasks}
	}
	ok := job.Task{State: job.Finished, Started: at.Add(time.Second), Ended: at.Add(4 * time.Second)}
	later := ended("b", "r", ok)
	later.Submitted = at.Add(time.Minute)
	works, left := FromJobs([]*job.Job{later, ended("a", "r", ok, job.Task{State: job.Failed, Started: at, Ended: at.Add(time.Hour)}), ended("c", "r", ok, job.Task{State: job.Running, Started: at}), ended("d", "r", job.Task{State: job.Killed})})
	if left != 2 || len(works) != 2 || works[0].Spec.Name != "a" || works[0].longest() != time.Hour || works[0].runs(0) != 3*time.Second || works[1].Arrives != time.Minute || works[0].Arrives != 0 {
		t.Errorf("%d left, got %+v", left, works)
	}
}

// TestMerge: two replays apart are one.
func TestMerge(t *testing.T) {
	one, err := Run(Config{Agents: agents(1)}, slices.Values(works(t, [3]int{0, 100, 8})))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Run(Config{Agents: agents(3)}, slices.Values(works(t, [3]int{0, 50, 8}, [3]int{0, 50, 8})))
	if err != nil {
		t.Fatal(err)
	}
	m := Merge(one, two)
	if m.GPUs != 32 || m.Jobs != 3 || m.Completion.Max != one.Completion.Max || math.Abs(m.Completion.Mean-200.0/3) > 1 || m.Sizes[8].Jobs != 3 {
		t.Errorf("got %+v", m)
	}
	if want := 100 * 1600 / (32 * m.Span); math.Abs(m.Allocation-want) > 0.01 {
		t.Errorf("allocation %g %%, want %g", m.Allocation, want)
	}
}
