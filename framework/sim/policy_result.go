package sim

import (
	"math"
	"slices"
	"strconv"
)

// ArrivalPercents returns the percentages of arrival for which the FGD paper has tables.
func ArrivalPercents() []int { return []int{80, 90, 95, 100, 110, 120, 130} }

// MeanSD is a mean over seeds and its population standard deviation, as in the published tables.
type MeanSD struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

// PolicyResult is the result of one policy on a trace. All fields except counts are in percent.
type PolicyResult struct {
	Policy string `json:"policy"`
	// Agents, GPUs and Tasks count those of the trace.
	Agents int     `json:"agents"`
	GPUs   int     `json:"gpus"`
	Tasks  int     `json:"tasks"`
	Seeds  []int64 `json:"seeds"`
	// Queue is how many tasks could wait.
	Queue int `json:"queue,omitempty"`
	// Allocation is the part of all GPUs in use, by the percentage of GPUs requested so far.
	Allocation map[string]MeanSD `json:"allocation"`
	// Bound is an upper bound for all placements of the same tasks: see ClusterTrace.AllocationBounds. It is missing with a
	// queue.
	Bound map[string]MeanSD `json:"bound,omitempty"`
	// Unplaced counts the tasks that found no place.
	Unplaced MeanSD `json:"unplaced"`
	// Fragmentation is the part of all GPUs that is idle at the end and unusable for a typical task.
	Fragmentation MeanSD `json:"fragmentation"`
	// Types is the part of each model's GPUs in use at the end.
	Types map[string]MeanSD `json:"types"`
	// Decisions counts the tasks that arrived with all seeds.
	Decisions int `json:"decisions"`
	// DecisionsPerSecond is for one thread and includes building the clusters.
	DecisionsPerSecond float64 `json:"decisions_per_second"`
}

// AllocationAt returns the allocation at a percentage of arrival, false if no arrival rounds to it.
func (r *PolicyResult) AllocationAt(arrival int) (MeanSD, bool) {
	c, ok := r.Allocation[strconv.Itoa(arrival)]
	return c, ok
}

// summarizeRuns summarizes at least one run of a policy.
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

// meanByArrival returns the means over seeds by percent of arrival.
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

// newMeanSD returns the mean of at least one number. For equal numbers it is exact, without the error of a sum.
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
