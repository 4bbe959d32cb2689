package api

import (
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Queued is a job with tasks that wait for a place.
type Queued struct {
	// Position counts from 1.
	Position  int       `json:"position"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Priority  int       `json:"priority"`
	Submitted time.Time `json:"submitted"`
	// Waiting of its Tasks have no place.
	Tasks   int `json:"tasks"`
	Waiting int `json:"waiting"`
	// GPUs is what each task wants, as "2 x A100"; "" for none.
	GPUs string `json:"gpus"`
	// Reason is JobView's Waits.
	Reason string `json:"reason"`
}

// QueueList answers GET /v1/queue.
type QueueList struct {
	Jobs []Queued `json:"jobs"`
}

// Role is a role as it is now.
type Role struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight"`
	Order    string  `json:"order"`
	Policy   string  `json:"policy"`
	Backfill bool    `json:"backfill"`
	// Quota bounds the GPUs by type, "*" all of them; QuotaSet says that it is
	// not the roles file's but was set since.
	Quota    map[string]int `json:"quota"`
	QuotaSet bool           `json:"quota_set"`
	// Held are the GPUs that its tasks and those of roles below it hold, by
	// type; "*" is the sum. A share counts as a fraction.
	Held map[string]float64 `json:"held"`
	// Waiting counts its tasks that wait for a place.
	Waiting int `json:"waiting"`
}

// RoleList answers GET /v1/roles.
type RoleList struct {
	Roles []Role `json:"roles"`
}

// QuotaChange sets a role's quota, as the roles file writes it: "V100=8, *=16".
// "" is no bound, null the roles file's again.
type QuotaChange struct {
	Quota *string `json:"quota"`
}

// Cordoning says why an agent shall get no tasks.
type Cordoning struct {
	Reason string `json:"reason"`
}

// Demand is what equal tasks wait for though nothing but devices in use is in
// their way.
type Demand struct {
	// Type is the GPU type where only one will do, else ""; Types are those
	// that will do, none for any but NotTypes.
	Type     string   `json:"type"`
	Types    []string `json:"types"`
	NotTypes []string `json:"not_types,omitempty"`
	// GPUs are lacking in all, PerAgent of them on one agent. For shares of
	// devices GPUs is what those are worth together.
	GPUs     int `json:"gpus"`
	PerAgent int `json:"per_agent"`
	// Share is set where a task wants that much of each of PerAgent devices.
	Share *gpu.Share `json:"share,omitempty"`
	// MemMiB is the least memory of a device, Topology how the devices of one
	// task must hang together: "nvlink", "same-numa" or "".
	MemMiB   int64  `json:"mem_mib"`
	Topology string `json:"topology"`
	// MinDriver and MinCUDA are the oldest versions that will do.
	MinDriver string `json:"min_driver,omitempty"`
	MinCUDA   string `json:"min_cuda,omitempty"`
	// Constraints are those that the agent must meet, too.
	Constraints []job.Constraint `json:"constraints,omitempty"`
	// Tasks of Jobs, of Roles, lack it.
	Tasks int      `json:"tasks"`
	Jobs  []string `json:"jobs"`
	Roles []string `json:"roles"`
	// CPUs and TaskMemMiB are what each task needs beside its GPUs, its
	// executor included.
	CPUs       float64 `json:"cpus"`
	TaskMemMiB float64 `json:"task_mem_mib"`
}

// DemandList answers GET /v1/demand.
type DemandList struct {
	Demand []Demand `json:"demand"`
}
