package fit

import (
	"encoding/binary"
	"math"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Demand is what each of several equal tasks needs.
type Demand struct {
	// Job is the name that explanations use.
	Job string
	// Role is the role whose offers the tasks may use.
	Role string
	// Amount includes Overhead, what the executor needs. Only explanations
	// show Overhead separately.
	Amount, Overhead Amount
	// Ports counts host ports. HostPorts has the numbers of the first of them;
	// 0 is any port. Ports beyond its length may be any.
	Ports       int
	HostPorts   []int
	Request     gpu.Request
	Constraints []job.Constraint
	// RunTime is how long a task runs; 0 if it is not known.
	RunTime time.Duration
	// PeerAgents has the agent of each live task of the job, for constraints
	// that depend on them.
	PeerAgents []*AgentResources
	// AvoidReserved is set for tasks that may run longer than a reservation can
	// wait: they do not use reserved resources.
	AvoidReserved bool
}

// Placement is what one task gets.
type Placement struct {
	// Agent is an index in Cluster.Agents.
	Agent int
	// DeviceIDs are the UUIDs of whole devices; nil if the agent offers GPUs by
	// count alone.
	DeviceIDs []string
	// GPUs counts devices, whole or shared.
	GPUs  int
	Ports []int
	// Shares are parts of shared devices, one for each device.
	Shares []gpu.DeviceShare
}

// defaultRunTime is how long an agent must stay available for a task of unknown
// run time.
const defaultRunTime = time.Hour

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

// Key returns equal strings for demands that fit the same agents, apart from
// the other tasks of their jobs.
func (d *Demand) Key() string { return string(d.appendKey(nil)) }

// appendKey appends all fields that a class depends on. Strings have a length prefix, so that different demands have
// different keys.
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
