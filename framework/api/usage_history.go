package api

// MaxHistoryHours limits how much of the cluster's history is kept and requested: 30 days.
const MaxHistoryHours = 30 * 24

// ClusterHistory is the response to GET /v1/usage/history: how many GPUs were in use, by type.
// The lists of each type have one value for each time.
type ClusterHistory struct {
	// Times are in seconds since 1970, oldest first. A time stands for the IntervalSeconds
	// before it.
	Times           []int64 `json:"times"`
	IntervalSeconds int     `json:"interval_seconds"`
	// WaitingGPUs are the GPUs that waiting tasks requested.
	WaitingGPUs []float64     `json:"waiting_gpus"`
	Types       []TypeHistory `json:"types"`
}

// TypeHistory is the use of the GPUs of one type.
type TypeHistory struct {
	Type string `json:"type"`
	// GPUs counts the agents' GPUs, Held the GPUs that tasks of this scheduler held. Shares count
	// as fractions.
	GPUs []float64 `json:"gpus"`
	Held []float64 `json:"held"`
	// Duty is the mean duty of the held GPUs, from 0 to 1, nil if it was not measured.
	Duty []*float64 `json:"duty"`
}

// JobUsageHistory is the response to GET /v1/jobs/{reference}/usage: the usage of the job's GPUs over
// its whole run. The tasks can falsify it.
type JobUsageHistory struct {
	// Times are in seconds since 1970, oldest first.
	Times           []int64 `json:"times"`
	IntervalSeconds int     `json:"interval_seconds"`
	// Duty is the mean of all GPUs, DutyMax that of the busiest, nil if not measured. MemUsedMiB
	// is the mean of all GPUs.
	Duty       []*float64 `json:"duty"`
	DutyMax    []*float64 `json:"duty_max"`
	MemUsedMiB []*float64 `json:"mem_used_mib"`
	// MemMiB is the memory of the largest GPU, GPUHours the time for which tasks held GPUs.
	MemMiB   float64 `json:"mem_mib"`
	GPUHours float64 `json:"gpu_hours"`
}
