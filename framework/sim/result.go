package sim

import (
	"math"
	"slices"
	"strconv"
)

// Arrivals are the percentages of the cluster's GPUs asked for at which the
// FGD paper's tables are read.
func Arrivals() []int { return []int{80, 90, 95, 100, 110, 120, 130} }

// Cell is a mean over seeds and their standard deviation, counted as all there
// are, which is how the published tables have it.
type Cell struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

// Result is what one policy made of a trace. All but the counts are in
// percent.
type Result struct {
	Policy string `json:"policy"`
	// Agents, GPUs and Tasks count the trace's.
	Agents int     `json:"agents"`
	GPUs   int     `json:"gpus"`
	Tasks  int     `json:"tasks"`
	Seeds  []int64 `json:"seeds"`
	// Queue is how many tasks might wait.
	Queue int `json:"queue,omitempty"`
	// Allocation is of all GPUs, by how many percent of them were asked for.
	Allocation map[string]Cell `json:"allocation"`
	// Bound is what no placing of the same tasks can exceed: see
	// Trace.Bounds. With a queue there is none.
	Bound map[string]Cell `json:"bound,omitempty"`
	// Unplaced counts the tasks that found no place.
	Unplaced Cell `json:"unplaced"`
	// Fragmentation is of all GPUs: idle in the end and of no use to a
	// typical task.
	Fragmentation Cell `json:"fragmentation"`
	// Types is the use of each model's GPUs in the end.
	Types map[string]Cell `json:"types"`
	// Decisions counts the tasks that arrived, over all seeds.
	Decisions int `json:"decisions"`
	// DecisionsPerSecond is of one thread, the making of clusters included.
	DecisionsPerSecond float64 `json:"decisions_per_second"`
}

// At is the allocation at a percentage of arrival; false if no task's arrival
// rounds to it.
func (r *Result) At(arrival int) (Cell, bool) {
	c, ok := r.Allocation[strconv.Itoa(arrival)]
	return c, ok
}

// summarize is what the runs of one policy have in common. There is at least
// one.
func summarize(t *Trace, policy string, runs []*Run) Result {
	r := Result{Policy: policy, Agents: len(t.Agents), GPUs: t.GPUs(), Tasks: len(t.Tasks), Types: map[string]Cell{}}
	var allocations []map[int]float64
	models := map[string][]float64{}
	var unplaced, idle []float64
	for _, run := range runs {
		r.Seeds, allocations = append(r.Seeds, run.Seed), append(allocations, run.Allocation)
		for model, x := range run.Types {
			models[model] = append(models[model], x)
		}
		r.Decisions += run.Decisions
		unplaced, idle = append(unplaced, float64(run.Unplaced)), append(idle, run.Fragmentation)
	}
	r.Allocation = byArrival(allocations)
	for model, list := range models {
		r.Types[model] = cellOf(list)
	}
	r.Unplaced, r.Fragmentation = cellOf(unplaced), cellOf(idle)
	return r
}

// byArrival joins what seeds have by percent of arrival.
func byArrival(seeds []map[int]float64) map[string]Cell {
	at, cells := map[int][]float64{}, map[string]Cell{}
	for _, one := range seeds {
		for arrival, x := range one {
			at[arrival] = append(at[arrival], x)
		}
	}
	for arrival, list := range at {
		cells[strconv.Itoa(arrival)] = cellOf(list)
	}
	return cells
}

func cellOf(list []float64) Cell {
	n := float64(len(list))
	if slices.Min(list) == slices.Max(list) {
		return Cell{Mean: list[0]}
	}
	sum, squares := 0.0, 0.0
	for _, x := range list {
		sum += x
	}
	for _, x := range list {
		squares += (x - sum/n) * (x - sum/n)
	}
	return Cell{Mean: sum / n, SD: math.Sqrt(squares / n)}
}
