// Package forecast estimates when waiting jobs start. It plays the queue forward many times: each time with other run
// times, drawn from those of similar jobs. It sees GPUs only, by type and agent, and no jobs that are submitted later.
// The package is pure: equal inputs give equal estimates.
package forecast

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"mesos-gpu/framework/sched/prediction"
)

// Agent is an agent with GPUs of one type.
type Agent struct {
	ID, GPUType string
	// Free is the free part of its GPUs, in thousandths of a GPU.
	Free int
	// HasShared means that tasks can share GPUs of the agent.
	HasShared bool
}

// OccupyingTask is a task that holds GPUs.
type OccupyingTask struct {
	// Agent is the index of its agent.
	Agent int
	Role  string
	// Milli are its GPUs, in thousandths. Ran is how long it has run.
	Milli int
	Ran   time.Duration
	// RunTime is its expected run time. Endless tasks have none: they never free their GPUs.
	RunTime prediction.Prediction
	Endless bool
	// EndsIn is when it ends, if it was asked to end; 0 if it was not.
	EndsIn time.Duration
}

// WaitingJob is a job with tasks that wait for GPUs.
type WaitingJob struct {
	Name, Role string
	// Tasks is the number of tasks that wait, and Milli what each needs, in thousandths of a GPU. Gang tasks start
	// together.
	Tasks, Milli int
	Gang         bool
	// AcceptsType reports whether GPUs of a type are acceptable. TypesKey is equal for jobs that accept the same types.
	AcceptsType func(gpuType string) bool
	TypesKey    string
	// NeedsShared means that the tasks take parts of shared GPUs.
	NeedsShared bool
	RunTime     prediction.Prediction
	// Endless tasks never free their GPUs.
	Endless bool
}

// Input is the cluster and its queue.
type Input struct {
	Agents  []Agent
	Running []OccupyingTask
	// Waiting are the waiting jobs, in placement order.
	Waiting []WaitingJob
	// RoleRoom is how much more the tasks of a role may hold, in thousandths of a GPU. A role without entry is not limited.
	RoleRoom map[string]int
	// Calibration is from earlier estimates.
	Calibration Calibration
}

// Start is how long a job waits until its first task starts, from now on.
type Start struct {
	// Expected is the median.
	Expected time.Duration
	// With a probability of 50 % the wait is between Low50 and High50, with one of 90 % between Low90 and High90.
	Low50, High50, Low90, High90 time.Duration
}

const (
	// sampleCount is how often the queue is played forward.
	sampleCount = 20
	// maxEnds limits the ends of tasks of one sample, maxWaiting the jobs that are played.
	maxEnds, maxWaiting = 20_000, 2_000
)

// Starts returns the estimates by job. Jobs that start in fewer than three quarters of the samples have none: no end of
// a task makes room for them, or they are too far back in the queue.
func (in *Input) Starts() map[string]Start {
	rnd := rand.New(rand.NewPCG(1, 2))
	jobs := in.Waiting[:min(len(in.Waiting), maxWaiting)]
	waits := make([][]time.Duration, len(jobs))
	for range sampleCount {
		p := newPlayback(in, jobs, rnd)
		p.play()
		for i, at := range p.starts {
			if at >= 0 {
				waits[i] = append(waits[i], at)
			}
		}
	}
	all, ratios := make(map[string]Start, len(jobs)), in.Calibration.sortedRatios()
	for i, list := range waits {
		if len(list) < sampleCount*3/4 {
			continue
		}
		slices.Sort(list)
		all[jobs[i].Name] = boundStart(list[len(list)/2].Round(time.Second), ratios)
	}
	return all
}

// playback plays the queue forward once.
type playback struct {
	in   *Input
	jobs []WaitingJob
	rnd  *rand.Rand
	free []int
	// room is the remaining part of RoleRoom.
	room map[string]int
	ends endHeap
	// kinds are the jobs that wait, by what they need.
	kinds []*jobKind
	// starts are the waits of the jobs; below 0 for those that have not started.
	starts []time.Duration
	// tasksLeft counts the tasks of each job that wait.
	tasksLeft []int
}

// jobKind is the jobs of a role that need the same.
type jobKind struct {
	WaitingJob
	// jobs are indexes of jobs, in placement order.
	jobs []int
	// slots counts the tasks that fit on the agents now.
	slots int
	// accepted reports for each agent whether its GPUs are acceptable.
	accepted []bool
	// failed is set for the rest of an instant once a job found no place.
	failed bool
}

