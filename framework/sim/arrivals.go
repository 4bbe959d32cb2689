package sim

import (
	"fmt"
	"math/rand"

	"mesos-gpu/framework/sched/fit"
)

// maxArrivalPercent is how many GPUs the tasks of one run request, in percent of those of the cluster.
const maxArrivalPercent = 130

// skippedDraws is how many random numbers the published simulator draws for another purpose before the agents'
// prefixes: one for each kind of object that its Kubernetes watches. With them the runs are equal seed by seed;
// without them only on average.
const skippedDraws = 10

// arrivalSequence is the sequence that one seed draws from a trace: the tasks in the order of arrival, and the agents
// with names that break ties.
type arrivalSequence struct {
	// tasks are drawn from the trace, with repetition, until their GPUs exceed those of the cluster.
	tasks  []*RecordedTask
	agents []fit.AgentResources
}

// drawArrivals draws random numbers in the order of the FGD experiment, so that equal seeds give the same sequence.
// Tasks are shuffled, then removed or repeated until they request 1.3 times the GPUs; agents get prefixes.
func (t *ClusterTrace) drawArrivals(seed int64) *arrivalSequence {
	r := rand.New(rand.NewSource(seed))
	r.Int()
	a := &arrivalSequence{tasks: make([]*RecordedTask, len(t.Tasks))}
	requested := int64(0)
	for i := range t.Tasks {
		a.tasks[i] = &t.Tasks[i]
		requested += t.Tasks[i].totalMilli()
	}
	r.Shuffle(len(a.tasks), func(i, j int) { a.tasks[i], a.tasks[j] = a.tasks[j], a.tasks[i] })
	a.scaleDemand(t, r, requested)
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

// scaleDemand removes or repeats tasks until they request maxArrivalPercent. Like the experiment it counts a drawn task of
// several GPUs as one GPU when it decides whether to stop.
func (a *arrivalSequence) scaleDemand(t *ClusterTrace, r *rand.Rand, requested int64) {
	wanted := float64(t.CountGPUs()*milliPerGPU) * (maxArrivalPercent / 100.0)
	if float64(requested) == wanted {
		return
	}
	if float64(requested) > wanted {
		for float64(requested) > wanted {
			i := r.Intn(len(a.tasks))
			requested -= a.tasks[i].totalMilli()
			a.tasks = append(a.tasks[:i], a.tasks[i+1:]...)
		}
		return
	}
	for {
		more := &t.Tasks[r.Intn(len(t.Tasks))]
		if float64(requested+int64(more.GPUMilli)) > wanted {
			return
		}
		requested += more.totalMilli()
		a.tasks = append(a.tasks, more)
	}
}
