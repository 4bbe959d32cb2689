package job

// WaitReason is why tasks of a job wait.
type WaitReason struct {
	// Text states it for users, with numbers.
	Text string
	// Exclusions count the agents that each requirement excludes, in the order of
	// ExclusionCause. There are none while no task waits for resources.
	Exclusions []ExclusionCount
}

// ExclusionCause is a kind of requirement that an agent does not satisfy.
type ExclusionCause int

const (
	// ExcludedByRole: the agent offers nothing to the job's role.
	ExcludedByRole ExclusionCause = iota
	// ExcludedByConstraint: a constraint of the job.
	ExcludedByConstraint
	// ExcludedByMaintenance: the agent is cordoned or draining, or its maintenance
	// begins too early.
	ExcludedByMaintenance
	// ExcludedForScarceGPUs: the job leaves agents with free GPUs to jobs with GPUs.
	ExcludedForScarceGPUs
	// Too few resources, including those that are reserved for jobs ahead.
	ExcludedByCPUs
	ExcludedByMemory
	ExcludedByDisk
	// ExcludedByGPUs: too few GPUs of the types and properties that the job asks for.
	ExcludedByGPUs
	ExcludedByPorts
)

// ExclusionCount is how many agents one cause excludes among those that all earlier causes
// leave.
type ExclusionCount struct {
	Cause ExclusionCause
	// Agents counts the agents that earlier causes leave; Excluded is the number of them that
	// this cause excludes.
	Agents, Excluded int
}
