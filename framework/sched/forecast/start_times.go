// Package forecast estimates when waiting jobs start. It plays the queue forward many times: each time with other run
// times, drawn from those of similar jobs. It sees whole and shared GPUs, CPUs and memory by agent, and the reservations of
// backfill, and no jobs that are submitted later. Jobs that wait for anything else have no estimate.
// The package is pure: equal inputs give equal estimates.
package forecast

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"mesos-gpu/framework/sched/prediction"
	"mesos-gpu/job"
)

// The resources of an agent and a task, which are the indexes of Resources.
const (
	WholeGPUs = iota
	SharedGPUs
	CPUs
	Memory
	resourceCount
)

// Resources are amounts in thousandths: of GPUs that tasks take whole, of GPUs that tasks share, of CPUs, of MiB of memory.
type Resources [resourceCount]int64

// Agent is an agent that accepts tasks.
type Agent struct {
	// Host is the name by which users know the agent.
	Host string
	// Free is what no task holds.
	Free Resources
}

// OccupyingTask is a task that holds resources.
type OccupyingTask struct {
	// Agent is the index of its agent.
	Agent int
	Role  string
	Holds Resources
	// Milli are its GPUs as quotas count them, in thousandths. Ran is how long it has run.
	Milli int
	Ran   time.Duration
	// RunTime is its expected run time. Endless tasks have none: they never free their resources.
	RunTime prediction.Prediction
	Endless bool
	// EndsIn is when it ends, if it was asked to end; 0 if it was not.
	EndsIn time.Duration
}

// WaitingJob is a job with tasks that wait for resources.
type WaitingJob struct {
	Run  job.RunID
	Role string
	// Tasks is the number of tasks that wait, and Needs what each needs. Gang tasks start together.
	Tasks int
	Needs Resources
	Gang  bool
	// Milli are the GPUs of one task as quotas count them, in thousandths.
	Milli int
	// Accepts reports for each agent whether a task fits there if nothing else runs. DemandKey is equal for jobs that need
	// and accept the same.
	Accepts   []bool
	DemandKey string
	// PerAgent limits the tasks of a gang on one agent; 0 is no limit.
	PerAgent int
	RunTime  prediction.Prediction
	// Announced is the run time by which the scheduler decides whether the job delays earlier ones; 0 if it is not known.
	Announced time.Duration
	// Endless tasks never free their resources.
	Endless bool
	// HasPlace means that the job finds a place now, at its turn. IsHeldBack means that free resources are reserved for an
	// earlier job. Without a place it starts later.
	HasPlace, IsHeldBack bool
	// NeedsMore means that the tasks need more than Resources has, such as a certain port: the job has an estimate only if it
	// starts now.
	NeedsMore bool
	// StartsBy is when the job starts at the latest according to its reservation, from now on; 0 without one.
	StartsBy time.Duration
}

// Input is the cluster and its queue.
type Input struct {
	Agents  []Agent
	Running []OccupyingTask
	// Waiting are the waiting jobs, in placement order.
	Waiting []WaitingJob
	// RoleRoom is how much more the tasks of a role may hold, in thousandths of a GPU. A role without entry is not limited.
	RoleRoom map[string]int
	// StrictRoles start no job before an earlier one that waits.
	StrictRoles map[string]bool
	// Calibration is from earlier estimates.
	Calibration Calibration
}

// Start is how long a job waits until its first task starts, from now on.
type Start struct {
	// Expected is the median.
	Expected time.Duration
	// With a probability of 50 % the wait is between Low50 and High50, with one of 90 % between Low90 and High90.
	Low50, High50, Low90, High90 time.Duration
	// Agents are the hosts on which its first tasks start, sorted; empty if that depends on which tasks end first.
	Agents []string
}

const (
	// sampleCount is how often the queue is played forward, fewSamples how often a long one on many agents is: more than
	// maxEffort jobs times agents.
	sampleCount, fewSamples, maxEffort = 20, 5, 200_000
	// maxEnds limits the ends of tasks of one sample, maxWaiting the jobs that are played.
	maxEnds, maxWaiting = 20_000, 2_000
)