func newPlayback(in *Input, jobs []WaitingJob, rnd *rand.Rand) *playback {
	p := &playback{
		in:        in,
		jobs:      jobs,
		rnd:       rnd,
		room:      map[string]int{},
		free:      make([]int, len(in.Agents)),
		starts:    make([]time.Duration, len(jobs)),
		tasksLeft: make([]int, len(jobs)),
	}
	for i := range in.Agents {
		p.free[i] = in.Agents[i].Free
	}
	for role, milli := range in.RoleRoom {
		p.room[role] = milli
	}
	for i := range in.Running {
		if t := &in.Running[i]; !t.Endless {
			left := t.EndsIn
			if left == 0 {
				left = max(drawTotal(rnd, &t.RunTime, t.Ran)-t.Ran, time.Second)
			}
			p.ends = append(p.ends, taskEnd{left, t.Agent, t.Milli, t.Role})
		}
	}
	heap.Init(&p.ends)
	type kindKey struct {
		role, types  string
		milli, tasks int
		gang, shared bool
	}
	byKey := map[kindKey]*jobKind{}
	for i := range jobs {
		j := &jobs[i]
		p.starts[i], p.tasksLeft[i] = -1, j.Tasks
		key := kindKey{j.Role, j.TypesKey, j.Milli, 1, false, j.NeedsShared}
		if j.Gang {
			key.tasks, key.gang = j.Tasks, true
		}
		k := byKey[key]
		if k == nil {
			k = &jobKind{WaitingJob: *j, accepted: make([]bool, len(in.Agents))}
			for a := range in.Agents {
				k.accepted[a] = j.AcceptsType(in.Agents[a].GPUType) && (in.Agents[a].HasShared || !j.NeedsShared)
				k.slots += k.slotsOn(a, p.free[a])
			}
			byKey[key] = k
			p.kinds = append(p.kinds, k)
		}
		k.jobs = append(k.jobs, i)
	}
	return p
}

func (k *jobKind) slotsOn(agent, free int) int {
	if !k.accepted[agent] || free <= 0 {
		return 0
	}
	return free / k.Milli
}

// drawTotal draws a run time that is longer than the time that a task has run: one of similar tasks, or, if none of them
// ran for so long, one from the distribution in which a task that has run for a time runs twice as long with probability
// one half.
func drawTotal(rnd *rand.Rand, p *prediction.Prediction, ran time.Duration) time.Duration {
	longer := p.Longer(ran)
	if len(longer) == 0 {
		return time.Duration(float64(max(ran, time.Minute)) / (0.1 + 0.9*rnd.Float64()))
	}
	return longer[int(rnd.Float64()*float64(len(longer)))]
}

// play starts jobs until none waits, or nothing changes any more.
func (p *playback) play() {
	now := time.Duration(0)
	p.startJobs(now)
	for range maxEnds {
		if len(p.ends) == 0 || len(p.kinds) == 0 {
			return
		}
		now = p.ends[0].at
		for len(p.ends) > 0 && p.ends[0].at <= now {
			e := heap.Pop(&p.ends).(taskEnd)
			p.changeFree(e.agent, e.milli)
			if _, limited := p.room[e.role]; limited {
				p.room[e.role] += e.milli
			}
		}
		p.startJobs(now)
	}
}

func (p *playback) changeFree(agent, milli int) {
	for _, k := range p.kinds {
		k.slots -= k.slotsOn(agent, p.free[agent])
		k.slots += k.slotsOn(agent, p.free[agent]+milli)
	}
	p.free[agent] += milli
}

// startJobs starts what fits at an instant, in placement order.
func (p *playback) startJobs(now time.Duration) {
	for _, k := range p.kinds {
		k.failed = false
	}
	for {
		var next *jobKind
		for _, k := range p.kinds {
			if !k.failed && (next == nil || k.jobs[0] < next.jobs[0]) {
				next = k
			}
		}
		if next == nil {
			break
		}
		p.startJob(now, next)
	}
	p.kinds = slices.DeleteFunc(p.kinds, func(k *jobKind) bool { return len(k.jobs) == 0 })
}

// startJob starts the first job of a kind, or as many of its tasks as fit.
func (p *playback) startJob(now time.Duration, k *jobKind) {
	at := k.jobs[0]
	n := min(p.tasksLeft[at], k.slots)
	if room, limited := p.room[k.Role]; limited {
		n = min(n, max(room, 0)/k.Milli)
	}
	if n == 0 || k.Gang && n < p.tasksLeft[at] {
		k.failed = true
		return
	}
	if p.starts[at] < 0 {
		p.starts[at] = now
	}
	j := &p.jobs[at]
	for range n {
		p.startTask(now, k, j)
	}
	if p.tasksLeft[at] -= n; p.tasksLeft[at] > 0 {
		k.failed = true
		return
	}
	if k.jobs = k.jobs[1:]; len(k.jobs) == 0 {
		k.failed = true
	}
}

// startTask places one task on the acceptable agent with the least free GPUs.
func (p *playback) startTask(now time.Duration, k *jobKind, j *WaitingJob) {
	best := -1
	for a, free := range p.free {
		if free >= k.Milli && k.accepted[a] && (best < 0 || free < p.free[best]) {
			best = a
		}
	}
	p.changeFree(best, -k.Milli)
	if _, limited := p.room[k.Role]; limited {
		p.room[k.Role] -= k.Milli
	}
	if !j.Endless {
		heap.Push(&p.ends, taskEnd{now + drawTotal(p.rnd, &j.RunTime, 0), best, k.Milli, k.Role})
	}
}

// taskEnd is the end of a task, and what it frees.
type taskEnd struct {
	at           time.Duration
	agent, milli int
	role         string
}

// endHeap has the next end first.
type endHeap []taskEnd

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h endHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endHeap) Push(x any)        { *h = append(*h, x.(taskEnd)) }
func (h *endHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
