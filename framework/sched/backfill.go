package sched

import (
	"slices"
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// reservation is the first job of a role that waits for places known to be on their
// way, which are kept for it. Jobs behind it may go first as long as they do
// not delay it (backfill, as in D. Lifka, "The ANL/IBM SP Scheduling System",
// 1995).
type reservation struct {
	job      string
	startsBy time.Time // when it starts at the latest
}

// exitSlack is how long a task may take to be gone after its kill grace.
const exitSlack = 5 * time.Second

// PreemptionVictim is a task that must make room.
type PreemptionVictim struct {
	TaskID string
	// ForJob is the job that needs its place.
	ForJob string
}

// reserveForHead finds out when a blocked job can start and keeps its places from jobs
// that would still run then. Tasks that are ending make room soonest, then
// those that may be preempted, then those whose run time is known.
func (pl *planner) reserveForHead(j *WaitingJob, d *fit.Demand, n int) {
	if pl.reservations[j.Spec.Role] != nil || pl.reservationAttempts[j.Spec.Role] >= maxReservationAttempts {
		return
	}
	pl.reservationAttempts[j.Spec.Role]++
	if pl.findReservation(j, d, n) || j.Spec.Gang || n == 1 {
		return
	}
	pl.findReservation(j, d, 1) // one of its tasks is better than none
}

// maxReservationAttempts bounds the jobs of one role for which places ahead are sought: one
// that can never start must not stand in the way of the next.
const maxReservationAttempts = 8

// findReservation finds n places for the job among those on their way.
func (pl *planner) findReservation(j *WaitingJob, d *fit.Demand, n int) bool {
	h := &reservation{job: j.Spec.Name}
	ends := pl.taskEndsOf(j.Spec.Role)
	c := pl.clusterWithLeftovers(d)
	found := pl.reserveEarliest(c, h, d, n, ends.ending)
	if !found {
		if victims := pl.chooseVictims(c, j, d, n, ends); len(victims) > 0 {
			found = pl.reserveEarliest(c, h, d, n, sortByEnd(slices.Concat(ends.ending, pl.locateTasks(victims))))
		} else {
			found = pl.reserveEarliest(c, h, d, n, ends.all)
		}
	}
	if found {
		pl.reservations[j.Spec.Role] = h
	}
	return found
}

// chooseVictims are those of preempt, if anybody of the role would go.
func (pl *planner) chooseVictims(c *partitionedCluster, j *WaitingJob, d *fit.Demand, n int, ends *taskEnds) []RunningTask {
	if !ends.anyPreemptible {
		return nil
	}
	ending := make([]RunningTask, len(ends.ending))
	for i := range ending {
		ending[i] = *ends.ending[i].RunningTask
	}
	return pl.selectVictims(c, j, d, n, ending)
}

// clusterWithLeftovers is the cluster with what agents that offer nothing had free, as far as
// it could be a place for the demand by itself; nil is for any. For a demand it
// is good until it is asked for the next one.
func (pl *planner) clusterWithLeftovers(d *fit.Demand) *partitionedCluster {
	if d == nil {
		c := pl.cluster.clone()
		for i := range pl.agents {
			if a := &pl.agents[i]; len(a.Offers) == 0 {
				c.releaseAt(i, pl.leftoverOf(a))
			}
		}
		return c
	}
	c := &pl.buffers.withLeftovers
	c.copyRole(pl.cluster, d.Role)
	left := pl.leftoversOf(d.Role)
	for i := range left {
		if isUsableBy(&left[i].TaskResources, d) {
			c.releaseAt(left[i].at, left[i].TaskResources)
		}
	}
	return c
}

// isUsableBy reports whether what an agent has left has GPUs if the demand wants
// some; nil is any demand.
func isUsableBy(h *fit.TaskResources, d *fit.Demand) bool {
	return (d == nil || d.Request.GPUs == 0) && h.Amount != Amount{} || h.GPUs > 0 || len(h.DeviceIDs)+len(h.Shares) > 0
}

// freeShares is what was free of shared devices, as a task would have it.
func freeShares(free []fit.SharedDevice) []gpu.DeviceShare {
	var parts []gpu.DeviceShare
	for _, s := range free {
		parts = append(parts, gpu.DeviceShare{UUID: s.UUID, MemMiB: s.MemMiB, Cores: s.Cores})
	}
	return parts
}

// fitsAfterTasks reports where n tasks fit once the others have ended.
func (pl *planner) fitsAfterTasks(c *partitionedCluster, d *fit.Demand, n int, ended []RunningTask) ([]fit.Placement, bool) {
	free := *d
	free.AvoidReserved = false
	return pl.fitsAfter(c, &free, n, pl.locateTasks(ended))
}

func (pl *planner) fitsAfter(c *partitionedCluster, d *fit.Demand, n int, ended []taskEnd) ([]fit.Placement, bool) {
	later := pl.newForecast(c, d)
	for i := range ended {
		later.completeTask(&ended[i])
	}
	spots := later.fillPlacements(d, n)
	return spots, len(spots) == n
}

func releaseTask(c *partitionedCluster, r *RunningTask, p *Policy) {
	c.releaseHolding(r.AgentID, r.Spec.Role, taskHolding(r, p))
}

// taskHolding is what a task gives back when it ends.
func taskHolding(r *RunningTask, p *Policy) fit.TaskResources {
	h := fit.TaskResources{Amount: p.taskAmount(r.Spec), GPUs: r.Spec.Request.GPUs, DeviceIDs: r.DeviceIDs, Ports: r.Ports}
	if len(r.Shares) > 0 {
		h.GPUs, h.DeviceIDs, h.Shares = 0, nil, r.Shares
	}
	return h
}

// reserveEarliest finds the earliest time at which n tasks fit, given when others
// end, and keeps what they need beside what those give back.
func (pl *planner) reserveEarliest(c *partitionedCluster, h *reservation, d *fit.Demand, n int, ends []taskEnd) bool {
	free := *d
	free.AvoidReserved = false
	spots, k, ok := pl.earliestFit(c, &free, n, ends)
	if !ok {
		return false
	}
	h.startsBy = pl.queue.Now
	if k > 0 && ends[k-1].Ends.After(pl.queue.Now) {
		h.startsBy = ends[k-1].Ends
	}
	pl.reserveRemainder(d, spots, ends[:k])
	return true
}

// earliestFit finds how many of the tasks must have ended, in their order, before
// n of the demand fit, and where those then do: nowhere if they never fit. An
// end takes no room from who can be counted, so one goes along them until the
// count is enough.
func (pl *planner) earliestFit(c *partitionedCluster, d *fit.Demand, n int, ends []taskEnd) (spots []fit.Placement, k int, ok bool) {
	later := pl.newForecast(c, d)
	count, ok := later.partitionFor(d.Role).CountTasks(d, n)
	if !ok {
		return pl.searchEarliestFit(c, d, n, ends)
	}
	for ; count.Tasks < n; k++ {
		if k == len(ends) {
			return nil, 0, false
		}
		if at := later.completeTask(&ends[k]); at >= 0 {
			count.UpdateAgent(at)
		}
	}
	return later.fillPlacements(d, n), k, true
}

// searchEarliestFit is soonest for demands that must be placed to know whether they fit:
// each time that is tried begins with what is known.
func (pl *planner) searchEarliestFit(c *partitionedCluster, d *fit.Demand, n int, ends []taskEnd) (spots []fit.Placement, k int, ok bool) {
	if spots, ok = pl.fitsAfter(c, d, n, ends); !ok {
		return nil, 0, false
	}
	k = sort.Search(len(ends), func(k int) bool {
		sooner, ok := pl.fitsAfter(c, d, n, ends[:k])
		if ok {
			spots = sooner // the last to fit are those of the answer
		}
		return ok
	})
	return spots, k, true
}

// remainder is what one agent must keep.
type remainder struct {
	amount       Amount
	gpus         int
	namedDevices bool // devices go by name
	devices      []string
	shares       []gpu.DeviceShare // one each device
	ports        []int             // that the job names
}

// reserveRemainder reserves what the places need and the ended tasks do not bring.
func (pl *planner) reserveRemainder(d *fit.Demand, spots []fit.Placement, ended []taskEnd) {
	need := map[agentKey]*remainder{}
	for i := range spots {
		a := &pl.agents[spots[i].Agent]
		key := agentKey{a.ID, a.Role}
		k := need[key]
		if k == nil {
			k = &remainder{namedDevices: len(a.DeviceIDs) > 0 || len(a.Shared) > 0 || len(a.AllShared) > 0}
			need[key] = k
		}
		k.addAmount(d.Amount, 1)
		k.devices = append(k.devices, spots[i].DeviceIDs...)
		if spots[i].Shares == nil {
			k.gpus += d.Request.GPUs
		}
		k.addShares(spots[i].Shares, 1)
		for n, port := range d.HostPorts {
			if port > 0 {
				k.ports = append(k.ports, spots[i].Ports[n])
			}
		}
	}
	for i := range ended {
		r := ended[i].RunningTask
		k := need[agentKey{r.AgentID, r.Spec.Role}]
		if k == nil {
			continue
		}
		k.addAmount(pl.policy.taskAmount(r.Spec), -1)
		if k.addShares(r.Shares, -1); len(r.Shares) > 0 {
			continue
		}
		k.devices = slices.DeleteFunc(k.devices, func(id string) bool { return slices.Contains(r.DeviceIDs, id) })
		if len(r.DeviceIDs) == 0 {
			k.gpus -= r.Spec.Request.GPUs
		}
	}
	for a, k := range need {
		if k.namedDevices || len(k.devices) > 0 {
			k.gpus = len(k.devices)
		}
		pl.cluster.reserveHolding(a.id, a.role, fit.TaskResources{Amount: k.amount, GPUs: max(k.gpus, 0), DeviceIDs: k.devices, Shares: k.shares, Ports: k.ports})
	}
}

// addShares adds parts of devices, or takes away what of them ended tasks bring.
func (k *remainder) addShares(parts []gpu.DeviceShare, sign int) {
	for _, p := range parts {
		i := slices.IndexFunc(k.shares, func(q gpu.DeviceShare) bool { return q.UUID == p.UUID })
		if i < 0 && sign < 0 {
			continue
		}
		if i < 0 {
			k.shares = append(k.shares, gpu.DeviceShare{UUID: p.UUID})
			i = len(k.shares) - 1
		}
		k.shares[i].MemMiB = max(k.shares[i].MemMiB+int64(sign)*p.MemMiB, 0)
		k.shares[i].Cores = max(k.shares[i].Cores+sign*p.Cores, 0)
	}
}

func (k *remainder) addAmount(a Amount, sign float64) {
	k.amount.CPUs += sign * a.CPUs
	k.amount.MemMiB += sign * a.MemMiB
	k.amount.DiskMiB += sign * a.DiskMiB
}