// Starts returns the estimates by job. Jobs that start in less than three quarters of the samples have none: no end of
// a task makes room for them, they wait for something that the model does not know, or they are too far back in the queue.
func (in *Input) Starts() map[job.RunID]Start {
	rnd := rand.New(rand.NewPCG(1, 2))
	jobs := in.Waiting[:min(len(in.Waiting), maxWaiting)]
	waits, places := make([][]time.Duration, len(jobs)), make([][][]int, len(jobs))
	samples := sampleCount
	if len(jobs)*len(in.Agents) > maxEffort {
		samples = fewSamples
	}
	for range samples {
		p := newPlayback(in, jobs, rnd)
		p.play()
		for i, at := range p.starts {
			if at >= 0 {
				waits[i], places[i] = append(waits[i], at), append(places[i], p.places[i])
			}
		}
	}
	all, ratios := make(map[job.RunID]Start, len(jobs)), in.Calibration.sortedRatios()
	for i, list := range waits {
		if 4*len(list) < 3*samples {
			continue
		}
		slices.Sort(list)
		expected := list[len(list)/2].Round(time.Second)
		if by := jobs[i].StartsBy.Round(time.Second); by > 0 {
			expected = min(expected, by)
		}
		s := boundStart(expected, ratios)
		s.Agents = in.commonHosts(places[i])
		all[jobs[i].Run] = s
	}
	return all
}

// commonHosts returns the hosts of the places that at least half of the samples have in common.
func (in *Input) commonHosts(samples [][]int) []string {
	for _, places := range samples[:(len(samples)+1)/2] {
		n := 0
		for _, other := range samples {
			if slices.Equal(places, other) {
				n++
			}
		}
		if 2*n < len(samples) {
			continue
		}
		var hosts []string
		for _, agent := range places {
			hosts = append(hosts, in.Agents[agent].Host)
		}
		slices.Sort(hosts)
		return slices.Compact(hosts)
	}
	return nil
}

// playback plays the queue forward once.
type playback struct {
	in   *Input
	jobs []WaitingJob
	rnd  *rand.Rand
	free []Resources
	// room is the remaining part of RoleRoom.
	room map[string]int
	ends endHeap
	// kinds are the jobs that wait, by what they need.
	kinds []*jobKind
	// heads are the first jobs of their roles that wait, which are found again at each instant. lastHeads are those for which
	// resources were reserved last, whose reservations stay valid until they start.
	heads, lastHeads map[string]*head
	// starts are the waits of the jobs; below 0 for those that have not started. places are the agents of their first tasks.
	starts []time.Duration
	places [][]int
	// started counts the tasks that were started.
	started int
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
	// failed is set for the rest of an instant once a job found no place.
	failed bool
}

// head is the first waiting job of a role, for which resources are reserved.
type head struct {
	kind *jobKind
	// job is its index, tasks the number of its tasks that wait.
	job, tasks int
	// isFound is set once the fields below are known, which is when a later job could start.
	isFound bool
	// startsAt is when its tasks fit. lastStarted is the number of the last task that had been started.
	startsAt    time.Duration
	lastStarted int
	// needs is what it needs of each agent, and ending what ends there until then, by agent; nil if the tasks never fit.
	needs, ending map[int]Resources
}

// reservedOn returns what is reserved for a head on an agent: what it needs beyond what ends until it starts.
func (h *head) reservedOn(agent int) Resources {
	r := h.needs[agent].plus(h.ending[agent], -1)
	for i := range r {
		r[i] = max(r[i], 0)
	}
	return r
}

func newPlayback(in *Input, jobs []WaitingJob, rnd *rand.Rand) *playback {
	p := &playback{
		in:        in,
		jobs:      jobs,
		rnd:       rnd,
		room:      map[string]int{},
		lastHeads: map[string]*head{},
		free:      make([]Resources, len(in.Agents)),
		starts:    make([]time.Duration, len(jobs)),
		places:    make([][]int, len(jobs)),
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
			p.ends = append(p.ends, &taskEnd{left, t.Agent, t.Holds, t.Milli, t.Role, 0})
		}
	}
	heap.Init(&p.ends)
	type kindKey struct {
		role, demand string
		tasks        int
		gang, held   bool
	}
	byKey := map[kindKey]*jobKind{}
	for i := range jobs {
		j := &jobs[i]
		p.starts[i], p.tasksLeft[i] = -1, j.Tasks
		key := kindKey{j.Role, j.DemandKey, 1, false, j.IsHeldBack}
		if j.Gang {
			key.tasks, key.gang = j.Tasks, true
		}
		k := byKey[key]
		if k == nil {
			k = &jobKind{WaitingJob: *j}
			for a := range in.Agents {
				k.slots += k.slotsOn(a, p.free[a])
			}
			byKey[key] = k
			p.kinds = append(p.kinds, k)
		}
		k.jobs = append(k.jobs, i)
	}
	return p
}

