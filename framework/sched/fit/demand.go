package fit

import (
	"encoding/binary"
	"math"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Demand is what each of some equal tasks needs.
type Demand struct {
	// Job names it in reasons.
	Job string
	// Role is whose agents it may use.
	Role string
	// Amount includes Overhead, the executor's part, which only reasons tell
	// apart.
	Amount, Overhead Amount
	// Ports counts host ports. HostPorts are the numbers that the first of them
	// must have; 0 is any, and so are those that it does not name.
	Ports       int
	HostPorts   []int
	Request     gpu.Request
	Constraints []job.Constraint
	// RunTime is how long a task runs; 0 where nobody knows.
	RunTime time.Duration
	// PeerAgents has, for constraints that depend on the job's other live tasks,
	// the agent of each.
	PeerAgents []*AgentResources
	// AvoidReserved says that a task may outlive what Reserve holds back: it keeps
	// off that.
	AvoidReserved bool
}

// Placement is a place for one task.
type Placement struct {
	// Agent indexes Cluster.Agents.
	Agent int
	// DeviceIDs are the devices the task gets whole, by UUID; nil where its
	// agent hands out GPUs by count alone.
	DeviceIDs []string
	// GPUs counts devices, whole or in part.
	GPUs  int
	Ports []int
	// Shares are what it gets of devices that tasks share, one each.
	Shares []gpu.DeviceShare
}

// defaultRunTime is how long a task without a known run time must be able to run
// before maintenance of its agent begins.
const defaultRunTime = time.Hour

// demandClass is what demands that find the same places have in common.
type demandClass struct {
	id             int32
	roleID         int32 // -1: no agent has it
	gpus           int32
	milliPerDevice int32 // thousandths it takes of a device that is divisible
	portCount      int32
	hostPorts      []int // Demand.HostPorts; nil: any
	wantsShares    bool  // it wants parts of devices
	share          gpu.ShareRequest
	avoidsReserved bool
	need           milliAmount
	minAvailable   int64 // nanoseconds that an agent must stay available
	requirement    *deviceRequirement
	fixedFilter    *agentFilter // nil: every agent
	jobConstraints []job.Constraint
	uses           int
	minimum        capacityHint // what a task must find at the least
}

// newDemandClass returns the class of a demand; see classifyDemand.
func (x *clusterIndex) newDemandClass(number int32, d *Demand) *demandClass {
	cl := &demandClass{
		id: number, roleID: -1, gpus: clampInt32(d.Request.GPUs), portCount: clampInt32(d.Ports),
		hostPorts: requiredPorts(d), avoidsReserved: d.AvoidReserved, need: d.Amount.toMilli(), minAvailable: minAvailability(d.RunTime),
	}
	if id, ok := x.roleIDs[d.Role]; ok {
		cl.roleID = id
	}
	if cl.gpus > 0 && !d.Request.Share.IsWhole() {
		cl.wantsShares, cl.share, cl.milliPerDevice = true, d.Request.Share, milliOfShare(d.Request.Share)
	}
	cl.minimum = newCapacityHint(cl.need.cpus, cl.gpus)
	if cl.wantsShares {
		cl.minimum.gpus = 1
	}
	cl.requirement = x.findRequirement(d.Request)
	var fixed []job.Constraint
	for _, con := range d.Constraints {
		if con.DependsOnPeers() {
			cl.jobConstraints = append(cl.jobConstraints, con)
		} else {
			fixed = append(fixed, con)
		}
	}
	cl.fixedFilter = x.findFilter(fixed)
	return cl
}

func clampInt32(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func minAvailability(runs time.Duration) int64 {
	if runs <= 0 {
		return int64(defaultRunTime)
	}
	return int64(runs)
}

// Key is equal for demands that find the same places, the other tasks of
// their jobs aside.
func (d *Demand) Key() string { return string(d.appendKey(nil)) }

// appendKey writes all that tells classes apart. Texts carry their lengths.
func (d *Demand) appendKey(b []byte) []byte {
	b = appendText(b, d.Role)
	need := d.Amount.toMilli()
	for _, n := range [...]int64{need.cpus, need.mem, need.disk, int64(d.Ports), int64(d.RunTime), int64(len(d.HostPorts))} {
		b = binary.AppendVarint(b, n)
	}
	for _, p := range d.HostPorts {
		b = binary.AppendVarint(b, int64(p))
	}
	if d.AvoidReserved {
		b = append(b, 'B')
	}
	b = appendRequest(b, d.Request)
	return appendConstraints(b, d.Constraints)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

func appendRequest(b []byte, r gpu.Request) []byte {
	for _, n := range [...]int64{int64(r.GPUs), r.Share.MemMiB, int64(r.Share.MemPercent), int64(r.Share.Cores), r.MinMemMiB} {
		b = binary.AppendVarint(b, n)
	}
	b = appendTexts(b, r.Types.Include)
	b = appendTexts(b, r.Types.Exclude)
	b = appendTexts(b, r.Devices.Include)
	b = appendTexts(b, r.Devices.Exclude)
	b = appendText(b, r.MinDriver)
	b = appendText(b, r.MinCUDA)
	return appendText(b, string(r.Topology))
}

func appendConstraints(b []byte, list []job.Constraint) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, con := range list {
		b = appendText(b, con.Field)
		b = appendText(b, string(con.Operator))
		b = appendText(b, con.Value)
	}
	return b
}
