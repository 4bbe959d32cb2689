package eviction

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naiveCluster is a cluster with GPUs of one type, on which tasks fit by counting them.
type naiveCluster struct {
	free map[string]int
	// units contains what each unit frees, by agent.
	units []map[string]int
}

// countAfter returns how many of n tasks with that many GPUs fit once units have ended.
func (c *naiveCluster) countAfter(gpus, n int, ended []int) int {
	fits := 0
	for agent, free := range c.free {
		for _, i := range ended {
			free += c.units[i][agent]
		}
		fits += free / gpus
	}
	return min(fits, n)
}

// TestChooseAgainstAllSubsets compares choices with all sets of units that may end: what is chosen makes as much room as
// any of them, nothing of it is unnecessary, and for a single task no other set spares a higher priority.
func TestChooseAgainstAllSubsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var agents, tasks []string
		naive := naiveCluster{free: map[string]int{}}
		for i := range rapid.IntRange(1, 3).Draw(t, "agents") {
			name, free := fmt.Sprint("a", i), rapid.IntRange(0, 2).Draw(t, "free")
			naive.free[name] = free
			agents = append(agents, fmt.Sprintf("%s %d V100", name, free))
		}
		anyAgent := rapid.IntRange(0, len(agents)-1)
		units := rapid.IntRange(1, 6).Draw(t, "units")
		protected := map[string]bool{}
		for i := range units {
			name, size := fmt.Sprint("u", i), rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "tasks of the unit")
			gpus, priority, hours := rapid.IntRange(1, 3).Draw(t, "GPUs"), rapid.IntRange(0, 2).Draw(t, "priority"), rapid.IntRange(0, 9).Draw(t, "hours")
			protected[name] = rapid.IntRange(0, 4).Draw(t, "protected") == 0
			for range size {
				tasks = append(tasks, fmt.Sprintf("%s a%d %d %d %d", name, anyAgent.Draw(t, "agent"), gpus, priority, hours))
			}
		}
		parsed := parseAgents(t, strings.Join(agents, ", "))
		s := newTestSelector(parsed, parseRunning(t, strings.Join(tasks, ", "), parsed))
		var mayEnd []int
		for i := range s.Units {
			freed := map[string]int{}
			for _, r := range s.Units[i].Tasks {
				freed[r.AgentID] += r.Spec.Request.GPUs
			}
			naive.units = append(naive.units, freed)
			if !protected[s.Units[i].Tasks[0].Spec.Name] {
				mayEnd = append(mayEnd, i)
			}
		}
		gpus, n, gang := rapid.IntRange(1, 4).Draw(t, "GPUs of a task"), rapid.IntRange(1, 4).Draw(t, "tasks"), rapid.Bool().Draw(t, "gang")
		t.Logf("agents %q, tasks %q, protected %v: %d tasks of %d GPUs, gang %t", agents, tasks, protected, n, gpus, gang)
		claim := claimOf(s, demandOf(gpus), n, gang)
		free := naive.countAfter(gpus, n, nil)
		if claim.Missing != n-free {
			t.Fatalf("%d tasks are missing, want %d", claim.Missing, n-free)
		}
		claim.Rules[0] = func(u *Unit) bool { return !protected[u.Tasks[0].Spec.Name] }
		chosen := s.Choose(claim)

		var indexes []int
		for i := range s.Units {
			if u := &s.Units[i]; u.Chosen != slices.Contains(chosen, u) {
				t.Fatalf("%s is marked as chosen: %t", u.Tasks[0].Spec.Name, u.Chosen)
			} else if u.Chosen {
				indexes = append(indexes, i)
			}
		}
		for _, i := range indexes {
			if !slices.Contains(mayEnd, i) {
				t.Fatalf("%s ends, and may not", s.Units[i].Tasks[0].Spec.Name)
			}
			without := slices.DeleteFunc(slices.Clone(indexes), func(k int) bool { return k == i })
			if naive.countAfter(gpus, n, without) == naive.countAfter(gpus, n, indexes) {
				t.Fatalf("%s of %q is not necessary", s.Units[i].Tasks[0].Spec.Name, namesOf(chosen))
			}
		}
		want := naive.countAfter(gpus, n, mayEnd)
		if gang && want < n {
			want = free
		}
		if got := naive.countAfter(gpus, n, indexes); got != want {
			t.Fatalf("%d tasks fit after %q, want %d", got, namesOf(chosen), want)
		}
		if n == 1 && len(indexes) > 0 {
			highest := func(set []int) int {
				most := 0
				for _, i := range set {
					most = max(most, s.Units[i].Harm.Priority)
				}
				return most
			}
			for bits := range 1 << len(mayEnd) {
				var set []int
				for k, i := range mayEnd {
					if bits>>k&1 == 1 {
						set = append(set, i)
					}
				}
				if naive.countAfter(gpus, n, set) == 1 && highest(set) < highest(indexes) {
					t.Fatalf("%q end, one of priority %d; %v make room and have at most %d", namesOf(chosen), highest(indexes), set, highest(set))
				}
			}
		}
	})
}