// slotsOn returns how many tasks fit on an agent with some free resources.
func (k *jobKind) slotsOn(agent int, free Resources) int {
	if !k.Accepts[agent] {
		return 0
	}
	slots := int64(math.MaxInt32)
	switch {
	case k.PerAgent > 0:
		slots = int64(k.PerAgent)
	case k.Gang:
		slots = int64(k.Tasks)
	}
	for r, need := range k.Needs {
		if need > 0 {
			slots = min(slots, max(free[r], 0)/need)
		}
	}
	return int(slots)
}

func (r Resources) plus(o Resources, sign int64) Resources {
	for i := range r {
		r[i] += sign * o[i]
	}
	return r
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
			e := heap.Pop(&p.ends).(*taskEnd)
			p.changeFree(e.agent, p.free[e.agent].plus(e.holds, 1))
			for _, h := range p.lastHeads {
				if _, counts := h.ending[e.agent]; counts && e.at <= h.startsAt && e.number <= h.lastStarted {
					h.ending[e.agent] = h.ending[e.agent].plus(e.holds, -1)
				}
			}
			if _, limited := p.room[e.role]; limited {
				p.room[e.role] += e.milli
			}
		}
		p.startJobs(now)
	}
}

func (p *playback) changeFree(agent int, free Resources) {
	for _, k := range p.kinds {
		k.slots += k.slotsOn(agent, free) - k.slotsOn(agent, p.free[agent])
	}
	p.free[agent] = free
}

// startJobs starts what fits at an instant, in placement order.
func (p *playback) startJobs(now time.Duration) {
	p.heads = map[string]*head{}
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
		if len(next.jobs) == 0 {
			next.failed = true
		}
	}
	p.kinds = slices.DeleteFunc(p.kinds, func(k *jobKind) bool { return len(k.jobs) == 0 })
}

// startJob starts the first job of a kind, or as many of its tasks as fit. A job that would start now although it has no
// place lacks what the model does not know: it leaves the queue without a start.
func (p *playback) startJob(now time.Duration, k *jobKind) {
	at := k.jobs[0]
	j := &p.jobs[at]
	if now == 0 && j.IsHeldBack || now > 0 && j.NeedsMore {
		p.blockKind(now, k)
		return
	}
	n := min(p.tasksLeft[at], k.slots)
	if n == 0 || k.Gang && n < p.tasksLeft[at] {
		p.blockKind(now, k)
		return
	}
	if room, limited := p.room[k.Role]; limited && k.Milli > 0 {
		n = min(n, max(room, 0)/k.Milli)
	}
	if n == 0 || k.Gang && n < p.tasksLeft[at] {
		k.failed = true // nothing is reserved for a job at its quota
		return
	}
	if now == 0 && !j.HasPlace {
		k.jobs = k.jobs[1:]
		return
	}
	h, isStopped := p.headBefore(now, j)
	if isStopped {
		k.failed = true
		return
	}
	places := p.placeTasks(k, n, h)
	if len(places) == 0 || k.Gang && len(places) < n {
		p.blockKind(now, k)
		return
	}
	if p.starts[at] < 0 {
		p.starts[at], p.places[at] = now, slices.Sorted(slices.Values(places))
	}
	for _, agent := range places {
		p.startTask(now, k, j, agent)
	}
	if p.tasksLeft[at] -= len(places); p.tasksLeft[at] > 0 {
		p.blockKind(now, k)
		return
	}
	k.jobs = k.jobs[1:]
}

// blockKind lets no more jobs of the kind start at this instant. The first job of its role that waits is the head: later ones
// must not delay it.
func (p *playback) blockKind(now time.Duration, k *jobKind) {
	k.failed = true
	at := k.jobs[0]
	if p.heads[k.Role] != nil || p.jobs[at].NeedsMore {
		return
	}
	h := p.lastHeads[k.Role]
	if h == nil || h.job != at || h.tasks != p.tasksLeft[at] || now >= h.startsAt {
		h = &head{kind: k, job: at, tasks: p.tasksLeft[at]}
	}
	p.heads[k.Role] = h
}

