package sim

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func traceOf(agents []RecordedAgent, tasks []RecordedTask) *ClusterTrace {
	for i := range agents {
		agents[i].Name = fmt.Sprint("agent", i)
	}
	for i := range tasks {
		tasks[i].Name = fmt.Sprint("task", i)
	}
	return &ClusterTrace{Agents: agents, Tasks: tasks}
}

func (t *ClusterTrace) boundOfAllTasks() float64 {
	var all []*RecordedTask
	for i := range t.Tasks {
		all = append(all, &t.Tasks[i])
	}
	return t.maxMilliInUse(all)
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
		"all fits":                         {t4s(4), sharedTasks(500, 500, 300), 1300},
		"two of 600 share no GPU":          {t4s(2), sharedTasks(600, 600, 600), 1200},
		"a mix that fills":                 {t4s(2), sharedTasks(600, 600, 400, 400, 300), 2000},
		"the best cut comes once":          {t4s(2), sharedTasks(900, 100, 700, 700), 1700},
		"whole ones and parts":             {t4s(2), append(sharedTasks(800, 800), RecordedTask{GPUs: 1, GPUMilli: 1000}), 1800},
		"several GPUs at once":             {t4s(4), []RecordedTask{{GPUs: 8, GPUMilli: 1000}}, 4000},
		"a type that is short":             {append(t4s(1), RecordedAgent{GPUs: 4, Model: "A10"}), []RecordedTask{{GPUs: 3, GPUMilli: 1000, Models: []string{"T4"}}}, 1000},
		"no types in a list":               {t4s(1), []RecordedTask{{GPUs: 1, GPUMilli: 1000, Models: []string{}}}, 1000},
		"who needs no type leaves it":      {append(t4s(1), RecordedAgent{GPUs: 1, Model: "A10"}), []RecordedTask{{GPUs: 1, GPUMilli: 1000}, {GPUs: 1, GPUMilli: 900, Models: []string{"T4"}}}, 1900},
		"one of two types":                 {append(t4s(1), RecordedAgent{GPUs: 1, Model: "A10"}), []RecordedTask{{GPUs: 3, GPUMilli: 1000, Models: []string{"T4", "A10"}}}, 2000},
		"a type that is not there":         {t4s(2), []RecordedTask{{GPUs: 1, GPUMilli: 1000, Models: []string{"H100"}}}, 0},
		"half of a task is more than none": {t4s(1), sharedTasks(700, 700), 700},
		"no task":                          {t4s(1), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := traceOf(c.agents, c.tasks).boundOfAllTasks(); math.Abs(got-c.want) > 1e-3 {
				t.Errorf("got %.4f, want %.0f", got, c.want)
			}
		})
	}
}

// maxMilliByBruteForce returns the most GPU thousandths that any placement of the tasks allocates.
func maxMilliByBruteForce(tasks []RecordedTask, free []int, models []string) int {
	if len(tasks) == 0 {
		return 0
	}
	task, best := &tasks[0], maxMilliByBruteForce(tasks[1:], free, models)
	may := func(i int) bool {
		if free[i] < task.GPUMilli {
			return false
		}
		for _, m := range task.Models {
			if m == models[i] {
				return true
			}
		}
		return task.Models == nil
	}
	for i := range free {
		if may(i) {
			free[i] -= task.GPUMilli
			best = max(best, task.GPUMilli+maxMilliByBruteForce(tasks[1:], free, models))
			free[i] += task.GPUMilli
		}
	}
	return best
}

// TestBoundHolds checks that no placement exceeds the bound, that the bound exceeds neither the demand nor the
// capacity, and that more tasks never lower it.
func TestBoundHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"T4", "A10"}
		var agents []RecordedAgent
		var free []int
		var models []string
		for range rapid.IntRange(1, 3).Draw(t, "GPUs") {
			name := rapid.SampledFrom(names).Draw(t, "model")
			agents = append(agents, RecordedAgent{GPUs: 1, Model: name})
			free, models = append(free, milliPerGPU), append(models, name)
		}
		var tasks []RecordedTask
		asked := 0
		for range rapid.IntRange(1, 6).Draw(t, "tasks") {
			task := RecordedTask{GPUs: 1, GPUMilli: 10 * rapid.IntRange(1, 100).Draw(t, "milli")}
			if rapid.Bool().Draw(t, "insists") {
				task.Models = []string{rapid.SampledFrom(names).Draw(t, "on")}
			}
			tasks, asked = append(tasks, task), asked+task.GPUMilli
		}
		got := traceOf(agents, tasks).boundOfAllTasks()
		if best := maxMilliByBruteForce(tasks, free, models); got < float64(best)-1e-3 {
			t.Errorf("got %.3f, and %d can be in use", got, best)
		}
		if limit := float64(min(asked, len(agents)*milliPerGPU)); got > limit+1e-3 {
			t.Errorf("got %.3f of at most %.0f", got, limit)
		}
		if fewer := traceOf(agents, tasks[1:]).boundOfAllTasks(); fewer > got+1e-3 {
			t.Errorf("got %.3f, and %.3f without the first task", got, fewer)
		}
	})
}
