package sim

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// Sizes of the small clusters: their agents have smallAgentGPUs GPUs, and tasks are of smallKinds kinds.
const (
	smallAgentGPUs = 2
	smallKinds     = 8
	maxSmallAgents = 3
)

// smallCluster is a cluster of equal agents on which tasks arrive one by one, each of a kind drawn with known
// probabilities. It is so small that the best online policy can be computed.
type smallCluster struct {
	agents []RecordedAgent
	kinds  []RecordedTask
	part   []float64 // of the tasks, by kind
	tasks  int       // that arrive
}

// newSmallCluster returns a cluster of so many agents with the trace's CPUs per GPU, and of the trace's most frequent
// kinds of task that fit them. As many tasks arrive as request all GPUs on average.
func (t *ClusterTrace) newSmallCluster(agents int) *smallCluster {
	cpus := int64(0)
	for i := range t.Agents {
		cpus += t.Agents[i].CPUMilli
	}
	agent := RecordedAgent{GPUs: smallAgentGPUs, Model: "T4", CPUMilli: cpus * smallAgentGPUs / int64(t.CountGPUs())}
	s, all, milli := &smallCluster{}, 0.0, 0.0
	for i := range agents {
		agent.Name = fmt.Sprint("agent", i)
		s.agents = append(s.agents, agent)
	}
	for _, c := range t.countShapes() {
		task := RecordedTask{CPUMilli: c.shape.cpus, GPUs: c.shape.gpus, GPUMilli: c.shape.milli}
		if len(s.kinds) < smallKinds && c.shape.models == "" && task.GPUs <= agent.GPUs && task.CPUMilli <= agent.CPUMilli {
			task.Name = fmt.Sprint("kind", len(s.kinds))
			s.kinds, s.part = append(s.kinds, task), append(s.part, float64(c.tasks))
			all, milli = all+float64(c.tasks), milli+float64(int64(c.tasks)*task.totalMilli())
		}
	}
	for k := range s.part {
		s.part[k] /= all
	}
	s.tasks = int(math.Round(s.allMilli() * all / milli))
	return s
}

// allMilli returns the GPU thousandths of all agents.
func (s *smallCluster) allMilli() float64 {
	return float64(len(s.agents) * smallAgentGPUs * milliPerGPU)
}

// smallState is what the agents have free.
type smallState [maxSmallAgents]smallAgent

// smallAgent is what one agent and each of its GPUs has free.
type smallAgent struct {
	cpuMilli int64
	milli    [smallAgentGPUs]int
}

func (s *smallCluster) idleState() (state smallState) {
	for i := range s.agents {
		state[i].cpuMilli = s.agents[i].CPUMilli
		for g := range state[i].milli {
			state[i].milli[g] = milliPerGPU
		}
	}
	return state
}

// sorted returns the state with equal agents and GPUs in one order.
func (s smallState) sorted() smallState {
	for i := range s {
		slices.Sort(s[i].milli[:])
	}
	slices.SortFunc(s[:], func(a, b smallAgent) int {
		return cmp.Or(cmp.Compare(a.cpuMilli, b.cpuMilli), slices.Compare(a.milli[:], b.milli[:]))
	})
	return s
}

// placements returns the states that placing a task may lead to.
func (s smallState) placements(task *RecordedTask) (list []smallState) {
	for i := range s {
		if s[i].cpuMilli < task.CPUMilli || slices.Contains(s[:i], s[i]) { // or as on the other agent
			continue
		}
		after := s
		after[i].cpuMilli -= task.CPUMilli
		if task.GPUs == 0 {
			list = append(list, after.sorted())
			continue
		}
		for _, milli := range takeMilli(s[i].milli[:], task) {
			copy(after[i].milli[:], milli)
			list = append(list, after.sorted())
		}
	}
	return list
}

// stateAndRest is a state before the last tasks arrive.
type stateAndRest struct {
	state smallState
	rest  int
}

// meanInUse returns the GPU thousandths in use at the end, as a mean over all tasks that may arrive. place returns those of
// one task of a kind that arrives, and of the tasks after it, which rest returns for what is free then. It is computed from
// the last arrival to the first.
func (s *smallCluster) meanInUse(start smallState, place func(kind int, state smallState, rest func(smallState) float64) float64) float64 {
	known := map[stateAndRest]float64{}
	var value func(state smallState, rest int) float64
	value = func(state smallState, rest int) float64 {
		if rest == 0 {
			return 0
		}
		key := stateAndRest{state, rest}
		if v, ok := known[key]; ok {
			return v
		}
		sum := 0.0
		for k := range s.kinds {
			sum += s.part[k] * place(k, state, func(after smallState) float64 { return value(after, rest-1) })
		}
		known[key] = sum
		return sum
	}
	return value(start, s.tasks)
}

// bestOnline returns the most GPU thousandths in use at the end that a policy can reach on average, which knows the
// probabilities and what arrived before. It refuses tasks that fit only if mayRefuse is set.
func (s *smallCluster) bestOnline(mayRefuse bool) float64 {
	return s.meanInUse(s.idleState().sorted(), func(k int, state smallState, rest func(smallState) float64) float64 {
		best, list := 0.0, state.placements(&s.kinds[k])
		if mayRefuse || len(list) == 0 {
			best = rest(state)
		}
		for _, after := range list {
			best = max(best, float64(s.kinds[k].totalMilli())+rest(after))
		}
		return best
	})
}

