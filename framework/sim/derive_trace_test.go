package sim

import (
	"math/rand"
	"slices"
)

// TraceVariant describes a workload and a cluster derived from a recorded trace, so that policies can be compared on
// a family of traces and not only on the recorded ones.
type TraceVariant struct {
	// Seed determines which tasks and agents change, and to what.
	Seed int64
	// TypedTasks is the part of the GPU tasks that request a GPU model, 0 to 1; 0 keeps the requests of the trace.
	TypedTasks float64
	// SharedTasks is the part of the one-GPU tasks that take a share of the GPU, 0 to 1; below 0 keeps the trace's.
	SharedTasks float64
	// MultiGPUTasks is the part of the GPU tasks that take several GPUs, 0 to 1; below 0 keeps the trace's.
	MultiGPUTasks float64
	// CPUFactor multiplies the CPUs of each task; 0 keeps them. No task gets more CPUs than the largest agent has.
	CPUFactor float64
	// UniformAgents makes half of the agents have GPUs of one model.
	UniformAgents bool
}

// DrawVariant draws a variant: each property changes with probability one half, within the range in which recorded
// workloads lie.
func DrawVariant(seed int64) TraceVariant {
	r := rand.New(rand.NewSource(seed))
	v := TraceVariant{Seed: seed, SharedTasks: -1, MultiGPUTasks: -1}
	draw := func(apply func(x float64)) {
		if x := r.Float64(); r.Intn(2) == 0 {
			apply(x)
		}
	}
	draw(func(x float64) { v.TypedTasks = 0.5 * x })
	draw(func(x float64) { v.SharedTasks = x })
	draw(func(x float64) { v.MultiGPUTasks = 0.6 * x })
	draw(func(x float64) { v.CPUFactor = 0.5 + 2.5*x })
	draw(func(float64) { v.UniformAgents = true })
	return v
}

// Derive returns the variant of the trace. Shares, sizes of several GPUs and their CPUs are those of recorded tasks,
// drawn at random. Equal arguments give equal traces.
func (t *ClusterTrace) Derive(v TraceVariant) *ClusterTrace {
	r := rand.New(rand.NewSource(v.Seed))
	d := &ClusterTrace{Agents: slices.Clone(t.Agents), Tasks: slices.Clone(t.Tasks)}
	if v.UniformAgents {
		d.unifyAgents(r)
	}
	if v.MultiGPUTasks >= 0 {
		large, small := t.selectTasks(func(t *RecordedTask) bool { return t.GPUs > 1 }), t.selectTasks(func(t *RecordedTask) bool { return t.GPUs == 1 })
		d.redrawTasks(r, func(t *RecordedTask) bool { return t.GPUs > 0 }, v.MultiGPUTasks, large, small)
	}
	if v.SharedTasks >= 0 {
		shares := t.selectTasks(func(t *RecordedTask) bool { return t.GPUs == 1 && t.GPUMilli < milliPerGPU })
		whole := t.selectTasks(func(t *RecordedTask) bool { return t.GPUs == 1 && t.GPUMilli == milliPerGPU })
		d.redrawTasks(r, func(t *RecordedTask) bool { return t.GPUs == 1 }, v.SharedTasks, shares, whole)
	}
	if v.TypedTasks > 0 {
		d.requestModels(r, v.TypedTasks)
	}
	if v.CPUFactor > 0 {
		d.multiplyCPUs(v.CPUFactor)
	}
	return d
}

// selectTasks returns pointers to the tasks of the trace that a condition selects.
func (t *ClusterTrace) selectTasks(isSelected func(*RecordedTask) bool) []*RecordedTask {
	var list []*RecordedTask
	for i := range t.Tasks {
		if isSelected(&t.Tasks[i]) {
			list = append(list, &t.Tasks[i])
		}
	}
	return list
}

// redrawTasks gives each selected task the amounts of a recorded one: with probability part one of chosen, otherwise
// one of others. A list that is empty changes nothing.
func (t *ClusterTrace) redrawTasks(r *rand.Rand, isSelected func(*RecordedTask) bool, part float64, chosen, others []*RecordedTask) {
	for _, task := range t.selectTasks(isSelected) {
		from := others
		if r.Float64() < part {
			from = chosen
		}
		if len(from) == 0 {
			continue
		}
		like := from[r.Intn(len(from))]
		task.CPUMilli, task.MemMiB, task.GPUs, task.GPUMilli = like.CPUMilli, like.MemMiB, like.GPUs, like.GPUMilli
	}
}

// requestModels lets a part of the GPU tasks request one model, or one in five of them two. How popular a model is
// does not depend on how many GPUs it has.
func (t *ClusterTrace) requestModels(r *rand.Rand, part float64) {
	var models []string
	for i := range t.Agents {
		if model := t.Agents[i].Model; t.Agents[i].GPUs > 0 && !slices.Contains(models, model) {
			models = append(models, model)
		}
	}
	slices.Sort(models)
	popularity := make([]float64, len(models))
	for i := range popularity {
		popularity[i] = r.ExpFloat64()
	}
	for _, task := range t.selectTasks(func(t *RecordedTask) bool { return t.GPUs > 0 }) {
		if r.Float64() >= part {
			continue
		}
		task.Models = []string{drawWeighted(r, models, popularity)}
		if other := drawWeighted(r, models, popularity); r.Intn(5) == 0 && other != task.Models[0] {
			task.Models = append(task.Models, other)
			slices.Sort(task.Models)
		}
	}
}

// drawWeighted draws an element with a probability proportional to its weight.
func drawWeighted(r *rand.Rand, list []string, weights []float64) string {
	x := r.Float64() * sumOf(weights)
	for i, w := range weights {
		if x -= w; x < 0 {
			return list[i]
		}
	}
	return list[len(list)-1]
}

// sumOf adds numbers in their order.
func sumOf(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum
}

// unifyAgents gives half of the agents the model of one of them.
func (t *ClusterTrace) unifyAgents(r *rand.Rand) {
	model := t.Agents[r.Intn(len(t.Agents))].Model
	for _, i := range r.Perm(len(t.Agents))[:len(t.Agents)/2] {
		t.Agents[i].Model = model
	}
}

// multiplyCPUs multiplies the CPUs of all tasks, up to the CPUs of the largest agent.
func (t *ClusterTrace) multiplyCPUs(factor float64) {
	most := int64(0)
	for i := range t.Agents {
		most = max(most, t.Agents[i].CPUMilli)
	}
	for i := range t.Tasks {
		t.Tasks[i].CPUMilli = min(int64(float64(t.Tasks[i].CPUMilli)*factor), most)
	}
}
