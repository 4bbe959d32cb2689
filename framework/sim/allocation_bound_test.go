package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func traceOf(agents []RecordedAgent, tasks []RecordedTask) *ClusterTrace {
	for i := range agents {
		agents[i].Name = fmt.Sprint("agent", i)
		if agents[i].CPUMilli == 0 { // more than any task
			agents[i].CPUMilli, agents[i].MemMiB = maxMilli, maxMemMiB
		}
	}
	for i := range tasks {
		tasks[i].Name = fmt.Sprint("task", i)
	}
	return &ClusterTrace{Agents: agents, Tasks: tasks}
}

// boundOfAllTasks returns how many thousandths of GPUs the tasks of the trace can use at most.
func (t *ClusterTrace) boundOfAllTasks() float64 {
	var all []*RecordedTask
	for i := range t.Tasks {
		all = append(all, &t.Tasks[i])
	}
	p := t.newPackingProblem(all)
	counts := p.countTasks(all)
	return milliPerGPU * p.solvePrices(counts).boundFor(counts)
}

func sharedTasks(milli ...int) (tasks []RecordedTask) {
	for _, m := range milli {
		tasks = append(tasks, RecordedTask{GPUs: 1, GPUMilli: m})
	}
	return tasks
}

func TestBound(t *testing.T) {
	t4s := func(n int) []RecordedAgent { return []RecordedAgent{{GPUs: n, Model: "T4"}} }
	for name, c := range map[string]struct {
		agents []RecordedAgent
		tasks  []RecordedTask
		want   float64
	}{
		"all fits":                    {t4s(4), sharedTasks(500, 500, 300), 1300},
		"two of 600 share no GPU":     {t4s(2), sharedTasks(600, 600, 600), 1200},
		"a mix that fills":            {t4s(2), sharedTasks(600, 600, 400, 400, 300), 2000},
		"the best cut comes once":     {t4s(2), sharedTasks(900, 100, 700, 700), 1700},
		"whole ones and parts":        {t4s(2), append(sharedTasks(800, 800), RecordedTask{GPUs: 1, GPUMilli: 1000}), 1800},
		"more GPUs than an agent has": {t4s(4), []RecordedTask{{GPUs: 8, GPUMilli: 1000}}, 0},
		"a type that is short": {append(t4s(1), RecordedAgent{GPUs: 4, Model: "A10"}),
			repeatedTask(3, RecordedTask{GPUs: 1, GPUMilli: 1000, Models: []string{"T4"}}), 1000},
		"no types in a list": {t4s(1), []RecordedTask{{GPUs: 1, GPUMilli: 1000, Models: []string{}}}, 1000},
		"who needs no type leaves it": {append(t4s(1), RecordedAgent{GPUs: 1, Model: "A10"}),
			[]RecordedTask{{GPUs: 1, GPUMilli: 1000}, {GPUs: 1, GPUMilli: 900, Models: []string{"T4"}}}, 1900},
		"one of two types": {append(t4s(1), RecordedAgent{GPUs: 1, Model: "A10"}),
			repeatedTask(3, RecordedTask{GPUs: 1, GPUMilli: 1000, Models: []string{"T4", "A10"}}), 2000},
		"a type that is not there":         {t4s(2), []RecordedTask{{GPUs: 1, GPUMilli: 1000, Models: []string{"H100"}}}, 0},
		"half of a task is more than none": {t4s(1), sharedTasks(700, 700), 700},
		"no task":                          {t4s(1), nil, 0},
		"CPUs for one of three": {[]RecordedAgent{{GPUs: 4, CPUMilli: 8000, MemMiB: 100}},
			repeatedTask(3, RecordedTask{GPUs: 1, GPUMilli: 1000, CPUMilli: 8000}), 1000},
		"memory for two of three": {[]RecordedAgent{{GPUs: 4, CPUMilli: 8000, MemMiB: 100}},
			repeatedTask(3, RecordedTask{GPUs: 1, GPUMilli: 1000, MemMiB: 50}), 2000},
		"GPUs of two agents": {[]RecordedAgent{{GPUs: 2}, {GPUs: 2}}, []RecordedTask{{GPUs: 4, GPUMilli: 1000}}, 0},
		"CPUs of two agents": {[]RecordedAgent{{GPUs: 2, CPUMilli: 5000}, {GPUs: 2, CPUMilli: 5000}},
			repeatedTask(3, RecordedTask{GPUs: 1, GPUMilli: 1000, CPUMilli: 3000}), 2000},
		"CPUs for one of two shares": {[]RecordedAgent{{GPUs: 4, CPUMilli: 9000, MemMiB: 1}},
			[]RecordedTask{{GPUs: 3, GPUMilli: 1000, CPUMilli: 7000}, {GPUs: 1, GPUMilli: 500, CPUMilli: 2000}, {GPUs: 1, GPUMilli: 500, CPUMilli: 3000}},
			3500},
		"an agent without CPUs": {[]RecordedAgent{{GPUs: 1, CPUMilli: 1}},
			[]RecordedTask{{GPUs: 1, GPUMilli: 100}, {GPUs: 1, GPUMilli: 200, CPUMilli: 1000}}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			if got := traceOf(c.agents, c.tasks).boundOfAllTasks(); math.Abs(got-c.want) > 1e-3 {
				t.Errorf("got %.4f, want %.0f", got, c.want)
			}
		})
	}
}