// meanOfPolicy returns the GPU thousandths in use at the end that a policy reaches on average.
func (s *smallCluster) meanOfPolicy(policy string) float64 {
	var agents []fit.AgentResources
	device := map[string]int{}
	for i := range s.agents {
		a := s.agents[i].fitAgent()
		for g, id := range a.DeviceIDs {
			device[id] = g
		}
		agents = append(agents, a)
	}
	var typical []fit.TypicalTask
	for k := range s.kinds {
		typical = append(typical, fit.TypicalTask{Demand: s.kinds[k].fitDemand(), Weight: s.part[k]})
	}
	c := fit.NewCluster(agents, fit.PlacementPolicy{Name: policy, Typical: typical}, time.Time{})
	return s.meanInUse(s.idleState(), func(k int, state smallState, rest func(smallState) float64) float64 {
		task, after, gain := &s.kinds[k], state, 0.0
		d := task.fitDemand()
		places := c.PlaceTasks(&d, 1)
		for _, p := range places {
			gain = float64(task.totalMilli())
			after[p.Agent].cpuMilli -= task.CPUMilli
			for _, id := range p.DeviceIDs {
				after[p.Agent].milli[device[id]] -= task.GPUMilli
			}
			for _, share := range p.Shares {
				after[p.Agent].milli[device[share.UUID]] -= task.GPUMilli
			}
		}
		mean := gain + rest(after)
		c.UndoPlacements(&d, places)
		return mean
	})
}

// meanInHindsight returns the means, over all lists of tasks that may arrive, of the bound and of the most GPU thousandths
// that any placement of the list uses.
func (s *smallCluster) meanInHindsight() (bound, best float64) {
	var visit func(k, left int, probability float64, tasks []RecordedTask)
	visit = func(k, left int, probability float64, tasks []RecordedTask) {
		if k == len(s.kinds)-1 {
			tasks = append(slices.Clip(tasks), repeatedTask(left, s.kinds[k])...)
			probability *= math.Pow(s.part[k], float64(left))
			requested := int64(0)
			for i := range tasks {
				requested += tasks[i].totalMilli()
			}
			most := min(traceOf(slices.Clone(s.agents), tasks).boundOfAllTasks(), float64(requested))
			bound += probability * most
			slices.SortStableFunc(tasks, func(a, b RecordedTask) int { return cmp.Compare(b.totalMilli(), a.totalMilli()) })
			tasks = slices.DeleteFunc(tasks, func(t RecordedTask) bool { return t.GPUs == 0 })
			best += probability * float64(maxMilliByBruteForce(tasks, freeAgents(s.agents), int64(most)))
			return
		}
		ways := 1.0 // to arrange so many of the kind among those that are left
		for n := 0; n <= left; n++ {
			visit(k+1, left-n, probability*ways*math.Pow(s.part[k], float64(n)), append(slices.Clip(tasks), repeatedTask(n, s.kinds[k])...))
			ways *= float64(left-n) / float64(n+1)
		}
	}
	visit(0, s.tasks, 1, nil)
	return bound, best
}

// TestOnlineOptimum computes on small clusters how much of what headroom leaves to the bound a policy could reach that does
// not know which tasks arrive later. It checks that small-clusters.csv has the figures, in percent of all GPUs, and in
// its last column what such a policy closes of the difference between headroom and the bound.
func TestOnlineOptimum(t *testing.T) {
	figures, err := os.ReadFile(filepath.Join("..", "..", "docs", "internals", "placement", "small-clusters.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for variant, most := range map[string]int{"default": maxSmallAgents, "gpushare100": 2} { // larger ones take many minutes
		if *tables == "" {
			most = 1
		}
		for agents := 1; agents <= most; agents++ {
			s := openb(t, "testdata", variant).newSmallCluster(agents)
			fgd, headroom, starting, refusing := s.meanOfPolicy("fgd"), s.meanOfPolicy("headroom"), s.bestOnline(false), s.bestOnline(true)
			bound, hindsight := s.meanInHindsight()
			if list := []float64{
				max(fgd, headroom), starting, refusing, hindsight, bound + 1e-3,
			}; !slices.IsSortedFunc(list, func(a, b float64) int { return cmp.Compare(a, b-1e-6) }) {
				t.Errorf("%s with %d agents: want an ascending list, got %.4f", variant, agents, list)
			}
			closed := (starting - headroom) / (bound - headroom)
			if closed >= 0.5 {
				t.Errorf("%s with %d agents: a policy that starts every task that fits could close %.2f of the rest, want less than half", variant, agents, closed)
			}
			line := fmt.Sprintf("%s,%d", variant, agents*smallAgentGPUs)
			for _, x := range []float64{fgd, headroom, starting, refusing, hindsight, bound} {
				line += fmt.Sprintf(",%.2f", 100*x/s.allMilli())
			}
			line += fmt.Sprintf(",%.0f", 100*closed)
			if t.Log(line); !strings.Contains(string(figures), "\n"+line+"\n") {
				t.Errorf("docs/internals/placement/small-clusters.csv lacks the line\n%s", line)
			}
		}
	}
}
