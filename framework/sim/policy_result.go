package sim

import (
	"math"
	"slices"
	"strconv"
)

// ArrivalPercents are the percentages of the cluster's CountGPUs asked for at which the
// FGD paper's tables are read.
func ArrivalPercents() []int { return []int{80, 90, 95, 100, 110, 120, 130} }

// MeanSD is a mean over seeds and their standard deviation, counted as all there
// are, which is how the published tables have it.
type MeanSD struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

// PolicyResult is what one policy made of a trace. All but the counts are in
// percent.
type PolicyResult struct {
	Policy string `json:"policy"`
	// Agents, CountGPUs and Tasks count the trace's.
	Agents int     `json:"agents"`
	GPUs   int     `json:"gpus"`
	Tasks  int     `json:"tasks"`
	Seeds  []int64 `json:"seeds"`
	// Queue is how many tasks might wait.
	Queue int `json:"queue,omitempty"`
	// Allocation is of all CountGPUs, by how many percent of them were asked for.
	Allocation map[string]MeanSD `json:"allocation"`
	// Bound is what no placing of the same tasks can exceed: see
	// Trace.Bounds. With a queue there is none.
	Bound map[string]MeanSD `json:"bound,omitempty"`
	// Unplaced counts the tasks that found no place.
	Unplaced MeanSD `json:"unplaced"`
	// Fragmentation is of all CountGPUs: idle in the end and of no use to a
	// typical task.
	Fragmentation MeanSD `json:"fragmentation"`
	// Types is the use of each model's CountGPUs in the end.
	Types map[string]MeanSD `json:"types"`
	// Decisions counts the tasks that arrived, over all seeds.
	Decisions int `json:"decisions"`
	// DecisionsPerSecond is of one thread, the making of clusters included.
	DecisionsPerSecond float64 `json:"decisions_per_second"`
}

// AllocationAt is the allocation at a percentage of arrival; false if no task's arrival
// rounds to it.
func (r *PolicyResult) AllocationAt(arrival int) (MeanSD, bool) {
	c, ok := r.Allocation[strconv.Itoa(arrival)]
	return c, ok
}

// summarizeRuns is what the runs of one policy have in common. There is at least
// one.
func summarizeRuns(t *ClusterTrace, policy string, runs []*SeedRun) PolicyResult {
	r := PolicyResult{Policy: policy, Agents: len(t.Agents), GPUs: t.CountGPUs(), Tasks: len(t.Tasks), Types: map[string]MeanSD{}}
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
	r.Allocation = meanByArrival(allocations)
	for model, list := range models {
		r.Types[model] = newMeanSD(list)
	}
	r.Unplaced, r.Fragmentation = newMeanSD(unplaced), newMeanSD(idle)
	return r
}

// meanByArrival joins what seeds have by percent of arrival.
func meanByArrival(seeds []map[int]float64) map[string]MeanSD {
	at, cells := map[int][]float64{}, map[string]MeanSD{}
	for _, one := range seeds {
		for arrival, x := range one {
			at[arrival] = append(at[arrival], x)
		}
	}
	for arrival, list := range at {
		cells[strconv.Itoa(arrival)] = newMeanSD(list)
	}
	return cells
}

func newMeanSD(list []float64) MeanSD {
	n := float64(len(list))
	if slices.Min(list) == slices.Max(list) {
		return MeanSD{Mean: list[0]}
	}
	sum, squares := 0.0, 0.0
	for _, x := range list {
		sum += x
	}
	for _, x := range list {
		squares += (x - sum/n) * (x - sum/n)
	}
	return MeanSD{Mean: sum / n, SD: math.Sqrt(squares / n)}
}