func repeatedTask(n int, task RecordedTask) []RecordedTask {
	return slices.Repeat([]RecordedTask{task}, n)
}

// freeAgent is what is free on an agent.
type freeAgent struct {
	RecordedAgent
	milli []int // of each GPU
}

func freeAgents(list []RecordedAgent) []freeAgent {
	var free []freeAgent
	for _, a := range list {
		free = append(free, freeAgent{a, slices.Repeat([]int{milliPerGPU}, a.GPUs)})
	}
	return free
}

// maxMilliByBruteForce returns the most GPU thousandths that any placement of the tasks allocates. enough ends the search.
func maxMilliByBruteForce(tasks []RecordedTask, free []freeAgent, enough int64) int64 {
	if len(tasks) == 0 {
		return 0
	}
	task, rest := &tasks[0], int64(0)
	for i := range tasks[1:] {
		rest += tasks[1+i].totalMilli()
	}
	best := int64(0)
	for i := range free {
		a := &free[i]
		if a.CPUMilli < task.CPUMilli || a.MemMiB < task.MemMiB || len(task.Models) > 0 && !slices.Contains(task.Models, a.Model) {
			continue
		}
		if slices.ContainsFunc(free[:i], func(o freeAgent) bool {
			return o.CPUMilli == a.CPUMilli && o.MemMiB == a.MemMiB && o.Model == a.Model && slices.Equal(o.milli, a.milli)
		}) {
			continue // as on the other one
		}
		for _, after := range takeMilli(a.milli, task) {
			before := a.milli
			a.CPUMilli, a.MemMiB, a.milli = a.CPUMilli-task.CPUMilli, a.MemMiB-task.MemMiB, after
			best = max(best, task.totalMilli()+maxMilliByBruteForce(tasks[1:], free, enough-task.totalMilli()))
			a.CPUMilli, a.MemMiB, a.milli = a.CPUMilli+task.CPUMilli, a.MemMiB+task.MemMiB, before
			if best >= enough || best == task.totalMilli()+rest {
				return best
			}
		}
	}
	if best < rest {
		best = max(best, maxMilliByBruteForce(tasks[1:], free, enough))
	}
	return best
}

// takeMilli returns what the GPUs of an agent may have free, in ascending order, after a task has taken some.
func takeMilli(free []int, task *RecordedTask) (after [][]int) {
	for i := 0; i+task.GPUs <= len(free); i++ {
		if i > 0 && free[i] == free[i-1] || slices.Min(free[i:i+task.GPUs]) < task.GPUMilli {
			continue
		}
		left := slices.Clone(free)
		for g := range task.GPUs {
			left[i+g] -= task.GPUMilli
		}
		slices.Sort(left)
		after = append(after, left)
	}
	return after
}

