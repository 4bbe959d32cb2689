package fit

import (
	"cmp"
	"math"
	"slices"

	"mesos-gpu/internal/simplex"
)

// remainderWorth is the value of free thousandths of a GPU for the typical tasks of one GPU or a part of it.
//
// A linear program packs these tasks into as few GPUs as possible: its variables are sets of tasks that fit one GPU together, in
// fractions. Its dual prices are how much of a GPU a task of each size costs in the best packing (P. C. Gilmore and R. E. Gomory,
// "A Linear Programming Approach to the Cutting-Stock Problem", Operations Research 9, 1961). A remainder is worth the prices of
// the best set of tasks that fits it, and an idle GPU 1. If two thirds of a GPU are worth half of one, for example, tasks of one
// third belong elsewhere.
type remainderWorth struct {
	// sizes contains the sizes of the tasks, ascending.
	sizes []taskSize
	// gpus is the worth of 0 to 1000 thousandths, in GPUs.
	gpus [wholeDevice + 1]float64
}

// taskSize is how many thousandths of a GPU some typical tasks take, and how often they arrive: in thousandths of all tasks of
// one GPU or a part of it, so that the sizes remain equal while few tasks come and go.
type taskSize struct{ milli, perMille int }

// Parameters of the linear program.
const (
	// packedGain is the gain of a packed task, in GPUs. It exceeds the largest task, so that all tasks are packed.
	packedGain = 2
	// maxTaskSizes and maxPatterns, the number of sets of tasks that are generated, bound the time to a few milliseconds. Beyond
	// them the prices are less exact.
	maxTaskSizes = 32
	maxPatterns  = 128
)

// newRemainderWorth solves the linear program by column generation. There must be at least one size, from 1 to 1000 thousandths.
func newRemainderWorth(sizes []taskSize) *remainderWorth {
	w, limits := &remainderWorth{sizes: sizes}, make([]float64, len(sizes))
	for i := range sizes {
		limits[i] = float64(sizes[i].perMille)
	}
	program := simplex.NewProgram(limits)
	for i := range sizes {
		program.Columns = append(program.Columns, patternColumn(slices.Repeat([]int{i}, wholeDevice/sizes[i].milli)))
	}
	for range maxPatterns {
		pattern := w.fillGPU(program.Solve())
		if w.gpus[wholeDevice] <= 1+simplex.MinGain {
			break
		}
		program.Columns = append(program.Columns, patternColumn(pattern))
	}
	for n, whole := 0, w.gpus[wholeDevice]; n <= wholeDevice; n++ {
		w.gpus[n] /= whole
	}
	return w
}

// patternColumn returns a set of tasks that fit one GPU, by the numbers of their sizes, as a column.
func patternColumn(pattern []int) simplex.Column {
	c := simplex.Column{Value: packedGain*float64(len(pattern)) - 1}
	for _, i := range pattern {
		c.Cells = append(c.Cells, simplex.Cell{Row: i, Take: 1})
	}
	return c
}

// fillGPU computes the worth of each remainder at the prices of the program's rows. It returns the set of tasks that is worth
// most for a whole GPU.
func (w *remainderWorth) fillGPU(prices []float64) (pattern []int) {
	var last [wholeDevice + 1]int // the size that was added last to the best set, -1 if none
	for n := range w.gpus {
		if last[n], w.gpus[n] = -1, 0; n > 0 {
			w.gpus[n] = w.gpus[n-1]
		}
		for i := range w.sizes {
			rest := n - w.sizes[i].milli
			if rest < 0 {
				break
			}
			if x := w.gpus[rest] + packedGain - prices[i]; x > w.gpus[n]+simplex.MinGain {
				w.gpus[n], last[n] = x, i
			}
		}
	}
	for n := wholeDevice; n > 0; {
		if last[n] < 0 {
			n--
			continue
		}
		pattern = append(pattern, last[n])
		n -= w.sizes[last[n]].milli
	}
	return pattern
}

// findRemainderWorth returns the worth of remainders for the typical tasks, nil if it does not matter: no typical task shares a
// GPU, or the CPUs that are free run out before the GPUs if typical tasks come in their usual mix. It is computed once for the
// same tasks.
func (f *fragmentationModel) findRemainderWorth(c *Cluster) *remainderWorth {
	sizes := f.taskSizes()
	if len(sizes) == 0 || sizes[0].milli == wholeDevice || f.exhaustCPUs(c) {
		return nil
	}
	return *c.index.remainders.Get(
		func(w **remainderWorth) bool { return slices.Equal((*w).sizes, sizes) },
		func() *remainderWorth { return newRemainderWorth(sizes) })
}

// taskSizes returns the most frequent sizes of the typical tasks of one GPU or a part of it.
func (f *fragmentationModel) taskSizes() (list []taskSize) {
	weights, all := map[int]float64{}, 0.0
	for i := range f.tasks {
		if t := &f.tasks[i]; t.gpus == 1 {
			weights[int(t.gpuMilliIf(f.sharedDeviceMiB))] += t.weight
			all += t.weight
		}
	}
	for milli, weight := range weights {
		list = append(list, taskSize{milli, max(int(math.Round(1000*weight/all)), 1)})
	}
	slices.SortFunc(list, func(a, b taskSize) int {
		return cmp.Or(cmp.Compare(b.perMille, a.perMille), cmp.Compare(a.milli, b.milli))
	})
	list = list[:min(len(list), maxTaskSizes)]
	slices.SortFunc(list, func(a, b taskSize) int { return cmp.Compare(a.milli, b.milli) })
	return list
}

// exhaustCPUs reports whether typical tasks in their usual mix take all free CPUs of the cluster before its free GPUs.
func (f *fragmentationModel) exhaustCPUs(c *Cluster) bool {
	freeCPUs, idleMilli := 0.0, 0.0
	for i := range c.capacities {
		r := &c.capacities[i]
		freeCPUs, idleMilli = freeCPUs+float64(r.free.cpus), idleMilli+float64(c.idleMilli(r))
	}
	var mix mixedNeeds
	for i := range f.tasks {
		mix.addTask(&f.tasks[i], f.sharedDeviceMiB)
	}
	return freeCPUs*mix.gpuMilli < idleMilli*mix.cpus
}

// remainderMilli returns how many thousandths of a slot a task could use if free were free of it.
func (c *Cluster) remainderMilli(r *agentCapacity, slot int, free shareAmount) int32 {
	if r.hardware.Divisible {
		return free.mem
	}
	all := c.sharesOf(r)[slot].total
	milli := milliRatio(free.mem, all.mem)
	if all.cores > 0 {
		milli = min(milli, milliRatio(free.cores, all.cores))
	}
	return min(max(milli, 0), wholeDevice)
}
