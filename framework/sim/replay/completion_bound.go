package replay

import (
	"container/heap"
	"iter"
	"time"
)

// CompletionBound returns a mean completion time, in seconds, that no schedule of the records on so many GPUs can beat. It
// is the greater of two bounds:
//
//   - Each job takes at least as long as it runs.
//   - The GPUs are one machine that does as much work a second as all of them together, can give all of it to any job,
//     and switches between jobs at no cost. On one machine the shortest remaining work first is optimal (L. Schrage, "A
//     proof of the optimality of the shortest remaining processing time discipline", 1968), and the machine can do
//     whatever so many GPUs do.
//
// The bound ignores agents, gangs, that a job uses only the GPUs that it requested, and that a preempted task starts over.
func CompletionBound(works iter.Seq[JobRecord], gpus int) float64 {
	var m srptHeap
	now, sum, runs, n := time.Duration(0), 0.0, 0.0, 0
	rate := float64(gpus)
	work := func(until float64) {
		for len(m) > 0 {
			top := &m[0]
			end := top.at + top.left/rate
			if end > until {
				top.left -= (until - top.at) * rate
				break
			}
			sum += end - top.arrives
			heap.Pop(&m)
			if len(m) > 0 {
				m[0].at = end
			}
		}
	}
	for w := range works {
		now = w.ArrivesAt
		at := now.Seconds()
		work(at)
		area := 0.0
		for i := range w.Spec.Tasks {
			area += w.RunTimes.forTask(i).Seconds() * float64(w.Spec.Request.GPUs)
		}
		heap.Push(&m, remainingJob{left: area, arrives: at})
		m[0].at = at
		runs += w.RunTimes.longest().Seconds()
		n++
	}
	work(1e300)
	if n == 0 {
		return 0
	}
	return max(sum, runs) / float64(n)
}

// remainingJob is the remaining work of a job, in GPU seconds, and since when the machine has worked on it.
type remainingJob struct{ left, arrives, at float64 }

// srptHeap implements heap.Interface: the job with the least remaining work is first. Only the first has a valid at.
type srptHeap []remainingJob

func (h srptHeap) Len() int           { return len(h) }
func (h srptHeap) Less(i, j int) bool { return h[i].left < h[j].left }
func (h srptHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *srptHeap) Push(x any)        { *h = append(*h, x.(remainingJob)) }
func (h *srptHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
