package placement

import (
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// backfiller reserves resources for the head of each role: its first blocked job whose start can be predicted. Later
// jobs of the role may start earlier if that does not delay the head (D. Lifka, "The ANL/IBM SP Scheduling System",
// 1995).
type backfiller struct {
	*forecaster
	// heads are the reservations by role. A role gets at most one in a plan; later jobs of the role must not delay it.
	// Nothing releases a reservation: it ends with the plan, whose cluster is a copy, and the next plan starts without.
	heads map[string]*reservation
	// attempts counts the jobs of each role for which a reservation was sought, up to maxReservationAttempts.
	attempts map[string]int
	// claim is the first job for which GPUs are reserved that its role deserves, or CPUs and memory for tasks without GPUs, ""
	// for none. Tasks of all roles avoid them. claimed names which.
	claim, claimed string
	// victims are the tasks that must end for waiting jobs, in the order in which they were selected.
	victims []PreemptionVictim
	// awaiting are, by role, the tasks for which there is room once the ending tasks and the victims have ended.
	awaiting map[string]*awaitingTasks
}

// awaitingTasks are tasks of the head of a role, and of later jobs that preempt tasks too.
type awaitingTasks struct {
	// demand is the number of the demand of all of them.
	demand int32
	tasks  int
	// jobs is the number of jobs.
	jobs int
}

// reservation is a job that waits for resources which are reserved for it, and when it starts at the latest.
type reservation struct {
	// run is the run of the job, spec its specification.
	run  job.RunID
	spec *job.Spec
	// startsBy is the predicted end of the last task on whose resources the job waits, or the time of the plan.
	startsBy time.Time
	// isNext is copied to Reservation.
	isNext bool
	// isPromiseBroken is set if the job now starts much later than an earlier plan promised.
	isPromiseBroken bool
}

// maxReservationAttempts limits the jobs of one role for which a reservation is sought. A job that never fits must not
// keep the next ones from a reservation, and each attempt is expensive.
const maxReservationAttempts = 8

// maxAwaitingJobs limits the jobs of one role that preempt tasks in one plan.
const maxAwaitingJobs = 32

// mustAvoidReserved reports whether a job could delay the head of its role. A predicted run time may be wrong: such jobs
// pass the head only until it is late, so that it starts when the tasks that run by then have ended.
func (b *backfiller) mustAvoidReserved(j *queue.WaitingJob) bool {
	if b.claim != "" {
		return true
	}
	head := b.heads[j.Spec.Role]
	if head == nil {
		return false
	}
	runs := j.Spec.ExpectedRunTime()
	if !head.isPromiseBroken {
		runs = j.ExpectedRunTime()
	}
	return runs == 0 || b.in.Now.Add(runs).After(head.startsBy)
}

// reservations returns the reservations of this plan by role. A job that is still the head keeps what it was promised
// first.
func (b *backfiller) reservations() map[string]Reservation {
	if len(b.heads) == 0 {
		return nil
	}
	all := make(map[string]Reservation, len(b.heads))
	for role, head := range b.heads {
		r := Reservation{Run: head.run, Made: b.in.Now, StartsBy: head.startsBy, IsNext: head.isNext}
		if was, ok := b.in.Reservations[role]; ok && was.Run == head.run {
			r.Made, r.StartsBy = was.Made, was.StartsBy
		}
		all[role] = r
	}
	return all
}

// reserveOrPreempt reserves resources for n tasks of a blocked job, or for one if there is no time at which all fit,
// unless its role has a reservation already. Tasks that must be preempted for that are added to victims. demand is the
// number of the demand.
func (b *backfiller) reserveOrPreempt(j *queue.WaitingJob, d *fit.Demand, demand int32, n int) {
	role := j.Spec.Role
	if b.heads[role] != nil {
		b.endAwaiting(role)
		return
	}
	if b.attempts[role] >= maxReservationAttempts {
		return
	}
	b.attempts[role]++
	head := b.findReservation(j, d, n)
	if head != nil && head.isNext && !d.Request.NeedsSameType() && !j.DependsOnPeers() {
		b.awaiting[role] = &awaitingTasks{demand, n, 1}
	}
	if head == nil && !j.Spec.Gang && n > 1 {
		head = b.findReservation(j, d, 1)
	}
	if head != nil {
		promised := b.in.Reservations[role]
		head.isPromiseBroken = promised.Run == head.run && promised.IsBroken(head.startsBy)
		b.heads[role] = head
	}
}

// findReservation reserves resources for n tasks of the job at the earliest time at which they fit. Tasks that are
// ending free resources first; then tasks that may be preempted; then those whose run time is known.
func (b *backfiller) findReservation(j *queue.WaitingJob, d *fit.Demand, n int) *reservation {
	free := *d
	free.AvoidReserved = false
	ends, base := b.taskEndsOf(j.Spec.Role), b.clusterWithLeftovers(&free)
	head := b.reserveEarliest(base, j, &free, n, ends.ending)
	if head == nil && b.preempt(base, j, &free, n) {
		head = b.reserveEarliest(base, j, &free, n, b.taskEndsOf(j.Spec.Role).ending)
	}
	if head == nil {
		return b.reserveEarliest(base, j, &free, n, ends.all)
	}
	head.isNext = true
	return head
}

// preempt selects victims so that n tasks of the demand fit, and reports whether it found any. From then on they are
// ending tasks.
func (b *backfiller) preempt(base *PartitionedCluster, j *queue.WaitingJob, d *fit.Demand, n int) bool {
	ends := b.taskEndsOf(j.Spec.Role)
	if !ends.anyPreemptible {
		return false
	}
	victims := b.selectVictims(base, j, d, n, ends.ending)
	if len(victims) == 0 {
		return false
	}
	for i := range victims {
		b.victims = append(b.victims, PreemptionVictim{TaskID: victims[i].TaskID, ForJob: j.RunID()})
	}
	b.endTasks(j.Spec.Role, victims)
	return true
}

// mayPreemptBehindHead reports whether a job behind the head of its role may preempt tasks at the same time. It must have
// the same demand as the head and all blocked jobs between: whichever place becomes free first is right for each of them,
// so that none of them preempts in vain.
func (b *backfiller) mayPreemptBehindHead(j *queue.WaitingJob, demand int32) bool {
	a := b.awaiting[j.Spec.Role]
	return a != nil && a.demand == demand && a.jobs < maxAwaitingJobs && b.taskEndsOf(j.Spec.Role).anyPreemptible && len(b.preemptibleUnits(j)) > 0
}

// endAwaiting lets no later job of a role preempt tasks in this plan: a blocked job before it could get the places.
func (b *backfiller) endAwaiting(role string) { delete(b.awaiting, role) }

// preemptBehindHead preempts tasks for n tasks of a blocked job, besides those that end for the jobs before it, and reserves
// what is needed of free resources. Without this, the jobs of a role would preempt one after the other, each a warning and
// a kill grace after the one before.
func (b *backfiller) preemptBehindHead(j *queue.WaitingJob, d *fit.Demand, n int) {
	role, free := j.Spec.Role, *d
	free.AvoidReserved = false
	a := b.awaiting[role]
	base, all := b.clusterWithLeftovers(&free), a.tasks+n
	places, fits := b.placeAfter(base, &free, all, b.taskEndsOf(role).ending)
	if !fits && b.preempt(base, j, &free, all) {
		places, fits = b.placeAfter(base, &free, all, b.taskEndsOf(role).ending)
	}
	if !fits {
		b.endAwaiting(role)
		return
	}
	b.reserveRemainder(&free, places, b.taskEndsOf(role).ending)
	a.tasks, a.jobs = all, a.jobs+1
}

// reserveEarliest reserves what n tasks of the job need at the earliest time at which they fit, except what the tasks
// that end until then free. It returns nil if they never fit.
func (b *backfiller) reserveEarliest(base *PartitionedCluster, j *queue.WaitingJob, d *fit.Demand, n int, ends []taskEnd) *reservation {
	places, k, ok := b.earliestFit(base, d, n, ends)
	if !ok {
		return nil
	}
	head := &reservation{run: j.RunID(), spec: j.Spec, startsBy: b.in.Now}
	if k > 0 && ends[k-1].Ends.After(b.in.Now) {
		head.startsBy = ends[k-1].Ends
	}
	b.reserveRemainder(d, places, ends[:k])
	return head
}

// reserveRemainder reserves on each agent what the places need beyond what the ended tasks free there.
func (b *backfiller) reserveRemainder(d *fit.Demand, places []fit.Placement, ended []taskEnd) {
	need := map[int]*remainder{}
	for i := range places {
		p := &places[i]
		r := need[p.Agent]
		if r == nil {
			a := &b.cluster.agents[p.Agent]
			r = &remainder{namesDevices: len(a.DeviceIDs) > 0 || len(a.Shared) > 0 || len(a.AllShared) > 0}
			need[p.Agent] = r
		}
		r.addPlacement(d, p)
	}
	for i := range ended {
		if r := need[ended[i].agent]; r != nil {
			r.subtractTask(ended[i].RunningTask, b.overhead)
		}
	}
	for agent, r := range need {
		if r.namesDevices || len(r.DeviceIDs) > 0 {
			r.GPUs = len(r.DeviceIDs)
		}
		r.GPUs = max(r.GPUs, 0)
		a := &b.cluster.agents[agent]
		b.cluster.partition(a.Role).ReserveResources(a.ID, a.Role, r.TaskResources)
	}
}

// remainder has the resources to reserve on one agent: the needs of the places, less the resources that ended tasks free. A place that is
// named by an ended task, such as a device, is not reserved, since no other job can get it before the task ends.
type remainder struct {
	fit.TaskResources
	// namesDevices reports that the agent hands out devices by id, not by count.
	namesDevices bool
}

func (r *remainder) addPlacement(d *fit.Demand, p *fit.Placement) {
	r.addAmount(d.Amount, 1)
	r.DeviceIDs = append(r.DeviceIDs, p.DeviceIDs...)
	r.GPUs += d.Request.GPUs - len(p.Shares)
	r.addShares(p.Shares, 1)
	for n, port := range d.HostPorts {
		if port > 0 {
			r.Ports = append(r.Ports, p.Ports[n])
		}
	}
}

func (r *remainder) subtractTask(t *queue.RunningTask, overhead fit.Amount) {
	frees := t.Resources(overhead)
	r.addAmount(frees.Amount, -1)
	r.addShares(frees.Shares, -1)
	r.DeviceIDs = slices.DeleteFunc(r.DeviceIDs, func(id string) bool { return slices.Contains(frees.DeviceIDs, id) })
	if len(frees.DeviceIDs) == 0 {
		r.GPUs -= frees.GPUs
	}
}

// addShares adds shares of devices, one entry a device; sign -1 subtracts them down to zero.
func (r *remainder) addShares(shares []gpu.DeviceShare, sign int) {
	for _, s := range shares {
		i := slices.IndexFunc(r.Shares, func(o gpu.DeviceShare) bool { return o.UUID == s.UUID })
		if i < 0 && sign < 0 {
			continue
		}
		if i < 0 {
			r.Shares = append(r.Shares, gpu.DeviceShare{UUID: s.UUID})
			i = len(r.Shares) - 1
		}
		r.Shares[i].MemMiB = max(r.Shares[i].MemMiB+int64(sign)*s.MemMiB, 0)
		r.Shares[i].Cores = max(r.Shares[i].Cores+sign*s.Cores, 0)
	}
}

func (r *remainder) addAmount(a fit.Amount, sign float64) {
	r.Amount.CPUs += sign * a.CPUs
	r.Amount.MemMiB += sign * a.MemMiB
	r.Amount.DiskMiB += sign * a.DiskMiB
}

// explainReservation returns the cause if n tasks of the job would fit on resources that are reserved for the head.
func (b *backfiller) explainReservation(j *queue.WaitingJob, d *fit.Demand, n int) (PendingCause, bool) {
	head := b.heads[j.Spec.Role]
	if !d.AvoidReserved || head == nil && b.claim == "" {
		return PendingCause{}, false
	}
	free := *d
	free.AvoidReserved = false
	places := b.cluster.PlaceTasks(&free, n)
	b.cluster.UndoPlacements(&free, places)
	if head == nil {
		return PendingCause{
			BlockedBy: BlockedByReservation,
			Needs:     b.claimed + " that no other role deserves",
			Available: fmt.Sprintf("free ones are reserved for %s, whose role deserves them", b.claim),
		}, len(places) == n
	}
	return PendingCause{
		BlockedBy: BlockedByReservation,
		Needs:     fmt.Sprintf("a place that %s will not need", head.spec.Name),
		Available: fmt.Sprintf("%s goes first and starts within %s, a run_time that ends before would fit", head.spec.Name, head.startsBy.Sub(b.in.Now).Round(time.Second)),
	}, len(places) == n
}
