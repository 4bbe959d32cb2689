package fit

import (
	"encoding/binary"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Demand contains the requirements of each of several equal tasks.
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
	Ports     int
	HostPorts []int
	// PortSeed determines which ports the tasks get for any port. It does not matter for where they fit.
	PortSeed uint64
	// Request describes the GPUs that the task needs. It needs none if Request.GPUs is 0.
	Request gpu.Request
	// Constraints limit the agents by their fields, and by those of the agents of the job's other tasks.
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

// Placement contains the agent and the resources that one task gets.
type Placement struct {
	// Agent is an index in Cluster.Agents.
	Agent int
	// DeviceIDs are the UUIDs of whole devices that are not shared; nil if the
	// agent offers GPUs by count alone.
	DeviceIDs []string
	// GPUs counts devices, whole or shared.
	GPUs int
	// Ports are the host ports of the task, the required ones first.
	Ports []int
	// Shares are parts of shared devices, one for each device that DeviceIDs
	// does not have. A task for whole devices has all of each.
	Shares []gpu.DeviceShare
}

// Key returns equal strings for demands that fit the same agents, apart from
// the other tasks of their jobs.
func (d *Demand) Key() string { return string(d.appendKey(nil)) }

// appendKey appends all fields that a class depends on. Strings have a length prefix, so that different demands have
// different keys.
func (d *Demand) appendKey(b []byte) []byte {
	b = index.AppendText(b, d.Role)
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
	b = hardware.AppendRequest(b, d.Request)
	return appendConstraints(b, d.Constraints)
}

func appendConstraints(b []byte, list []job.Constraint) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, con := range list {
		b = index.AppendText(b, con.Field)
		b = index.AppendText(b, string(con.Operator))
		b = index.AppendText(b, con.Value)
	}
	return b
}

// requiredPorts returns the demand's host ports, at most as many as it has
// ports, or nil if all may be any port.
func requiredPorts(d *Demand) []int {
	if !slices.ContainsFunc(d.HostPorts, func(p int) bool { return p > 0 }) {
		return nil
	}
	return slices.Clone(d.HostPorts[:min(len(d.HostPorts), d.Ports)])
}

// TaskResources are the resources that a task has on an agent.
type TaskResources struct {
	// Amount includes what the task's executor has.
	Amount Amount
	// GPUs counts devices that are not shared. DeviceIDs names them if the agent has IDs.
	GPUs      int
	DeviceIDs []string
	// Shares are its parts of shared devices, or all of them.
	Shares []gpu.DeviceShare
	Ports  []int
}
