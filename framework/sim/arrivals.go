package sim

import (
	"fmt"
	"math/rand"

	"mesos-gpu/framework/sched/fit"
)

// maxArrivalPercent is how many CountGPUs the tasks of one run ask for, in percent of those
// there are.
const maxArrivalPercent = 130

// skippedDraws is how many numbers the published simulator takes from the same
// source for something else, one for each kind of object that its Kubernetes
// watches, before it draws the agents' prefixes. With them its runs come out
// the same here, seed by seed; without, only on average.
const skippedDraws = 10

// arrivalSequence is what one seed makes of a trace: the tasks in the order of their
// arrival, and the agents under names that say who wins among equals.
type arrivalSequence struct {
	tasks  []*RecordedTask
	agents []fit.AgentResources
}

// drawArrivals draws as the FGD experiment does, number by number, so that a seed
// means the same there and here: the tasks are shuffled; then some are taken
// out, or more are drawn from all, until they ask for 1.3 times the CountGPUs; and
// the agents get prefixes.
func (t *ClusterTrace) drawArrivals(seed int64) *arrivalSequence {
	r := rand.New(rand.NewSource(seed))
	r.Int()
	a := &arrivalSequence{tasks: make([]*RecordedTask, len(t.Tasks))}
	asked := int64(0)
	for i := range t.Tasks {
		a.tasks[i] = &t.Tasks[i]
		asked += t.Tasks[i].totalMilli()
	}
	r.Shuffle(len(a.tasks), func(i, j int) { a.tasks[i], a.tasks[j] = a.tasks[j], a.tasks[i] })
	a.scaleDemand(t, r, asked)
	for range skippedDraws {
		r.Float64()
	}
	for i, p := range r.Perm(len(t.Agents)) {
		f := t.Agents[i].fitAgent()
		f.ID = fmt.Sprintf("%04d-%s", p, f.ID)
		a.agents = append(a.agents, f)
	}
	return a
}

// scaleDemand makes the tasks ask for as much as a run wants. That a task of several
// CountGPUs is weighed as one where it is drawn, is the experiment's way.
func (a *arrivalSequence) scaleDemand(t *ClusterTrace, r *rand.Rand, asked int64) {
	wanted := float64(t.CountGPUs()*milliPerGPU) * (maxArrivalPercent / 100.0)
	if float64(asked) == wanted {
		return
	}
	if float64(asked) > wanted {
		for float64(asked) > wanted {
			i := r.Intn(len(a.tasks))
			asked -= a.tasks[i].totalMilli()
			a.tasks = append(a.tasks[:i], a.tasks[i+1:]...)
		}
		return
	}
	for {
		more := &t.Tasks[r.Intn(len(t.Tasks))]
		if float64(asked+int64(more.GPUMilli)) > wanted {
			return
		}
		asked += more.totalMilli()
		a.tasks = append(a.tasks, more)
	}
}
