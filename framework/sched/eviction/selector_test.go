package eviction

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const testRole = "team"

// fataler is the part of *testing.T and *rapid.T that helpers use.
type fataler interface {
	Fatalf(format string, args ...any)
}

var testTime = time.Unix(1_800_000_000, 0)

// parseAgents reads agents such as "a 2 V100, b 0 T4": their names, free GPUs and types.
func parseAgents(t fataler, text string) (agents []fit.AgentResources) {
	for line := range strings.SplitSeq(text, ", ") {
		a := fit.AgentResources{Role: testRole, Free: fit.Amount{CPUs: 100, MemMiB: 1 << 20}, Types: []string{""}}
		if _, err := fmt.Sscan(line, &a.ID, &a.GPUs, &a.Types[0]); err != nil {
			t.Fatalf("agent %q: %v", line, err)
		}
		a.Offers = []string{"offer-" + a.ID}
		agents = append(agents, a)
	}
	return agents
}

// parseRunning reads tasks such as "low a 1 0 2, high a 1 5 3": their jobs, agents, GPUs, priorities and the hours that they
// have run. Several tasks of one job are a gang. agents determine the types of the GPUs.
func parseRunning(t fataler, text string, agents []fit.AgentResources) (running []queue.RunningTask) {
	jobs := map[string]*job.Spec{}
	for i, line := range strings.Split(text, ", ") {
		var name, agent string
		var gpus, priority, hours int
		if _, err := fmt.Sscan(line, &name, &agent, &gpus, &priority, &hours); err != nil {
			t.Fatalf("task %q: %v", line, err)
		}
		spec := jobs[name]
		if spec == nil {
			spec = &job.Spec{
				Name: name, Role: testRole, CPUs: 1, MemMiB: 128, Priority: priority, Preemptible: true, Request: gpu.Request{GPUs: gpus},
			}
			jobs[name] = spec
		} else {
			spec.Gang = true
		}
		at := slices.IndexFunc(agents, func(a fit.AgentResources) bool { return a.ID == agent })
		r := queue.RunningTask{TaskID: fmt.Sprint(name, ".", i), AgentID: agent, Spec: spec, Since: testTime.Add(-time.Duration(hours) * time.Hour)}
		if gpus > 0 {
			r.GPUTypes = map[string]int{agents[at].Types[0]: gpus}
		}
		running = append(running, r)
	}
	return running
}

func newTestSelector(agents []fit.AgentResources, running []queue.RunningTask) *Selector {
	return &Selector{
		Cluster: fit.NewCluster(agents, fit.PlacementPolicy{}, testTime), Role: testRole,
		Units: CollectUnits(running, testTime, func(*queue.RunningTask) bool { return true }, func(string) bool { return false }),
	}
}

func demandOf(gpus int, types ...string) *fit.Demand {
	return &fit.Demand{Role: testRole, Amount: fit.Amount{CPUs: 1, MemMiB: 128}, Request: gpu.Request{GPUs: gpus, Types: gpu.TypeSelector{Include: types}}}
}

func claimOf(s *Selector, d *fit.Demand, tasks int, gang bool) *Claim {
	free := tasks
	if !d.Request.NeedsSameType() {
		free = s.Count(d, tasks, nil)
	} else {
		free = 0
	}
	return &Claim{Demand: d, Tasks: tasks, Missing: tasks - free, Gang: gang, Rules: []func(*Unit) bool{func(*Unit) bool { return true }}}
}