// TestBoundHolds checks that no placement exceeds the bound, and that the bound exceeds neither the demand nor the capacity
// nor the bound of the GPUs alone. More tasks never lower it.
func TestBoundHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		models := []string{"T4", "A10"}
		var agents []RecordedAgent
		capacity := 0
		for range rapid.IntRange(1, 3).Draw(t, "agents") {
			a := RecordedAgent{
				GPUs: rapid.IntRange(1, 3).Draw(t, "GPUs"), Model: rapid.SampledFrom(models).Draw(t, "model"),
				CPUMilli: rapid.Int64Range(1, 8000).Draw(t, "CPUs"), MemMiB: rapid.Int64Range(0, 20).Draw(t, "memory"),
			}
			agents, capacity = append(agents, a), capacity+a.GPUs*milliPerGPU
		}
		var tasks []RecordedTask
		requested := int64(0)
		for range rapid.IntRange(1, 6).Draw(t, "tasks") {
			task := RecordedTask{
				GPUs: rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "takes"), GPUMilli: milliPerGPU,
				CPUMilli: rapid.Int64Range(0, 4000).Draw(t, "with CPUs"), MemMiB: rapid.Int64Range(0, 9).Draw(t, "with memory"),
			}
			if task.GPUs == 1 {
				task.GPUMilli = 10 * rapid.IntRange(1, 100).Draw(t, "milli")
			}
			if rapid.Bool().Draw(t, "insists") {
				task.Models = []string{rapid.SampledFrom(models).Draw(t, "on")}
			}
			tasks, requested = append(tasks, task), requested+task.totalMilli()
		}
		got := traceOf(agents, tasks).boundOfAllTasks()
		if best := maxMilliByBruteForce(tasks, freeAgents(agents), requested); got < float64(best)-1e-3 {
			t.Errorf("got %.3f, and %d can be in use", got, best)
		}
		if limit := float64(min(requested, int64(capacity))); got > limit+1e-3 {
			t.Errorf("got %.3f of at most %.0f", got, limit)
		}
		slack := float64(capacity) * gapPercent / 100
		if fewer := traceOf(agents, tasks[1:]).boundOfAllTasks(); fewer > got+slack {
			t.Errorf("got %.3f, and %.3f without the first task", got, fewer)
		}
		if loose := traceOf(agents, tasks).withGPUsOnly().boundOfAllTasks(); got > loose+slack {
			t.Errorf("got %.3f, and %.3f for GPUs alone", got, loose)
		}
	})
}

// withGPUsOnly returns the trace without CPUs, memory and the borders of agents.
func (t *ClusterTrace) withGPUsOnly() *ClusterTrace {
	var agents []RecordedAgent
	for i := range t.Agents {
		agents = append(agents, slices.Repeat([]RecordedAgent{{GPUs: 1, Model: t.Agents[i].Model}}, t.Agents[i].GPUs)...)
	}
	var tasks []RecordedTask
	for i := range t.Tasks {
		tasks = append(tasks, repeatedTask(t.Tasks[i].GPUs, RecordedTask{GPUs: 1, GPUMilli: t.Tasks[i].GPUMilli, Models: t.Tasks[i].Models})...)
	}
	return traceOf(agents, tasks)
}

// Where tasks take many CPUs, the bound is far below the GPUs that they request. docs/internals/evidence.md has the figures.
func TestBoundRegardsCPUs(t *testing.T) {
	for factor, want := range map[float64]struct{ bound, headroom float64 }{2: {80.46, 61.78}, 3: {66.03, 42.61}} {
		trace := openb(t, "testdata", "default").Derive(TraceVariant{Seed: 1, SharedTasks: -1, MultiGPUTasks: -1, CPUFactor: factor})
		bound, run := trace.AllocationBounds(42)[100], trace.RunSeed("headroom", trace.TypicalTasks(), 42, 0).Allocation[100]
		if math.Abs(bound-want.bound) > 0.1 || math.Abs(run-want.headroom) > 0.1 {
			t.Errorf("CPUs times %g, at 100 %%: the bound is %.2f %%, headroom has %.2f, want %.2f and %.2f", factor, bound, run, want.bound, want.headroom)
		}
	}
}

// Tasks with many different CPUs are rounded down to few groups, which loosens the bound little and never below the true one.
func TestBoundOfManyTaskGroups(t *testing.T) {
	var tasks []RecordedTask
	for i := range int64(3000) {
		tasks = append(tasks, RecordedTask{GPUs: 1, GPUMilli: milliPerGPU, CPUMilli: 8000 + i, MemMiB: 9000 + i%7})
	}
	trace := traceOf([]RecordedAgent{{GPUs: 8, CPUMilli: 40_000, MemMiB: 1 << 20}}, tasks)
	if got := trace.boundOfAllTasks(); got < 4000 || got > 5010 { // 4 of 8000 to 8003, a fifth would need 40,010
		t.Errorf("got %.1f, want at least 4000 and at most 5 GPUs", got)
	}
	var all []*RecordedTask
	for i := range trace.Tasks {
		all = append(all, &trace.Tasks[i])
	}
	if n := len(trace.newPackingProblem(all).tasks); n < 100 || n > maxTaskGroups {
		t.Errorf("3000 tasks have %d groups, want 100 to %d", n, maxTaskGroups)
	}
}
