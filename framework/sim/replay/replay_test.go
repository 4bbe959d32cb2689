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
)

// philly is the record in testdata.
func philly(t testing.TB) []PhillyJob {
	t.Helper()
	f, err := os.Open("testdata/philly.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := ReadPhilly(f, "philly.csv", nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func inOneRole(list []PhillyJob) iter.Seq[Work] {
	return PhillyWorks(list, func(*PhillyJob) (string, bool) { return "all", true })
}

// agents are so many of eight GPUs.
func agents(n int) []Agent { return VirtualCluster{"vc", n}.NewAgents() }

// configs are the ways to queue, on few agents, so that most jobs wait.
func configs() map[string]Config {
	all := map[string]Config{}
	for name, c := range map[string]struct {
		role  sched.Role
		times RunTimes
		short time.Duration
	}{
		"fifo":      {role: sched.Role{}},
		"strict":    {role: sched.Role{Strict: true}},
		"backfill":  {times: Exact},
		"shortest":  {role: sched.Role{Order: sched.ShortestFirst}, times: Exact},
		"predicted": {role: sched.Role{Order: sched.ShortestFirst}, times: Predicted},
		"preempt":   {role: sched.Role{Order: sched.ShortestFirst}, times: Predicted, short: time.Hour},
	} {
		c.role.Name = "all"
		cfg := Config{Agents: agents(6), RunTimes: c.times, Short: c.short}
		cfg.Sched.Policy.Roles = []sched.Role{c.role}
		all[name] = cfg
	}
	return all
}

// TestRecord replays real jobs: all end, no work is lost or made up, and no
// way of queueing beats the bound.
func TestRecord(t *testing.T) {
	list := philly(t)[:250]
	area := 0.0
	for _, j := range list {
		area += j.Runs.Seconds() * float64(j.GPUs)
	}
	bound := Bound(inOneRole(list), 48)
	if bound < 1000 {
		t.Fatalf("bound %g s: the record is too small to tell anything", bound)
	}
	for name, cfg := range configs() {
		t.Run(name, func(t *testing.T) {
			r, err := Run(cfg, inOneRole(list))
			if err != nil {
				t.Fatal(err)
			}
			if r.Jobs != len(list) || r.Never+r.Refused > 0 {
				t.Errorf("%d jobs ended, %d never started, %d refused, want all %d to end", r.Jobs, r.Never, r.Refused, len(list))
			}
			if got := r.busy - r.Lost; math.Abs(got-area) > 1e-6*area {
				t.Errorf("GPUs were in use for %g s of work that was not lost, the jobs have %g s", got, area)
			}
			if r.Completion.Mean < bound {
				t.Errorf("mean completion %g s is below the bound %g s", r.Completion.Mean, bound)
			}
			if r.Wait.Mean == 0 {
				t.Error("nobody waits: the cluster is too large to tell anything")
			}
			if (name == "preempt") != (r.Preemptions > 0) {
				t.Errorf("%d preemptions", r.Preemptions)
			}
		})
	}
}

// TestEqualArgumentsGiveEqualAnswers: nothing depends on chance or maps.
func TestEqualArgumentsGiveEqualAnswers(t *testing.T) {
	for name, cfg := range configs() {
		var texts []string
		for range 2 {
			r, err := Run(cfg, inOneRole(philly(t)[:80]))
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

// TestStrictStartsInOrder: nobody overtakes, and somebody does where it is
// allowed.
func TestStrictStartsInOrder(t *testing.T) {
	overtakes := func(cfg Config) int {
		type life struct{ arrives, starts time.Duration }
		var lives []life
		cfg.Ended = func(w *Work, started, _ time.Duration) { lives = append(lives, life{w.Arrives, started}) }
		if _, err := Run(cfg, inOneRole(philly(t)[:250])); err != nil {
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
	if n := overtakes(configs()["strict"]); n > 0 {
		t.Errorf("%d jobs start before one that came earlier", n)
	}
	if n := overtakes(configs()["fifo"]); n == 0 {
		t.Error("nobody overtakes where it is allowed")
	}
}

// TestRoles: under equal demand roles get GPUs by their weight.
func TestRoles(t *testing.T) {
	var works []Work
	for i := range 400 {
		s, err := NewSpec(fmt.Sprint("j", i), 1, 8, sched.Amount{CPUs: 1, MemMiB: 64})
		if err != nil {
			t.Fatal(err)
		}
		s.Role = []string{"a", "b"}[i%2]
		works = append(works, Work{Spec: s, Runs: []time.Duration{time.Minute + time.Duration(i)*time.Second/10}})
	}
	cfg := Config{Agents: agents(4)}
	cfg.Sched.Policy.Roles = []sched.Role{{Name: "a", Weight: 3}, {Name: "b"}}
	r, err := Run(cfg, slices.Values(works))
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

// TestNoGPUIsTwoTasks: at any time what tasks hold, offers have and is free
// make up each agent, whatever comes.
func TestNoGPUIsTwoTasks(t *testing.T) {
	for seed := range int64(8) {
		rnd := rand.New(rand.NewSource(seed))
		cfg := Config{Agents: agents(1 + rnd.Intn(6)), RunTimes: []RunTimes{AsGiven, Predicted, Exact}[rnd.Intn(3)], Seed: seed}
		cfg.Sched.HoldOffers = time.Duration(rnd.Intn(8)-1) * time.Second
		if rnd.Intn(2) == 0 {
			cfg.Short = 5 * time.Minute
		}
		cfg.Sched.Policy.Fit.Name = []string{"binpack", "spread", "fgd", "topology"}[rnd.Intn(4)]
		cfg.Sched.Policy.Roles = []sched.Role{{Name: "a", Order: sched.ShortestFirst, Patience: time.Hour}, {Name: "b", Strict: rnd.Intn(2) == 0, Policy: "spread"}}
		r, err := newReplay(cfg)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		works := func(yield func(Work) bool) {
			for w := range randomWorks(rnd, 80, cfg.Agents) {
				n++
				if !yield(w) {
					return
				}
				checkBooks(t, r)
			}
		}
		r.cfg.Ended = func(*Work, time.Duration, time.Duration) { checkBooks(t, r) }
		got, err := r.run(works)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Jobs != n || got.Never > 0 {
			t.Errorf("seed %d: %d of %d jobs ended, %d never started", seed, got.Jobs, n, got.Never)
		}
	}
}

func randomWorks(rnd *rand.Rand, n int, cluster []Agent) iter.Seq[Work] {
	return func(yield func(Work) bool) {
		at := time.Duration(0)
		for i := range n {
			s, err := NewSpec(fmt.Sprint("j", i), []int{1, 1, 1, 2, 4, 8, min(16, 8*len(cluster))}[rnd.Intn(7)], 8, sched.Amount{CPUs: 1 + rnd.Float64()*4, MemMiB: 512})
			if err != nil {
				panic(err)
			}
			s.Role = []string{"a", "b"}[rnd.Intn(2)]
			at += time.Duration(rnd.Intn(200)) * time.Second / 3
			if !yield(Work{Spec: s, Arrives: at, Runs: []time.Duration{time.Duration(1+rnd.Intn(3600)) * time.Second}}) {
				return
			}
		}
	}
}

func checkBooks(t *testing.T, r *replay) {
	t.Helper()
	sums := make([]room, len(r.master.agents))
	add := func(i int, x room) {
		if sums[i].gpus&x.gpus != 0 || x.cpus < 0 || x.mem < 0 {
			t.Errorf("agent %d: %+v beside %+v", i, x, sums[i])
		}
		sums[i] = sums[i].plus(x)
	}
	for i := range r.master.agents {
		add(i, r.master.agents[i].free)
	}
	for _, o := range r.master.offers {
		add(o.agent, o.room)
	}
	for _, task := range r.running {
		add(task.agent, task.room)
	}
	for i := range sums {
		a := &r.master.agents[i]
		if want := (room{milli(a.Has.CPUs), milli(a.Has.MemMiB), full(a.GPUs)}); sums[i] != want {
			t.Fatalf("at %s agent %s adds up to %+v, it has %+v", r.now, a.ID, sums[i], want)
		}
	}
}
