package fit

import (
	"math"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// demandClass is shared by all demands that fit the same agents.
type demandClass struct {
	id             int32
	roleID         int32 // -1: no agent has the role
	gpus           int32
	milliPerDevice int32 // thousandths of a divisible device
	portCount      int32
	hostPorts      []int // Demand.HostPorts; nil: any ports
	wantsShares    bool  // of devices, not whole ones
	share          gpu.ShareRequest
	avoidsReserved bool
	need           milliAmount
	minAvailable   int64 // nanoseconds before maintenance
	requirement    *deviceRequirement
	fixedFilter    *agentFilter // agents that satisfy constraints; nil: all do
	jobConstraints []job.Constraint
	uses           int
	minimum        capacityHint // what an agent must have at least
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

// gpuMilli returns how many GPU thousandths a task of the class takes.
func (cl *demandClass) gpuMilli() int64 {
	if cl.wantsShares {
		return int64(cl.gpus) * int64(cl.milliPerDevice)
	}
	return int64(cl.gpus) * wholeDevice
}
