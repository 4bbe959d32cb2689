package sched

import (
	"slices"
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// head is the first job of a role that waits for places known to be on their
// way, which are kept for it. Jobs behind it may go first as long as they do
// not delay it (backfill, as in D. Lifka, "The ANL/IBM SP Scheduling System",
// 1995).
type head struct {
	job   string
	start time.Time // when it starts at the latest
}

// endSlack is how long a task may take to be gone after its kill grace.
const endSlack = 5 * time.Second

// Victim is a task that must make room.
type Victim struct {
	TaskID string
	// For is the job that needs its place.
	For string
}

// ahead finds out when a blocked job can start and keeps its places from jobs
// that would still run then. Tasks that are ending make room soonest, then
// those that may be preempted, then those whose run time is known.
func (pl *placing) ahead(j *Job, d *fit.Demand, n int) {
	if pl.heads[j.Spec.Role] != nil || pl.tries[j.Spec.Role] >= maxTries {
		return
	}
	pl.tries[j.Spec.Role]++
	if pl.seek(j, d, n) || j.Spec.Gang || n == 1 {
		return
	}
	pl.seek(j, d, 1) // one of its tasks is better than none
}

// maxTries bounds the jobs of one role for which places ahead are sought: one
// that can never start must not stand in the way of the next.
const maxTries = 8

// seek finds n places for the job among those on their way.
func (pl *placing) seek(j *Job, d *fit.Demand, n int) bool {
	h := &head{job: j.Spec.Name}
	ends := pl.endsOf(j.Spec.Role)
	c := pl.known(d)
	found := pl.reserve(c, h, d, n, ends.ending)
	if !found {
		if victims := pl.victims(c, j, d, n, ends); len(victims) > 0 {
			found = pl.reserve(c, h, d, n, sorted(slices.Concat(ends.ending, pl.located(victims))))
		} else {
			found = pl.reserve(c, h, d, n, ends.all)
		}
	}
	if found {
		pl.heads[j.Spec.Role] = h
	}
	return found
}

// victims are those of preempt, if anybody of the role would go.
func (pl *placing) victims(c *clusters, j *Job, d *fit.Demand, n int, ends *ends) []Running {
	if !ends.willing {
		return nil
	}
	ending := make([]Running, len(ends.ending))
	for i := range ending {
		ending[i] = *ends.ending[i].Running
	}
	return pl.preempt(c, j, d, n, ending)
}

// known is the cluster with what agents that offer nothing had free, as far as
// it could be a place for the demand by itself; nil is for any. For a demand it
// is good until it is asked for the next one.
func (pl *placing) known(d *fit.Demand) *clusters {
	if d == nil {
		c := pl.cluster.Clone()
		for i := range pl.agents {
			if a := &pl.agents[i]; len(a.Offers) == 0 {
				c.releaseAt(i, pl.left(a))
			}
		}
		return c
	}
	c := &pl.scratch.known
	c.focus(pl.cluster, d.Role)
	left := pl.leftOf(d.Role)
	for i := range left {
		if usableBy(&left[i].Holding, d) {
			c.releaseAt(left[i].at, left[i].Holding)
		}
	}
	return c
}

// usableBy reports whether what an agent has left has GPUs if the demand wants
// some; nil is any demand.
func usableBy(h *fit.Holding, d *fit.Demand) bool {
	return (d == nil || d.Request.GPUs == 0) && h.Amount != Amount{} || h.GPUs > 0 || len(h.DeviceIDs)+len(h.Parts) > 0
}

// asParts is what was free of shared devices, as a task would have it.
func asParts(free []fit.Shared) []gpu.Part {
	var parts []gpu.Part
	for _, s := range free {
		parts = append(parts, gpu.Part{UUID: s.UUID, MemMiB: s.MemMiB, Cores: s.Cores})
	}
	return parts
}

// room reports where n tasks fit once the others have ended.
func (pl *placing) room(c *clusters, d *fit.Demand, n int, ended []Running) ([]fit.Spot, bool) {
	free := *d
	free.Beyond = false
	return pl.roomAfter(c, &free, n, pl.located(ended))
}

func (pl *placing) roomAfter(c *clusters, d *fit.Demand, n int, ended []end) ([]fit.Spot, bool) {
	later := pl.later(c, d)
	for i := range ended {
		later.end(&ended[i])
	}
	spots := later.Fill(d, n)
	return spots, len(spots) == n
}

func release(c *clusters, r *Running, p *Policy) {
	c.Release(r.AgentID, r.Spec.Role, holding(r, p))
}

// holding is what a task gives back when it ends.
func holding(r *Running, p *Policy) fit.Holding {
	h := fit.Holding{Amount: p.need(r.Spec), GPUs: r.Spec.Request.GPUs, DeviceIDs: r.DeviceIDs, Ports: r.Ports}
	if len(r.Parts) > 0 {
		h.GPUs, h.DeviceIDs, h.Parts = 0, nil, r.Parts
	}
	return h
}

// reserve finds the earliest time at which n tasks fit, given when others
// end, and keeps what they need beside what those give back.
func (pl *placing) reserve(c *clusters, h *head, d *fit.Demand, n int, ends []end) bool {
	free := *d
	free.Beyond = false
	spots, k, ok := pl.soonest(c, &free, n, ends)
	if !ok {
		return false
	}
	h.start = pl.q.Now
	if k > 0 && ends[k-1].Ends.After(pl.q.Now) {
		h.start = ends[k-1].Ends
	}
	pl.keep(d, spots, ends[:k])
	return true
}

// soonest finds how many of the tasks must have ended, in their order, before
// n of the demand fit, and where those then do: nowhere if they never fit. An
// end takes no room from who can be counted, so one goes along them until the
// count is enough.
func (pl *placing) soonest(c *clusters, d *fit.Demand, n int, ends []end) (spots []fit.Spot, k int, ok bool) {
	later := pl.later(c, d)
	count, ok := later.of(d.Role).Count(d, n)
	if !ok {
		return pl.search(c, d, n, ends)
	}
	for ; count.Tasks < n; k++ {
		if k == len(ends) {
			return nil, 0, false
		}
		if at := later.end(&ends[k]); at >= 0 {
			count.Update(at)
		}
	}
	return later.Fill(d, n), k, true
}

// search is soonest for demands that must be placed to know whether they fit:
// each time that is tried begins with what is known.
func (pl *placing) search(c *clusters, d *fit.Demand, n int, ends []end) (spots []fit.Spot, k int, ok bool) {
	if spots, ok = pl.roomAfter(c, d, n, ends); !ok {
		return nil, 0, false
	}
	k = sort.Search(len(ends), func(k int) bool {
		sooner, ok := pl.roomAfter(c, d, n, ends[:k])
		if ok {
			spots = sooner // the last to fit are those of the answer
		}
		return ok
	})
	return spots, k, true
}

// kept is what one agent must keep.
type kept struct {
	amount  Amount
	gpus    int
	named   bool // devices go by name
	devices []string
	parts   []gpu.Part // one each device
	ports   []int      // that the job names
}

// keep reserves what the places need and the ended tasks do not bring.
func (pl *placing) keep(d *fit.Demand, spots []fit.Spot, ended []end) {
	need := map[agentKey]*kept{}
	for i := range spots {
		a := &pl.agents[spots[i].Agent]
		key := agentKey{a.ID, a.Role}
		k := need[key]
		if k == nil {
			k = &kept{named: len(a.DeviceIDs) > 0 || len(a.Shared) > 0 || len(a.AllShared) > 0}
			need[key] = k
		}
		k.add(d.Amount, 1)
		k.devices = append(k.devices, spots[i].DeviceIDs...)
		if spots[i].Parts == nil {
			k.gpus += d.Request.GPUs
		}
		k.share(spots[i].Parts, 1)
		for n, port := range d.HostPorts {
			if port > 0 {
				k.ports = append(k.ports, spots[i].Ports[n])
			}
		}
	}
	for i := range ended {
		r := ended[i].Running
		k := need[agentKey{r.AgentID, r.Spec.Role}]
		if k == nil {
			continue
		}
		k.add(pl.p.need(r.Spec), -1)
		if k.share(r.Parts, -1); len(r.Parts) > 0 {
			continue
		}
		k.devices = slices.DeleteFunc(k.devices, func(id string) bool { return slices.Contains(r.DeviceIDs, id) })
		if len(r.DeviceIDs) == 0 {
			k.gpus -= r.Spec.Request.GPUs
		}
	}
	for a, k := range need {
		if k.named || len(k.devices) > 0 {
			k.gpus = len(k.devices)
		}
		pl.cluster.Reserve(a.id, a.role, fit.Holding{Amount: k.amount, GPUs: max(k.gpus, 0), DeviceIDs: k.devices, Parts: k.parts, Ports: k.ports})
	}
}

// share adds parts of devices, or takes away what of them ended tasks bring.
func (k *kept) share(parts []gpu.Part, sign int) {
	for _, p := range parts {
		i := slices.IndexFunc(k.parts, func(q gpu.Part) bool { return q.UUID == p.UUID })
		if i < 0 && sign < 0 {
			continue
		}
		if i < 0 {
			k.parts = append(k.parts, gpu.Part{UUID: p.UUID})
			i = len(k.parts) - 1
		}
		k.parts[i].MemMiB = max(k.parts[i].MemMiB+int64(sign)*p.MemMiB, 0)
		k.parts[i].Cores = max(k.parts[i].Cores+sign*p.Cores, 0)
	}
}

func (k *kept) add(a Amount, sign float64) {
	k.amount.CPUs += sign * a.CPUs
	k.amount.MemMiB += sign * a.MemMiB
	k.amount.DiskMiB += sign * a.DiskMiB
}