// namesOf returns the jobs of units, sorted.
func namesOf(units []*Unit) string {
	var names []string
	for _, u := range units {
		names = append(names, u.Tasks[0].Spec.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// chosenOf returns the jobs of the units that are marked as chosen.
func chosenOf(s *Selector) string {
	var units []*Unit
	for i := range s.Units {
		if s.Units[i].Chosen {
			units = append(units, &s.Units[i])
		}
	}
	return namesOf(units)
}

// TestChoose: the units with the least harm end, no more than necessary, and gangs as a whole.
func TestChoose(t *testing.T) {
	same := gpu.TypeSelector{Same: true}
	for _, c := range []struct {
		name            string
		agents, running string
		gpus, tasks     int
		types           gpu.TypeSelector
		gang            bool
		want            string
	}{
		{"the lowest priority", "a 0 V100", "high a 1 5 1, low a 1 0 9", 1, 1, gpu.TypeSelector{}, false, "low"},
		{"the least work", "a 0 V100", "old a 1 0 9, young a 1 0 1", 1, 1, gpu.TypeSelector{}, false, "young"},
		{"the fewest tasks of equal work", "a 0 V100, b 0 V100", "g a 1 0 1, g b 1 0 1, x b 1 0 2", 1, 1, gpu.TypeSelector{}, false, "x"},
		{"what is free is used", "a 1 V100", "x a 1 0 1, y a 1 0 2", 2, 1, gpu.TypeSelector{}, false, "x"},
		{"nothing is missing", "a 2 V100", "x a 1 0 1", 2, 1, gpu.TypeSelector{}, false, ""},
		{"both tasks on one agent", "a 0 V100, b 0 V100", "x a 1 0 1, y b 1 0 2, z a 1 0 3", 2, 1, gpu.TypeSelector{}, false, "x z"},
		{"the agent whose tasks lose the least together", "a 0 V100, b 0 V100", "p a 1 0 2, q a 1 0 3, r b 2 0 3", 2, 1, gpu.TypeSelector{}, false, "p q"},
		{"a task that turns out not to be necessary", "a 0 V100", "small a 1 0 1, large a 2 0 2", 2, 1, gpu.TypeSelector{}, false, "large"},
		{"one task instead of two that lose more", "a 0 V100", "p a 1 0 5, q a 1 0 6, r a 2 0 4", 2, 1, gpu.TypeSelector{}, false, "r"},
		{"two tasks that lose less than one", "a 0 V100", "p a 1 0 5, q a 1 0 6, r a 2 0 6", 2, 1, gpu.TypeSelector{}, false, "p q"},
		{"the one task, then the others for a second place", "a 0 V100", "p a 1 0 5, q a 1 0 6, r a 2 0 4", 2, 2, gpu.TypeSelector{}, false, "p q r"},
		{"the least harm per place", "a 0 V100, b 0 V100", "wide a 4 0 2, x b 1 0 3, y b 1 0 4", 1, 2, gpu.TypeSelector{}, false, "wide"},
		{"room that no task waits for counts nothing", "a 0 V100, b 0 V100", "wide a 4 0 2, x b 1 0 7", 1, 1, gpu.TypeSelector{}, false, "x"},
		{"several agents", "a 0 V100, b 0 V100", "p a 1 0 1, q a 1 0 4, r b 1 0 2, s b 1 0 3", 1, 3, gpu.TypeSelector{}, false, "p r s"},
		{"a gang ends as a whole", "a 0 V100, b 0 V100", "g a 1 0 1, g b 1 0 1, x a 1 0 9", 1, 1, gpu.TypeSelector{}, false, "g"},
		{"a gang loses more together", "a 0 V100, b 0 V100", "g a 1 0 5, g b 1 0 5, x a 1 0 9", 1, 1, gpu.TypeSelector{}, false, "x"},
		{"a gang makes room on two agents", "a 0 V100, b 0 V100", "g a 1 0 1, g b 1 0 1, x a 1 0 9", 1, 2, gpu.TypeSelector{}, true, "g"},
		{"a gang is chosen for a second agent already", "a 0 V100, b 0 V100", "g a 1 0 4, g b 1 0 4, x a 1 0 3, y b 1 0 7", 2, 2, gpu.TypeSelector{}, true, "g x y"},
		{
			"a chosen gang makes another agent the best", "a 0 V100, b 0 V100, c 0 V100",
			"g a 1 0 4, g b 1 0 4, x a 1 0 1, y b 1 0 3, z c 2 0 5", 2, 2, gpu.TypeSelector{}, true, "g x y",
		},
		{"not enough for a gang", "a 0 V100", "x a 1 0 1, y a 1 0 2", 1, 3, gpu.TypeSelector{}, true, ""},
		{"as many single tasks as possible", "a 0 V100", "x a 1 0 1, y a 1 0 2", 1, 3, gpu.TypeSelector{}, false, "x y"},
		{"no room for any", "a 0 V100", "x a 1 0 1, y a 1 0 2", 3, 1, gpu.TypeSelector{}, false, ""},
		{"only accepted types", "a 0 T4, b 0 V100", "x a 1 0 1, y b 1 0 2", 1, 1, gpu.TypeSelector{Include: []string{"V100"}}, false, "y"},
		{"the type that loses the least", "a 0 T4, b 0 V100", "x a 1 0 3, y a 1 0 3, p b 1 0 2, q b 1 0 2", 1, 2, same, true, "p q"},
		{"of one type, more is free", "a 1 T4, b 0 V100", "x a 1 0 3, y a 1 0 3, p b 1 0 2, q b 1 0 2", 1, 2, same, true, "x"},
		{"only one type has enough", "a 0 T4, b 0 V100", "x a 1 0 3, y a 1 0 3, p b 1 0 2", 1, 2, same, true, "x y"},
		{"no type has enough", "a 0 T4, b 0 V100", "x a 1 0 3, p b 1 0 2", 1, 2, same, true, ""},
		{
			"one task instead of two, which the last place needs too",
			"a 2 V100", "p a 3 0 0, q a 1 0 1, r a 1 0 9, s a 2 2 0, t a 3 2 0", 4, 3, gpu.TypeSelector{}, false, "p q r s t",
		},
		{"an agent that the cluster does not have", "a 0 V100", "x a 1 0 5, y a 1 0 6", 1, 1, gpu.TypeSelector{}, false, "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			agents := parseAgents(t, c.agents)
			running := parseRunning(t, c.running, agents)
			if strings.HasPrefix(c.name, "an agent that") {
				gone := running[0]
				gone.TaskID, gone.AgentID, gone.Since, gone.Spec = "gone", "gone", testTime, &job.Spec{Name: "gone", Request: gone.Spec.Request, Preemptible: true}
				running = append(running, gone)
			}
			s := newTestSelector(agents, running)
			signs := map[string]int{}
			s.OnChange = func(u *Unit, sign int) { signs[u.Tasks[0].Spec.Name] += sign }
			d := demandOf(c.gpus)
			d.Request.Types = c.types
			got := s.Choose(claimOf(s, d, c.tasks, c.gang))
			if namesOf(got) != c.want || chosenOf(s) != c.want {
				t.Errorf("chosen are %q and marked %q, want %q", namesOf(got), chosenOf(s), c.want)
			}
			for name, sum := range signs {
				if want := slices.Contains(strings.Fields(c.want), name); sum != 0 && sum != 1 || (sum == 1) != want {
					t.Errorf("OnChange has counted %s %d times", name, sum)
				}
			}
			if before := s.Count(d, c.tasks, nil); !c.types.Same {
				s.Take(got)
				after := s.Cluster.PlaceTasks(d, c.tasks)
				if c.gang && c.want != "" && len(after) != c.tasks {
					t.Errorf("%d of %d tasks of the gang fit", len(after), c.tasks)
				}
				s.Cluster.UndoPlacements(d, after)
				if s.Return(got); chosenOf(s) != "" || s.Count(d, c.tasks, nil) != before {
					t.Errorf("after Return %q are chosen and %d tasks fit, before %d", chosenOf(s), s.Count(d, c.tasks, nil), before)
				}
			}
		})
	}
}

// TestChooseCPUs: units without GPUs end for CPUs, and units with GPUs free CPUs too.
func TestChooseCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		gpus int
		cpus float64
		want string
	}{
		"a GPU is free, CPUs are not": {1, 2, "cpu"},
		"a task without GPUs":         {0, 2, "cpu"},
		"more CPUs":                   {0, 3, "cpu gpu"},
		"another GPU":                 {2, 1, "gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			agents := parseAgents(t, "a 1 V100")
			agents[0].Free.CPUs = 0.5
			s := newTestSelector(agents, parseRunning(t, "cpu a 0 0 1, gpu a 1 0 2", agents))
			s.Overhead = fit.Amount{CPUs: 0.5}
			d := demandOf(c.gpus)
			d.Amount.CPUs = c.cpus
			if got := namesOf(s.Choose(claimOf(s, d, 1, false))); got != c.want {
				t.Errorf("chosen are %q, want %q", got, c.want)
			}
		})
	}
}