// headBefore returns the head of the job's role, for which the job must leave what is reserved, nil if it need not. isStopped
// means that it may not start before the head at all.
func (p *playback) headBefore(now time.Duration, j *WaitingJob) (h *head, isStopped bool) {
	h = p.heads[j.Role]
	switch {
	case h == nil:
		return nil, false
	case p.in.StrictRoles[j.Role]:
		return nil, true
	case !h.isFound:
		p.findReservation(now, h)
	}
	if j.Announced > 0 && now+j.Announced <= h.startsAt {
		return nil, false
	}
	return h, false
}

// findReservation finds when all tasks of a head fit, and what they need of the agents besides what ends until then.
func (p *playback) findReservation(now time.Duration, h *head) {
	k, n := h.kind, h.tasks
	p.lastHeads[k.Role] = h
	h.isFound, h.startsAt, h.lastStarted = true, now, p.started
	ends, free, ending, slots := slices.Clone(p.ends), slices.Clone(p.free), map[int]Resources{}, k.slots
	for slots < n {
		if len(ends) == 0 {
			return
		}
		if e := heap.Pop(&ends).(*taskEnd); k.Accepts[e.agent] {
			with := free[e.agent].plus(e.holds, 1)
			slots += k.slotsOn(e.agent, with) - k.slotsOn(e.agent, free[e.agent])
			free[e.agent], ending[e.agent], h.startsAt = with, ending[e.agent].plus(e.holds, 1), e.at
		}
	}
	h.needs, h.ending = map[int]Resources{}, ending
	for range n {
		agent := fullestAgent(k, free, h.needs)
		if agent < 0 {
			break
		}
		free[agent] = free[agent].plus(k.Needs, -1)
		h.needs[agent] = h.needs[agent].plus(k.Needs, 1)
	}
}

// fullestAgent returns the agent with the least free GPUs on which a task fits, -1 if none. given is what the job already has
// of each agent.
func fullestAgent(k *jobKind, free []Resources, given map[int]Resources) int {
	best := -1
	for a := range free {
		if !k.Accepts[a] || k.slotsOn(a, free[a]) == 0 || k.PerAgent > 0 && countTasks(k, given[a]) >= k.PerAgent {
			continue
		}
		if best < 0 || free[a].gpus() < free[best].gpus() {
			best = a
		}
	}
	return best
}

func (r Resources) gpus() int64 { return r[WholeGPUs] + r[SharedGPUs] }

// countTasks returns how many tasks of a kind need an amount.
func countTasks(k *jobKind, given Resources) int {
	for r, need := range k.Needs {
		if need > 0 {
			return int(given[r] / need)
		}
	}
	return 0
}

// placeTasks returns the agents of up to n tasks, one entry a task, that leave what is reserved for a head, which may be nil.
func (p *playback) placeTasks(k *jobKind, n int, h *head) (places []int) {
	slots, changed := k.slots, map[int]Resources{}
	if h != nil {
		for agent := range h.needs {
			free := p.free[agent]
			left := free.plus(h.reservedOn(agent), -1)
			slots -= k.slotsOn(agent, free) - k.slotsOn(agent, left)
			p.free[agent], changed[agent] = left, free
		}
	}
	given := map[int]Resources{}
	for len(places) < n && slots > 0 {
		agent := fullestAgent(k, p.free, given)
		if agent < 0 {
			break
		}
		if _, known := changed[agent]; !known {
			changed[agent] = p.free[agent]
		}
		places = append(places, agent)
		p.free[agent], given[agent] = p.free[agent].plus(k.Needs, -1), given[agent].plus(k.Needs, 1)
	}
	for agent, free := range changed {
		p.free[agent] = free
	}
	return places
}

// startTask starts one task on an agent.
func (p *playback) startTask(now time.Duration, k *jobKind, j *WaitingJob, agent int) {
	p.changeFree(agent, p.free[agent].plus(k.Needs, -1))
	if _, limited := p.room[k.Role]; limited {
		p.room[k.Role] -= k.Milli
	}
	if !j.Endless {
		p.started++
		heap.Push(&p.ends, &taskEnd{now + drawTotal(p.rnd, &j.RunTime, 0), agent, k.Needs, k.Milli, k.Role, p.started})
	}
}

// taskEnd is the end of a task, and what it frees.
type taskEnd struct {
	at    time.Duration
	agent int
	holds Resources
	milli int
	role  string
	// number counts the tasks that the playback has started; 0 for those that ran before.
	number int
}

// endHeap has the next end first.
type endHeap []*taskEnd

func (h endHeap) Len() int           { return len(h) }
func (h endHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h endHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *endHeap) Push(x any)        { *h = append(*h, x.(*taskEnd)) }
func (h *endHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
