package api

import (
	"time"

	"mesos-gpu/job"
)

// MaxAccountingGroups is the largest number of groups in an AccountingReport.
const MaxAccountingGroups = 100_000

// AccountingKeys are the keys by which ended attempts can be grouped.
func AccountingKeys() []string {
	return []string{"user", "role", "type", "job", "state", "reason", "host", "device", "day", "month"}
}

// AccountingQuery selects ended attempts. Zero fields select all.
type AccountingQuery struct {
	// By are the keys of the groups, each one of AccountingKeys.
	By []string
	// Since and Until limit the times of the ends; Until is exclusive.
	Since, Until time.Time
	// User, Role and Job select attempts. Job may be NAME@RUN. State is a state of tasks.
	User, Role, Job string
	State           job.State
}

// AccountedAttempt is an ended attempt of a task.
type AccountedAttempt struct {
	Task    string    `json:"task"`
	Job     string    `json:"job"`
	Run     int       `json:"run"`
	Index   int       `json:"index"`
	Attempt int       `json:"attempt"`
	Owner   string    `json:"owner,omitempty"`
	Role    string    `json:"role"`
	Host    string    `json:"hostname,omitempty"`
	State   job.State `json:"state"`
	// Reason is why it ended in another state than FINISHED.
	Reason   string `json:"reason,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// Queued is when it began to wait for resources. Launched and Started are zero if it did not come that far.
	Queued   time.Time `json:"queued"`
	Launched time.Time `json:"launched,omitzero"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended"`
	CPUs     float64   `json:"cpus,omitempty"`
	// GPUTypes are the GPUs that it held by type, Devices those with known UUIDs. A share counts as a fraction.
	GPUTypes map[string]float64 `json:"gpu_types,omitempty"`
	Devices  map[string]float64 `json:"devices,omitempty"`
	// WaitSeconds is the time from Queued to Launched, or to Ended without a launch. GPUSeconds is the time from
	// Launched to Ended, times the GPUs.
	WaitSeconds float64 `json:"wait_seconds"`
	GPUSeconds  float64 `json:"gpu_seconds"`
	// Usage is the usage of the GPUs, nil if it was not measured or is not known yet.
	Usage *MeasuredUsage `json:"usage,omitempty"`
}

// MeasuredUsage is the usage of GPUs while tasks held them, as measured by the agents. A task can falsify it.
type MeasuredUsage struct {
	// GPUSeconds is the measured time of all GPUs together, BusyGPUSeconds the part of it in which kernels ran.
	GPUSeconds     float64 `json:"gpu_seconds"`
	BusyGPUSeconds float64 `json:"busy_gpu_seconds"`
	// MemMiBSeconds is the memory over the measured time, MemUsedMiBSeconds the used part of it. MaxMemMiB is the most
	// that was in use of one GPU.
	MemMiBSeconds     float64 `json:"mem_mib_seconds"`
	MemUsedMiBSeconds float64 `json:"mem_used_mib_seconds"`
	MaxMemMiB         float64 `json:"max_mem_mib"`
	// Joules is the energy by the GPUs' own counters, 0 if they have none. It omits shared GPUs.
	Joules float64 `json:"joules"`
	// Simulated means that values are simulated.
	Simulated bool `json:"simulated,omitempty"`
}

// AddUsage adds other usage.
func (m *MeasuredUsage) AddUsage(o *MeasuredUsage, fraction float64) {
	m.GPUSeconds += o.GPUSeconds * fraction
	m.BusyGPUSeconds += o.BusyGPUSeconds * fraction
	m.MemMiBSeconds += o.MemMiBSeconds * fraction
	m.MemUsedMiBSeconds += o.MemUsedMiBSeconds * fraction
	m.MaxMemMiB = max(m.MaxMemMiB, o.MaxMemMiB)
	m.Joules += o.Joules * fraction
	m.Simulated = m.Simulated || o.Simulated
}

// Duty returns the fraction of the measured time in which kernels ran; false if nothing was measured.
func (m *MeasuredUsage) Duty() (float64, bool) {
	if m.GPUSeconds <= 0 {
		return 0, false
	}
	return m.BusyGPUSeconds / m.GPUSeconds, true
}

// MemFraction returns the fraction of the memory that was in use on average; false if it was not measured.
func (m *MeasuredUsage) MemFraction() (float64, bool) {
	if m.MemMiBSeconds <= 0 {
		return 0, false
	}
	return m.MemUsedMiBSeconds / m.MemMiBSeconds, true
}

// AccountingSums are sums over ended attempts.
type AccountingSums struct {
	// Attempts are the ended attempts, Unfinished those that ended otherwise than FINISHED. An attempt with GPUs of
	// several types or devices counts in each of their groups.
	Attempts   int `json:"attempts"`
	Unfinished int `json:"unfinished"`
	// GPUSeconds is the time for which GPUs were held. UnfinishedGPUSeconds is the part of the unfinished attempts.
	GPUSeconds           float64 `json:"gpu_seconds"`
	UnfinishedGPUSeconds float64 `json:"unfinished_gpu_seconds"`
	// CPUSeconds is the time for which CPUs were held. Like the GPU time it is divided among the groups of an attempt.
	CPUSeconds float64 `json:"cpu_seconds"`
	// WaitSeconds is the time for which attempts waited.
	WaitSeconds float64 `json:"wait_seconds"`
	// Usage is the usage of the GPUs in the measured part of the time.
	Usage MeasuredUsage `json:"usage"`
}

// AccountingGroup has the sums of the attempts with the same values of the keys.
type AccountingGroup struct {
	// Keys are the values by key. A value is "" where it is not known, or the attempt had no GPU.
	Keys map[string]string `json:"keys"`
	AccountingSums
}

// AccountingReport is the response to GET /v1/accounting.
type AccountingReport struct {
	// By are the keys of the groups.
	By []string `json:"by"`
	// Groups are sorted by GPU seconds, the most first.
	Groups []AccountingGroup `json:"groups"`
	// Total counts each attempt once.
	Total AccountingSums `json:"total"`
	// Oldest is the oldest end that is stored, zero if none exists.
	Oldest time.Time `json:"oldest,omitzero"`
}

// AccountingList is the response to GET /v1/accounting/attempts, oldest end first.
type AccountingList struct {
	Attempts []AccountedAttempt `json:"attempts"`
	Next     string             `json:"next,omitempty"`
}

// JobAccounting is the response to GET /v1/jobs/{reference}/accounting: the sums of one run of a job.
type JobAccounting struct {
	Job string `json:"job"`
	Run int    `json:"run"`
	AccountingSums
	// Pending is the number of ended attempts whose usage is still read from their agents.
	Pending int `json:"pending"`
}
