package replay

import (
	"math"
	"slices"
	"sort"
)

// SampleStats summarizes values.
type SampleStats struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// sampleSet keeps all values, in four bytes each, so that quantiles are exact. The mean has full precision.
type sampleSet struct {
	// list are all samples; sum is their sum. computeStats sorts the list.
	sum  float64
	list []float32
}

// addValue adds one value.
func (s *sampleSet) addValue(x float64) {
	s.sum += x
	s.list = append(s.list, float32(x))
}

// computeStats sorts the values and summarizes them. Without values all statistics are 0.
func (s *sampleSet) computeStats() SampleStats {
	n := len(s.list)
	if n == 0 {
		return SampleStats{}
	}
	slices.Sort(s.list)
	// nearest rank: the least value that p of all values do not exceed
	at := func(p float64) float64 { return float64(s.list[int(math.Ceil(p*float64(n)))-1]) }
	return SampleStats{Mean: s.sum / float64(n), P50: at(0.50), P99: at(0.99), Max: at(1)}
}

// countAbove returns the number of values above x. computeStats must have sorted them.
func (s *sampleSet) countAbove(x float64) int {
	return len(s.list) - sort.Search(len(s.list), func(i int) bool { return float64(s.list[i]) > x })
}

// mergeSamples adds the values of another set.
func (s *sampleSet) mergeSamples(o *sampleSet) {
	s.sum += o.sum
	s.list = append(s.list, o.list...)
}

// fragmentCounter counts the free GPUs of agents whose other GPUs are in use.
type fragmentCounter struct {
	total, used []int32 // by agent
	// broken is the sum of fragmentsOf of all agents.
	broken int
}

// initAgents starts with all GPUs free.
func (f *fragmentCounter) initAgents(m *virtualMaster) {
	f.total, f.used = make([]int32, len(m.agents)), make([]int32, len(m.agents))
	for i := range m.agents {
		f.total[i] = int32(m.agents[i].GPUs)
	}
}

// addUsed changes the number of GPUs in use of an agent; gpus may be negative.
func (f *fragmentCounter) addUsed(agent, gpus int) {
	f.broken -= f.fragmentsOf(agent)
	f.used[agent] += int32(gpus)
	f.broken += f.fragmentsOf(agent)
}

// fragmentsOf returns the free GPUs of an agent in use, 0 for an agent of which no GPU is in use.
func (f *fragmentCounter) fragmentsOf(agent int) int {
	if f.used[agent] == 0 {
		return 0
	}
	return int(f.total[agent] - f.used[agent])
}
