package sim

import (
	"fmt"
	"math/rand"

	"mesos-gpu/framework/sched/fit"
)

// overload is how many GPUs the tasks of one run ask for, in percent of those
// there are.
const overload = 130

// asides is how many numbers the published simulator takes from the same
// source for something else, one for each kind of object that its Kubernetes
// watches, before it draws the agents' prefixes. With them its runs come out
// the same here, seed by seed; without, only on average.
const asides = 10

// arrivals is what one seed makes of a trace: the tasks in the order of their
// arrival, and the agents under names that say who wins among equals.
type arrivals struct {
	tasks  []*Task
	agents []fit.Agent
}

// arrivals draws as the FGD experiment does, number by number, so that a seed
// means the same there and here: the tasks are shuffled; then some are taken
// out, or more are drawn from all, until they ask for 1.3 times the GPUs; and
// the agents get prefixes.
func (t *Trace) arrivals(seed int64) *arrivals {
	r := rand.New(rand.NewSource(seed))
	r.Int()
	a := &arrivals{tasks: make([]*Task, len(t.Tasks))}
	asked := int64(0)
	for i := range t.Tasks {
		a.tasks[i] = &t.Tasks[i]
		asked += t.Tasks[i].milli()
	}
	r.Shuffle(len(a.tasks), func(i, j int) { a.tasks[i], a.tasks[j] = a.tasks[j], a.tasks[i] })
	a.tune(t, r, asked)
	for range asides {
		r.Float64()
	}
	for i, p := range r.Perm(len(t.Agents)) {
		f := t.Agents[i].offer()
		f.ID = fmt.Sprintf("%04d-%s", p, f.ID)
		a.agents = append(a.agents, f)
	}
	return a
}

// tune makes the tasks ask for as much as a run wants. That a task of several
// GPUs is weighed as one where it is drawn, is the experiment's way.
func (a *arrivals) tune(t *Trace, r *rand.Rand, asked int64) {
	wanted := float64(t.GPUs()*whole) * (overload / 100.0)
	if float64(asked) == wanted {
		return
	}
	if float64(asked) > wanted {
		for float64(asked) > wanted {
			i := r.Intn(len(a.tasks))
			asked -= a.tasks[i].milli()
			a.tasks = append(a.tasks[:i], a.tasks[i+1:]...)
		}
		return
	}
	for {
		more := &t.Tasks[r.Intn(len(t.Tasks))]
		if float64(asked+int64(more.GPUMilli)) > wanted {
			return
		}
		asked += more.milli()
		a.tasks = append(a.tasks, more)
	}
}
