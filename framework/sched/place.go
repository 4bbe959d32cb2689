// Package sched decides which task runs on which agent and with which
// devices, and what to say to Mesos after each event. It is a pure function
// of what it is told: it performs no I/O, reads no clock and writes no log.
package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Job is a job with tasks that wait for a place.
type Job struct {
	Spec *job.Spec
	// Tasks are those that wait, in index order.
	Tasks []Waiting
}

// Waiting is one task that wants a place.
type Waiting struct {
	ID    string
	Index int
}

// Plan answers every offer once and every waiting task.
type Plan struct {
	// Accept has one entry an agent that gets tasks, by agent id.
	Accept []Accept
	// Decline has the other offers, by offer id.
	Decline []Declined
	// Unplaced says why each job that still waits does, in queue order.
	Unplaced []Reason
}

// Launch is one task to start.
type Launch struct {
	TaskID string
	Index  int
	// Spec is shared with the queue: nobody changes it.
	Spec *job.Spec
	// DeviceIDs are the GPUs it gets, where the agent names devices.
	DeviceIDs []string
	// Overhead is for its executor.
	Overhead Amount
	// Ports are the host ports it gets, Env what it is told beside its Spec's
	// variables: its rank and peers, its ports.
	Ports []int
	Env   map[string]string
}

// Declined is an offer nobody wants now.
type Declined struct {
	OfferID string
	Reason  string
	Refuse  time.Duration
}

// Place answers every offer exactly once. It does not modify its arguments;
// equal inputs give equal plans in any offer order.
func Place(offers []Offer, queue []Job, p Policy) Plan {
	plan, _ := place(offers, queue, p)
	return plan
}

// place also returns the agents with what is left on them.
func place(offers []Offer, queue []Job, p Policy) (Plan, []*agent) {
	agents := join(offers)
	full := map[string]shortage{}
	var plan Plan
	var short []*order
	for i := range queue {
		o := newOrder(&queue[i], p)
		key := o.key()
		why, tried := full[key]
		missing := len(queue[i].Tasks)
		if !tried { // what did not fit a moment ago does not fit now
			missing = o.fill(agents, p)
		}
		if missing == 0 {
			continue
		}
		if !tried {
			why = o.explain(agents)
			full[key] = why
			short = append(short, o)
		}
		plan.Unplaced = append(plan.Unplaced, Reason{Job: o.spec.Name, Missing: missing, Tasks: o.spec.Tasks, Lack: why.lack, Seen: why.seen})
	}
	for _, a := range agents {
		plan.answer(a, short, p)
	}
	slices.SortFunc(plan.Decline, func(x, y Declined) int { return cmp.Compare(x.OfferID, y.OfferID) })
	return plan, agents
}

// answer accepts all offers of an agent that got tasks, and declines those of
// another.
func (plan *Plan) answer(a *agent, short []*order, p Policy) {
	if len(a.launches) > 0 {
		plan.Accept = append(plan.Accept, Accept{
			AgentID: a.id, Hostname: a.hostname, AgentURL: a.url,
			OfferIDs: a.offers, Launches: a.launches, Refuse: p.RefuseSoon,
		})
		return
	}
	reason, refuse := "no task waits for "+a.describe(), p.RefuseLong
	if len(short) == 0 {
		reason = "no task waits"
	}
	for _, o := range short {
		if o.wish.n == 0 || o.wish.kind(a) {
			reason, refuse = o.refusal(a), p.RefuseSoon
			break
		}
	}
	for _, id := range a.offers {
		plan.Decline = append(plan.Decline, Declined{OfferID: id, Reason: reason, Refuse: refuse})
	}
}

func (a *agent) describe() string {
	var types []string
	for _, m := range a.models() {
		if t := gpu.TypeOf(m); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	switch {
	case len(types) > 0:
		return strings.Join(types, " or ")
	case a.hasGPUs():
		return "GPUs of no known type"
	default:
		return "an agent without GPUs"
	}
}

// order is a job's tasks and what each of them needs.
type order struct {
	spec  *job.Spec
	tasks []Waiting
	wish  *wish
	need  amount // the executor's part included
	extra Amount // the executor's part
}

func newOrder(j *Job, p Policy) *order {
	s := j.Spec
	need := Amount{CPUs: s.CPUs, MemMiB: s.MemMiB, DiskMiB: s.DiskMiB}.milli().plus(p.Overhead.milli())
	return &order{spec: s, tasks: j.Tasks, wish: newWish(s.Request), need: need, extra: p.Overhead}
}

// key tells orders apart that could find a place differently.
func (o *order) key() string {
	return fmt.Sprintf("%d %q %q %v", o.wish.n, o.wish.types.Include, o.wish.types.Exclude, o.need)
}

// fill gives the order's tasks to the agents in order of preference and
// returns how many found no place.
func (o *order) fill(agents []*agent, p Policy) (missing int) {
	var fit []*agent
	for _, a := range agents {
		if o.fits(a) > 0 {
			fit = append(fit, a)
		}
	}
	slices.SortFunc(fit, func(a, b *agent) int { return p.compare(o.wish.n > 0, a, b) })
	tasks := o.tasks
	for _, a := range fit {
		n := min(o.fits(a), len(tasks))
		for _, t := range tasks[:n] {
			o.take(a, t)
		}
		if tasks = tasks[n:]; len(tasks) == 0 {
			return 0
		}
	}
	return len(tasks)
}

// fits says how many of the tasks the agent holds.
func (o *order) fits(a *agent) int {
	n := len(o.tasks)
	if o.wish.n > 0 {
		n = min(n, o.wish.free(a)/o.wish.n)
	}
	if n == 0 {
		return 0
	}
	return a.free.times(o.need, n)
}

func (o *order) take(a *agent, t Waiting) {
	ids := o.wish.pick(a)
	a.free = a.free.minus(o.need)
	a.gpus -= o.wish.n
	a.devices = slices.DeleteFunc(a.devices, func(d gpu.Device) bool { return slices.Contains(ids, d.UUID) })
	a.launches = append(a.launches, Launch{TaskID: t.ID, Index: t.Index, Spec: o.spec, DeviceIDs: ids, Overhead: o.extra})
}