// TestRulesInTurn: a rule that permits more is used only for what the rules before it do not make room for.
func TestRulesInTurn(t *testing.T) {
	named := func(names ...string) func(*Unit) bool {
		return func(u *Unit) bool { return slices.Contains(names, u.Tasks[0].Spec.Name) }
	}
	for _, c := range []struct {
		name  string
		tasks int
		gang  bool
		rules []func(*Unit) bool
		want  string
	}{
		{"the first is enough", 1, false, []func(*Unit) bool{named("q"), named("p", "q", "r")}, "q"},
		{"the second completes it", 2, false, []func(*Unit) bool{named("q"), named("p", "q", "r")}, "p q"},
		{"the second permits nothing more", 2, false, []func(*Unit) bool{named("q"), named("q")}, "q"},
		{"not enough for a gang", 2, true, []func(*Unit) bool{named("q"), named("q")}, ""},
		{"the first permits nothing", 1, false, []func(*Unit) bool{named(), named("r")}, "r"},
		{"no rules", 1, false, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			agents := parseAgents(t, "a 0 V100")
			s := newTestSelector(agents, parseRunning(t, "p a 1 0 1, q a 1 0 2, r a 1 0 3", agents))
			claim := claimOf(s, demandOf(1), c.tasks, c.gang)
			claim.Rules = c.rules
			if got := s.Choose(claim); namesOf(got) != c.want || chosenOf(s) != c.want {
				t.Errorf("chosen are %q, want %q", namesOf(got), c.want)
			}
		})
	}
}

