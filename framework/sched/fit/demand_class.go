package fit

import (
	"math"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// taskNeeds contains one task's requirements, apart from ports and constraints.
type taskNeeds struct {
	// need has CPUs, memory and disk, including the executor's.
	need milliAmount
	// gpus counts devices, whole or shared. The task takes milliPerDevice thousandths of each, if it is divisible.
	gpus, milliPerDevice int32
	// wantsShares is set if the task wants the share of each device, not whole devices.
	wantsShares bool
	share       gpu.ShareRequest
	requirement *hardware.Requirement
}

func newTaskNeeds(d *Demand, catalog *hardware.Catalog) taskNeeds {
	t := taskNeeds{need: d.Amount.toMilli(), gpus: clampInt32(d.Request.GPUs), requirement: catalog.FindRequirement(d.Request)}
	switch {
	case t.gpus == 0:
	case d.Request.Share.IsWhole():
		t.milliPerDevice = wholeDevice
	default:
		t.wantsShares, t.share, t.milliPerDevice = true, d.Request.Share, milliOfShare(d.Request.Share)
	}
	return t
}

func clampInt32(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// gpuMilli returns how many GPU thousandths a task takes.
func (t *taskNeeds) gpuMilli() int64 { return int64(t.gpus) * int64(t.milliPerDevice) }

// demandClass is shared by all demands that fit the same agents. It never changes, but for uses.
type demandClass struct {
	taskNeeds
	// id numbers the classes of a clusterIndex from 0.
	id int32
	// roleID is the number of the role; -1 if no agent offers to it.
	roleID int32
	// portCount counts host ports. hostPorts has required numbers of the first of them, 0 for any; it is nil if all
	// may be any port.
	portCount int32
	hostPorts []int
	// avoidsReserved is Demand.AvoidReserved.
	avoidsReserved bool
	// minAvailable is how long an agent must be available before maintenance, in nanoseconds.
	minAvailable int64
	// fixedFilter has the agents that satisfy the constraints which depend on the agent alone; nil if all do.
	fixedFilter index.Bits
	// jobConstraints are the constraints that depend on the job's other tasks.
	jobConstraints []job.Constraint
	// uses counts placements of one task without a ranking.
	uses int
	// minimum is a lower bound of the hints of feasible agents.
	minimum capacityHint
}

// capacityHint is an upper bound of what a task may get from an agent.
type capacityHint struct {
	cpus uint32 // thousandths, capped
	gpus int32
}

func newCapacityHint(cpus int64, gpus int32) capacityHint {
	return capacityHint{uint32(min(max(cpus, 0), math.MaxUint32)), gpus}
}

// allows reports whether an agent with this hint may have room for a task that needs at least the minimum. It may
// return true for an agent without room.
func (h capacityHint) allows(minimum capacityHint) bool {
	return h.cpus >= minimum.cpus && h.gpus >= minimum.gpus
}
