// Package eviction chooses which running tasks end so that waiting ones fit: for preemption, for what roles deserve, and
// for room within a limit. It removes tasks from a copy of the cluster, least harm first, tests what fits, and adds back
// those that are not necessary. It decides neither for whom tasks end nor when; the caller states which tasks may end.
package eviction

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// ExitSlack is how long after its kill grace a task may take to disappear.
const ExitSlack = 5 * time.Second

// Unit lists tasks that end together: one task, or all tasks of a gang.
type Unit struct {
	// Holding is what the tasks hold together.
	quota.Holding
	Harm  Harm
	Tasks []*queue.RunningTask
	// Chosen is set while the unit is among those that end.
	Chosen bool
}

// Harm measures the loss if tasks end. Fields are compared in their order.
type Harm struct {
	// WithinEntitlement is set for a role that holds no more than it is entitled to, NotPreemptible for jobs that have not
	// declared that they are preemptible.
	WithinEntitlement, NotPreemptible bool
	Priority                          int
	// Work is how long the tasks have held GPUs, in GPU time; of tasks without GPUs, how long they have run.
	Work  time.Duration
	Tasks int
}

// Compare orders the least harm first.
func (h *Harm) Compare(o *Harm) int {
	number := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(number(h.WithinEntitlement), number(o.WithinEntitlement)), cmp.Compare(number(h.NotPreemptible), number(o.NotPreemptible)),
		cmp.Compare(h.Priority, o.Priority), cmp.Compare(h.Work, o.Work), cmp.Compare(h.Tasks, o.Tasks))
}

// add returns the harm of ending both.
func (h Harm) add(o *Harm) Harm {
	return Harm{
		h.WithinEntitlement || o.WithinEntitlement, h.NotPreemptible || o.NotPreemptible,
		max(h.Priority, o.Priority), h.Work + o.Work, h.Tasks + o.Tasks,
	}
}

// sumHarm returns the harm of ending all units.
func sumHarm(units []*Unit) (total Harm) {
	for i, u := range units {
		if i == 0 {
			total = u.Harm // not the sum with the zero Harm, whose priority is above negative ones
			continue
		}
		total = total.add(&u.Harm)
	}
	return total
}

// CollectUnits returns the running tasks that may end, as units, the least harm first. A gang of which one task may not
// end does not end. withinEntitlement returns that field of the harm for a role.
func CollectUnits(running []queue.RunningTask, now time.Time, mayEnd func(*queue.RunningTask) bool, withinEntitlement func(role string) bool) []Unit {
	var units []Unit
	gangs, kept := map[job.RunID]int{}, map[job.RunID]bool{}
	for i := range running {
		t := &running[i]
		if t.Ending || t.Stuck || !mayEnd(t) {
			if t.Spec.Gang && !t.Ended {
				kept[t.RunID()] = true
			}
			continue
		}
		at, known := gangs[t.RunID()]
		if !known || !t.Spec.Gang {
			at = len(units)
			gangs[t.RunID()] = at
			units = append(units, Unit{
				Holding: quota.Holding{Role: t.Spec.Role, HoldsGPUs: t.Spec.Request.GPUs > 0, Types: map[string]int{}},
				Harm: Harm{
					WithinEntitlement: withinEntitlement(t.Spec.Role), NotPreemptible: !t.Spec.Preemptible && !t.Lowered, Priority: t.Priority(),
				},
			})
		}
		u := &units[at]
		u.Tasks = append(u.Tasks, t)
		for name, n := range t.GPUTypes {
			u.Types[name] += n
		}
		u.Shares = append(u.Shares, t.Shares...)
		u.Amount.CPUs, u.Amount.MemMiB = u.Amount.CPUs+t.Spec.CPUs, u.Amount.MemMiB+t.Spec.MemMiB
		u.Harm.Tasks++
		u.Harm.Work += max(now.Sub(t.Since), 0) * time.Duration(max(t.Spec.Request.GPUs, 1))
	}
	units = slices.DeleteFunc(units, func(u Unit) bool { return u.Tasks[0].Spec.Gang && kept[u.Tasks[0].RunID()] })
	slices.SortFunc(units, func(a, b Unit) int {
		return cmp.Or(a.Harm.Compare(&b.Harm), cmp.Compare(a.Tasks[0].TaskID, b.Tasks[0].TaskID))
	})
	return units
}

// frees reports whether the end of the unit could make room for a request: it holds GPUs of a type that the request
// accepts or of an unknown type, or it holds no GPUs, but CPUs and memory of an agent whose GPUs may be free.
func (u *Unit) frees(request *gpu.Request) bool {
	if request.GPUs == 0 || !u.HoldsGPUs {
		return true
	}
	for name := range u.Types {
		if name == "" || strings.Contains(name, "|") || request.MayUse(name) {
			return true
		}
	}
	return slices.ContainsFunc(u.Shares, func(s gpu.DeviceShare) bool { return s.Type == "" || request.MayUse(s.ProductName()) })
}

// isSpread reports whether the tasks run on several agents.
func (u *Unit) isSpread() bool {
	return slices.ContainsFunc(u.Tasks, func(t *queue.RunningTask) bool { return t.AgentID != u.Tasks[0].AgentID })
}

// HasRunEnough reports whether a task has run for its job's MinRunTime. No task ends before for another job.
func HasRunEnough(t *queue.RunningTask, now time.Time) bool {
	return !t.Since.Add(t.Spec.MinRunTime).After(now)
}

// IsTooEarly reports whether one of the tasks would get SIGTERM for a waiting job before the job's PreemptAfter has
// passed. Within that time they are only warned.
func IsTooEarly(waiting *queue.WaitingJob, victim *job.Spec, now time.Time) bool {
	wait := waiting.Spec.PreemptAfter
	return wait > 0 && now.Add(victim.WarningTime()).Before(waiting.Submitted.Add(wait))
}

// End marks the tasks of the unit as ending, and returns them.
func (u *Unit) End(now time.Time) []*queue.RunningTask {
	for _, t := range u.Tasks {
		t.Ending, t.Ends = true, now.Add(t.Spec.EvictionGrace()+ExitSlack)
	}
	return u.Tasks
}

// move frees the places of the unit's tasks on one agent, or on all if the index is below 0, or takes them back.
func (s *Selector) move(c *fit.Cluster, u *Unit, agent int, free bool) {
	for _, t := range u.Tasks {
		at := c.FindAgent(t.AgentID, s.Role)
		switch {
		case at < 0 || agent >= 0 && at != agent:
		case free:
			c.ReleaseAt(at, t.Resources(s.Overhead))
		default:
			c.TakeAt(at, t.Resources(s.Overhead))
		}
	}
}