// TestRuleThatDependsOnChosenUnits: a role may lose one unit. Where two of its units would make room with the least harm,
// one of them ends with a unit of another role.
func TestRuleThatDependsOnChosenUnits(t *testing.T) {
	agents := parseAgents(t, "a 0 V100")
	running := parseRunning(t, "x1 a 1 0 1, x2 a 1 0 2, y1 a 1 0 3", agents)
	s := newTestSelector(agents, running)
	lost := map[byte]int{} // by the first letter of the job
	s.OnChange = func(u *Unit, sign int) { lost[u.Tasks[0].Spec.Name[0]] += sign }
	claim := claimOf(s, demandOf(2), 1, true)
	claim.Rules[0] = func(u *Unit) bool { return lost[u.Tasks[0].Spec.Name[0]] == 0 }
	if got := namesOf(s.Choose(claim)); got != "x1 y1" || lost['x'] != 1 || lost['y'] != 1 {
		t.Errorf("chosen are %q, the roles lose %v", got, lost)
	}
}

// TestChooseForUncountableDemands: shares and host ports are not counted agent by agent. Units end in the order of harm
// until all tasks fit, without those that are not necessary.
func TestChooseForUncountableDemands(t *testing.T) {
	share := func(mem int64) []gpu.DeviceShare { return []gpu.DeviceShare{{UUID: "d", Type: "V100", MemMiB: mem}} }
	agents := []fit.AgentResources{
		{
			ID: "a", Role: testRole, Offers: []string{"o1"}, Free: fit.Amount{CPUs: 100, MemMiB: 1 << 20}, Types: []string{"V100"},
			Inventory: []gpu.Device{{UUID: "d", Model: "Tesla V100-SXM2-16GB", MemMiB: 1000}},
			AllShared: []fit.SharedDevice{{UUID: "d", MemMiB: 1000, Cores: 100}},
			Shared:    []fit.SharedDevice{{UUID: "d", MemMiB: 100, Cores: 100}},
			Ports:     []fit.PortRange{{First: 31000, Last: 31000}},
		},
		{
			ID: "b", Role: testRole, Offers: []string{"o2"}, Free: fit.Amount{CPUs: 100, MemMiB: 1 << 20},
			Ports: []fit.PortRange{{First: 31000, Last: 31000}},
		},
	}
	for _, c := range []struct {
		name   string
		demand fit.Demand
		tasks  int
		gang   bool
		want   string
	}{
		{"a share", fit.Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 400}}}, 1, false, "old"},
		{"a share that needs one unit", fit.Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 300}}}, 1, false, "young"},
		{"two shares", fit.Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 500}}}, 2, true, "old young"},
		{"more shares than fit, for a gang", fit.Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 400}}}, 3, true, ""},
		{"one more of more shares than fit", fit.Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 400}}}, 3, false, "old"},
		{"a port that a task has", fit.Demand{Ports: 1, HostPorts: []int{31005}}, 1, false, "port"},
		{"a port that no task has", fit.Demand{Ports: 1, HostPorts: []int{31006}}, 1, false, ""},
		{"a port that is free", fit.Demand{Ports: 1, HostPorts: []int{31000}}, 1, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := func(name string) *job.Spec { return &job.Spec{Name: name, Role: testRole, CPUs: 1, Preemptible: true} }
			shares := func(name string) *job.Spec {
				s := spec(name)
				s.Request = gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 1}}
				return s
			}
			s := newTestSelector(agents, []queue.RunningTask{
				{TaskID: "1", AgentID: "b", Spec: spec("idle"), Since: testTime},
				{TaskID: "2", AgentID: "a", Spec: shares("young"), Shares: share(200), Since: testTime.Add(-time.Hour)},
				{TaskID: "3", AgentID: "b", Spec: spec("port"), Ports: []int{31005}, Since: testTime.Add(-2 * time.Hour)},
				{TaskID: "4", AgentID: "a", Spec: shares("old"), Shares: share(700), Since: testTime.Add(-3 * time.Hour)},
			})
			c.demand.Role, c.demand.Amount = testRole, fit.Amount{CPUs: 1}
			claim := claimOf(s, &c.demand, c.tasks, c.gang)
			if claim.Missing == 0 {
				claim.Rules = nil
			}
			if got := s.Choose(claim); namesOf(got) != c.want || chosenOf(s) != c.want {
				t.Errorf("chosen are %q and marked %q, want %q", namesOf(got), chosenOf(s), c.want)
			}
		})
	}
}

