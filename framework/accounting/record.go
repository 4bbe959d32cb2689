// Package accounting stores the ends of attempts in a file that outlives the journal's retention, and sums them up. It
// derives records from what the journal has recorded, each attempt once by its id, and decides nothing about jobs.
// Each scheduler has its own file: a standby follows the journal and writes the same records as the leader.
package accounting

import (
	"slices"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// attemptRecord is a stored attempt. It changes twice at most: when its usage becomes known, and when an attempt that was
// lost reports its end.
type attemptRecord struct {
	// id is the task's ID, which is unique for each attempt. reason is the cause of the end, as of sched.EndCauseOf.
	id, job, owner, role, host, state, reason string
	// run, index and attempt identify the attempt. index counts from 0, the others from 1.
	run, index, attempt int
	// exitCode is nil if the end had none.
	exitCode *int
	// Times are in nanoseconds since 1970, 0 if none exists. queued is when the attempt could first be placed, after the
	// submission and after the backoff of the previous attempt.
	queued, launched, started, ended int64
	milliCPUs                        int
	// types and devices are the GPUs, in thousandths. devices is empty if the agent does not name its GPUs.
	types, devices []heldGPUs
	// usageState is whether usage is known. usage is valid if it is measured.
	usageState usageState
	usage      api.MeasuredUsage
}

// heldGPUs are thousandths of GPUs of one type or of one device.
type heldGPUs struct {
	name  string
	milli int
}

// usageState states whether the usage of an attempt is known.
type usageState byte

const (
	// usagePending: its agent may have measured it. usageUnknown: its agent has not, or it is no longer available.
	usagePending usageState = iota
	usageMeasured
	usageUnknown
)

// milliPerGPU is how many thousandths a GPU has.
const milliPerGPU = 1000

// newRecord returns the record of an ended attempt. Its usage is unknown from the start if the attempt had no GPU or
// never ran: no agent has measured it.
func newRecord(e *sched.AttemptEnd) attemptRecord {
	t := &e.Task
	r := attemptRecord{
		id: t.ID, job: t.Job, owner: e.Owner, role: e.Role, host: t.Hostname, state: string(t.State), reason: string(sched.EndCauseOf(t)),
		run: t.RunID().Run, index: t.Index, attempt: max(t.Attempt, 1), exitCode: t.ExitCode,
		launched: unixNano(t.Launched), started: unixNano(t.Started), ended: unixNano(t.Ended), milliCPUs: int(e.CPUs*1000 + 0.5),
	}
	if r.ended == 0 { // records of older releases
		r.ended = unixNano(t.Changed)
	}
	r.queued = max(unixNano(e.Submitted), unixNano(t.Queued), unixNano(t.NotBefore))
	shared := map[string]bool{}
	for i := range t.Shares {
		p := &t.Shares[i]
		r.types, r.devices = addGPUs(r.types, p.ProductName(), p.MilliDevices), addGPUs(r.devices, p.UUID, p.MilliDevices)
		shared[p.UUID] = true
	}
	for _, id := range t.DeviceIDs {
		if !shared[id] {
			r.devices = addGPUs(r.devices, id, milliPerGPU)
		}
	}
	for name, n := range t.HeldProducts() {
		r.types = addGPUs(r.types, name, n*milliPerGPU)
	}
	if t.AgentURL == "" || len(r.types) == 0 || r.launched == 0 {
		r.usageState = usageUnknown
	}
	return r
}

// shortTypes returns the GPUs that the attempt held by short type. types are by product, which budgets distinguish.
func (r *attemptRecord) shortTypes() (list []heldGPUs) {
	for _, g := range r.types {
		list = addGPUs(list, gpu.TypesOf(g.name), g.milli)
	}
	return list
}

// addGPUs adds thousandths to the entry of a name.
func addGPUs(list []heldGPUs, name string, milli int) []heldGPUs {
	for i := range list {
		if list[i].name == name {
			list[i].milli += milli
			return list
		}
	}
	return append(list, heldGPUs{name, milli})
}

// unixNano and timeOf convert times; the zero time is 0.
func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos).UTC()
}

// heldSeconds returns how long the attempt held its resources. It is never negative: the clock of a new leader may be
// behind the old one's.
func (r *attemptRecord) heldSeconds() float64 {
	if r.launched == 0 {
		return 0
	}
	return max(time.Duration(r.ended-r.launched), 0).Seconds()
}

// waitSeconds returns how long the attempt was queued until its launch, or until its end if it was never launched.
func (r *attemptRecord) waitSeconds() float64 {
	until := r.launched
	if until == 0 {
		until = r.ended
	}
	return max(time.Duration(until-r.queued), 0).Seconds()
}

// milliGPUs returns the thousandths of GPUs of all types.
func (r *attemptRecord) milliGPUs() (sum int) {
	for _, g := range r.types {
		sum += g.milli
	}
	return sum
}

// gpuSeconds returns the GPUs of the attempt times the seconds for which it held them.
func (r *attemptRecord) gpuSeconds() float64 {
	return float64(r.milliGPUs()) / milliPerGPU * r.heldSeconds()
}

// view returns the API's view.
func (r *attemptRecord) view() api.AccountedAttempt {
	v := api.AccountedAttempt{
		Task: r.id, Job: r.job, Run: r.run, Index: r.index, Attempt: r.attempt,
		Owner: r.owner, Role: r.role, Host: r.host,
		State: job.State(r.state), Reason: r.reason, ExitCode: r.exitCode,
		Queued: timeOf(r.queued), Launched: timeOf(r.launched), Started: timeOf(r.started), Ended: timeOf(r.ended),
		CPUs: float64(r.milliCPUs) / 1000, GPUTypes: gpuFractions(r.shortTypes()), Devices: gpuFractions(r.devices),
		WaitSeconds: r.waitSeconds(), GPUSeconds: r.gpuSeconds(),
	}
	if r.usageState == usageMeasured {
		usage := r.usage
		v.Usage = &usage
	}
	return v
}

func gpuFractions(list []heldGPUs) map[string]float64 {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]float64, len(list))
	for _, g := range list {
		m[g.name] = float64(g.milli) / milliPerGPU
	}
	return m
}

// measuredUsage returns what a usage file says of an attempt; false if it has no totals. Values above what the attempt
// held are cut off: a task can write the file.
func (r *attemptRecord) measuredUsage(u *gpu.TaskUsage) (m api.MeasuredUsage, ok bool) {
	held := r.heldSeconds()
	for i := range u.Devices {
		d := u.Devices[i].Totals
		if d == nil || d.Seconds <= 0 {
			continue
		}
		seconds := min(d.Seconds, held)
		part := seconds / d.Seconds
		m.GPUSeconds += seconds
		m.BusyGPUSeconds += min(d.BusySeconds*part, seconds)
		m.MemMiBSeconds += d.MemMiBSeconds * part
		m.MemUsedMiBSeconds += min(d.MemUsedMiBSeconds, d.MemMiBSeconds) * part
		m.MaxMemMiB = max(m.MaxMemMiB, d.MaxMemMiB)
		m.Joules += min(d.Joules, maxWatts*seconds)
		ok = true
	}
	m.Simulated = u.Simulated
	return m, ok
}

// maxWatts is more than any GPU draws. It bounds the energy that a forged file can claim.
const maxWatts = 10_000

// clone returns a copy that shares no slices.
func (r *attemptRecord) clone() attemptRecord {
	c := *r
	c.types, c.devices = slices.Clone(r.types), slices.Clone(r.devices)
	return c
}
