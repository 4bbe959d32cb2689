package api

import (
	"mesos-gpu/gpu"
)

// MaxUsageMinutes limits the history that is kept, in minutes.
const MaxUsageMinutes = 15

// TaskUsage is the latest usage of a running task's GPUs. A task can falsify it, so it is
// only for display.
type TaskUsage struct {
	Task     string `json:"task"`
	Job      string `json:"job"`
	Index    int    `json:"index"`
	Role     string `json:"role"`
	Hostname string `json:"hostname"`
	// Devices has one entry for each GPU; one without a sample has only a UUID. It is
	// empty if the agent offers GPUs by count.
	Devices []gpu.DeviceUsage `json:"devices"`
	// Simulated means that the values are simulated.
	Simulated bool `json:"simulated,omitempty"`
	// AgeSeconds is the age of the values, by the clocks of agent and scheduler; nil if
	// there are no values.
	AgeSeconds *float64 `json:"age_seconds,omitempty"`
	// Note says why values are missing or outdated.
	Note string `json:"note"`
	// History is nil if it was not requested or no samples exist.
	History *UsageHistory `json:"past,omitempty"`
}

// UsageHistory is the usage of a task's GPUs in the last minutes, as recorded by the
// leading scheduler. It omits outdated values.
type UsageHistory struct {
	// AgesSeconds are the ages of the values, oldest first. The interval is usually
	// 15 s, and 40 s with 8,000 tasks that hold GPUs.
	AgesSeconds []float64       `json:"ages_seconds"`
	Devices     []DeviceHistory `json:"devices"`
}

// DeviceHistory has one value for each age, nil if unknown.
type DeviceHistory struct {
	UUID       string     `json:"uuid"`
	Duty       []*float64 `json:"duty"`
	MemUsedMiB []*float64 `json:"mem_used_mib"`
}

// UsageList is the response to GET /v1/usage.
type UsageList struct {
	Tasks []TaskUsage `json:"tasks"`
	Next  string      `json:"next,omitempty"`
}