// TestSearchesAreLimited: claims with one key continue one search; after maxSearches a plan searches no more.
func TestSearchesAreLimited(t *testing.T) {
	const tasks = 2*maxSearches + 2
	var lines []string
	for i := range tasks {
		lines = append(lines, fmt.Sprintf("j%03d a 1 0 %d", i, i))
	}
	agents := parseAgents(t, "a 0 V100")
	for _, c := range []struct {
		name string
		key  func(i int) string
		want int
	}{
		{"claims without keys", func(int) string { return "" }, maxSearches},
		{"claims with other keys", func(i int) string { return fmt.Sprint(i) }, maxSearches},
		{"claims with equal keys", func(int) string { return "k" }, tasks},
		{"pairs of claims with equal keys", func(i int) string { return fmt.Sprint(i / 2) }, 2 * maxSearches},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestSelector(agents, parseRunning(t, strings.Join(lines, ", "), agents))
			n := 0
			for i := range tasks {
				claim := claimOf(s, demandOf(1), 1, false)
				claim.Key = c.key(i)
				chosen := s.Choose(claim)
				if s.Take(chosen); len(chosen) == 0 {
					break
				}
				if want := fmt.Sprintf("j%03d", i); namesOf(chosen) != want {
					t.Fatalf("claim %d gets %q, want %s", i, namesOf(chosen), want)
				}
				if places := s.Cluster.PlaceTasks(demandOf(1), 1); len(places) != 1 {
					t.Fatalf("claim %d finds no place", i)
				}
				n++
			}
			if n != c.want {
				t.Errorf("%d claims got units, want %d", n, c.want)
			}
		})
	}
}

// TestChooseFirst: the unit with the least harm that may end and is not chosen.
func TestChooseFirst(t *testing.T) {
	agents := parseAgents(t, "a 0 V100")
	s := newTestSelector(agents, parseRunning(t, "p a 1 0 3, q a 1 0 2, r a 1 0 1", agents))
	notR := func(u *Unit) bool { return u.Tasks[0].Spec.Name != "r" }
	for _, want := range []string{"q", "p"} {
		if u := s.ChooseFirst(notR); u == nil || !u.Chosen || namesOf([]*Unit{u}) != want {
			t.Errorf("got %+v, want %s", u, want)
		}
	}
	if u := s.ChooseFirst(notR); u != nil {
		t.Errorf("got %+v, though all are chosen", u)
	}
}

// TestPrune: of units that can replace each other, those with the most harm are kept running, whatever their order.
func TestPrune(t *testing.T) {
	agents := parseAgents(t, "a 0 V100")
	s := newTestSelector(agents, parseRunning(t, "p a 1 0 1, q a 1 0 9, r a 1 0 5", agents))
	p, r, q := &s.Units[0], &s.Units[1], &s.Units[2]
	units := []*Unit{q, p, r}
	for _, u := range units {
		s.choose(u)
	}
	if got := s.Prune(units, func(units []*Unit) bool { return s.Count(demandOf(1), 2, units) == 2 }); namesOf(got) != "p r" || chosenOf(s) != "p r" {
		t.Errorf("%q are left and %q are chosen, want p and r", namesOf(got), chosenOf(s))
	}
	if units[0] != q || units[1] != p || units[2] != r {
		t.Errorf("the caller's units are %q", namesOf(units))
	}
}

// TestUnitsElsewhereDoNotEnd: for demands that are not counted agent by agent, many units with less harm on other agents
// than the tasks get do not end.
func TestUnitsElsewhereDoNotEnd(t *testing.T) {
	agents := parseAgents(t, "a 0 V100, b 0 V100")
	var lines []string
	for i := range 3 * maxPrunedUnits {
		lines = append(lines, fmt.Sprintf("idle%d b 0 0 0", i))
	}
	running := parseRunning(t, strings.Join(append(lines, "port a 0 1 1"), ", "), agents)
	running[len(running)-1].Ports = []int{31005}
	s := newTestSelector(agents, running)
	d := demandOf(0)
	d.Ports, d.HostPorts = 1, []int{31005}
	if got := namesOf(s.Choose(claimOf(s, d, 1, false))); got != "port" {
		t.Errorf("chosen are %q, want port", got)
	}
}
