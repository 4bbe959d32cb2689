package replay

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/rand"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
)

// readPhillyTrace reads the trace in testdata.
func readPhillyTrace(t testing.TB) []VirtualClusterJob {
	t.Helper()
	f, err := os.Open("testdata/philly.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := ReadPhillyJobs(f, "philly.csv", nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func recordsInOneRole(list []VirtualClusterJob) iter.Seq[JobRecord] {
	return VirtualClusterRecords(list, func(*VirtualClusterJob) (string, bool) { return "all", true })
}

// agents returns n agents with eight GPUs each.
func agents(n int) []ReplayAgent { return VirtualCluster{"vc", n}.ReplayAgents() }

// replaySettings returns settings for each queueing discipline, with so few agents that most jobs wait.
func replaySettings() map[string]ReplaySettings {
	all := map[string]ReplaySettings{}
	for name, c := range map[string]struct {
		role  queue.Role
		times RunTimeSource
		short time.Duration
		save  time.Duration
	}{
		"fifo":      {role: queue.Role{}},
		"strict":    {role: queue.Role{Strict: true}},
		"backfill":  {times: RunTimeExact},
		"shortest":  {role: queue.Role{Order: queue.ShortestFirst}, times: RunTimeExact},
		"predicted": {role: queue.Role{Order: queue.ShortestFirst}, times: RunTimePredicted},
		"preempt":   {role: queue.Role{Order: queue.ShortestFirst}, times: RunTimePredicted, short: time.Minute},
		"warned":    {role: queue.Role{Order: queue.ShortestFirst}, times: RunTimePredicted, short: time.Minute, save: 10 * time.Second},
	} {
		c.role.Name = "all"
		cfg := ReplaySettings{Agents: agents(6), RunTimes: c.times, Short: c.short, MinRunTime: c.save, SaveTime: c.save}
		cfg.Sched.Policy.Roles = []queue.Role{c.role}
		all[name] = cfg
	}
	return all
}

// TestPhillyTrace replays real jobs. All must end, with exactly the recorded work, and no discipline may be better
// than the bound.
func TestPhillyTrace(t *testing.T) {
	list := readPhillyTrace(t)[:250]
	area := 0.0
	for _, j := range list {
		area += j.RunTime.Seconds() * float64(j.GPUs)
	}
	bound := CompletionBound(recordsInOneRole(list), 48)
	if bound < 1000 {
		t.Fatalf("bound %g s: the record is too small to compare", bound)
	}
	for name, cfg := range replaySettings() {
		t.Run(name, func(t *testing.T) {
			r, err := RunReplay(cfg, recordsInOneRole(list))
			if err != nil {
				t.Fatal(err)
			}
			if r.Jobs != len(list) || r.Never+r.Refused > 0 {
				t.Errorf("%d jobs ended, %d never started, %d refused, want all %d to end", r.Jobs, r.Never, r.Refused, len(list))
			}
			if got := r.busyGPUSeconds - r.Lost; math.Abs(got-area) > 1e-6*area {
				t.Errorf("GPUs were used for %g s of preserved work, the jobs have %g s", got, area)
			}
			if r.Completion.Mean < bound {
				t.Errorf("mean completion %g s is below the bound %g s", r.Completion.Mean, bound)
			}
			if r.Wait.Mean == 0 {
				t.Error("no job waits: the cluster is too large to compare")
			}
			if (cfg.Short > 0) != (r.Preemptions > 0) {
				t.Errorf("%d preemptions", r.Preemptions)
			}
		})
	}
}

// TestEqualArgumentsGiveEqualAnswers checks that no result depends on random numbers or on the order of maps.
func TestEqualArgumentsGiveEqualAnswers(t *testing.T) {
	for name, cfg := range replaySettings() {
		var texts []string
		for range 2 {
			r, err := RunReplay(cfg, recordsInOneRole(readPhillyTrace(t)[:80]))
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestStrictStartsInOrder checks that no job overtakes another in a strict role, and that some do in other roles.
func TestStrictStartsInOrder(t *testing.T) {
	overtakes := func(cfg ReplaySettings) int {
		type life struct{ arrives, starts time.Duration }
		var lives []life
		cfg.JobEnded = func(w *JobRecord, started, _ time.Duration) { lives = append(lives, life{w.ArrivesAt, started}) }
		if _, err := RunReplay(cfg, recordsInOneRole(readPhillyTrace(t)[:250])); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(lives, func(a, b life) int { return int(a.arrives - b.arrives) })
		n, last := 0, time.Duration(0)
		for _, l := range lives {
			if l.starts < last {
				n++
			}
			last = max(last, l.starts)
		}
		return n
	}
	if n := overtakes(replaySettings()["strict"]); n > 0 {
		t.Errorf("%d jobs start before one that came earlier", n)
	}
	if n := overtakes(replaySettings()["fifo"]); n == 0 {
		t.Error("no job overtakes another although it is allowed")
	}
}

// TestFairShareBetweenRoles checks that roles with equal demand get GPUs in proportion to their weights.
func TestFairShareBetweenRoles(t *testing.T) {
	var works []JobRecord
	for i := range 400 {
		s, err := NewGangSpec(fmt.Sprint("j", i), 1, 8, sched.Amount{CPUs: 1, MemMiB: 64})
		if err != nil {
			t.Fatal(err)
		}
		s.Role = []string{"a", "b"}[i%2]
		works = append(works, JobRecord{Spec: s, RunTimes: []time.Duration{time.Minute + time.Duration(i)*time.Second/10}})
	}
	cfg := ReplaySettings{Agents: agents(4)}
	cfg.Sched.Policy.Roles = []queue.Role{{Name: "a", Weight: 3}, {Name: "b"}}
	r, err := RunReplay(cfg, slices.Values(works))
	if err != nil {
		t.Fatal(err)
	}
	a, b := r.Roles["a"], r.Roles["b"]
	if r.Jobs != 400 || a.Jobs != 200 || b.Jobs != 200 {
		t.Fatalf("%d jobs ended, %d of a, %d of b", r.Jobs, a.Jobs, b.Jobs)
	}
	if a.Wait.Mean*1.3 > b.Wait.Mean {
		t.Errorf("a waits %g s, b, which weighs a third, %g s", a.Wait.Mean, b.Wait.Mean)
	}
}

// TestNoGPUIsAllocatedTwice checks that at any time the GPUs that tasks hold, that are offered and that are free add
// up to those of each agent, for any events.
func TestNoGPUIsAllocatedTwice(t *testing.T) {
	policies := fit.PolicyNames()
	for seed := range int64(8) {
		rnd := rand.New(rand.NewSource(seed))
		cfg := ReplaySettings{Agents: agents(1 + rnd.Intn(6)), RunTimes: []RunTimeSource{RunTimeGiven, RunTimePredicted, RunTimeExact}[rnd.Intn(3)], Seed: seed}
		cfg.Sched.HoldOffers = time.Duration(rnd.Intn(8)-1) * time.Second
		if rnd.Intn(2) == 0 {
			cfg.Short = 5 * time.Minute
		}
		cfg.Sched.Policy.Fit.Name = policies[rnd.Intn(len(policies))]
		cfg.Sched.Policy.Roles = []queue.Role{
			{Name: "a", Order: queue.ShortestFirst, Patience: time.Hour},
			{Name: "b", Strict: rnd.Intn(2) == 0, FitPolicy: "spread"},
		}
		r, err := newReplay(cfg)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		works := func(yield func(JobRecord) bool) {
			for w := range randomRecords(rnd, 80, cfg.Agents) {
				n++
				if !yield(w) {
					return
				}
				checkAccounting(t, r)
			}
		}
		r.cfg.JobEnded = func(*JobRecord, time.Duration, time.Duration) { checkAccounting(t, r) }
		got, err := r.runAll(works)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Jobs != n || got.Never > 0 {
			t.Errorf("seed %d: %d of %d jobs ended, %d never started", seed, got.Jobs, n, got.Never)
		}
	}
}

func randomRecords(rnd *rand.Rand, n int, cluster []ReplayAgent) iter.Seq[JobRecord] {
	return func(yield func(JobRecord) bool) {
		at := time.Duration(0)
		for i := range n {
			s, err := NewGangSpec(fmt.Sprint("j", i), []int{1, 1, 1, 2, 4, 8, min(16, 8*len(cluster))}[rnd.Intn(7)], 8, sched.Amount{
				CPUs:   1 + rnd.Float64()*4,
				MemMiB: 512,
			})
			if err != nil {
				panic(err)
			}
			s.Role = []string{"a", "b"}[rnd.Intn(2)]
			at += time.Duration(rnd.Intn(200)) * time.Second / 3
			if !yield(JobRecord{Spec: s, ArrivesAt: at, RunTimes: []time.Duration{time.Duration(1+rnd.Intn(3600)) * time.Second}}) {
				return
			}
		}
	}
}

func checkAccounting(t *testing.T, r *jobReplay) {
	t.Helper()
	sums := make([]resourceSet, len(r.master.agents))
	add := func(i int, x resourceSet) {
		if sums[i].gpus&x.gpus != 0 || x.cpus < 0 || x.mem < 0 {
			t.Errorf("agent %d: got %+v, want %+v", i, x, sums[i])
		}
		sums[i] = sums[i].add(x)
	}
	for i := range r.master.agents {
		add(i, r.master.agents[i].free)
	}
	for _, o := range r.master.offers {
		add(o.agent, o.resources)
	}
	for _, task := range r.running {
		add(task.agent, task.resources)
	}
	for i := range sums {
		a := &r.master.agents[i]
		if want := totalOf(&a.ReplayAgent); sums[i] != want {
			t.Fatalf("at %s the GPUs of agent %s add up to %+v, want %+v", r.now, a.ID, sums[i], want)
		}
	}
}
