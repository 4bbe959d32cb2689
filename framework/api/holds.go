package api

import "mesos-gpu/job"

// HoldRequest has the reason of a hold.
type HoldRequest struct {
	Reason string `json:"reason,omitempty"`
	// Drain also stops the placed tasks, which are queued again. Only holds of users and roles have it: RequeueRequest
	// is the counterpart for a job.
	Drain bool `json:"drain,omitempty"`
}

// RequeueRequest stops the placed tasks of a job, which are queued again.
type RequeueRequest struct {
	Reason string `json:"reason,omitempty"`
	// Hold also holds the job, so that its tasks wait until it is released.
	Hold bool `json:"hold,omitempty"`
}

// HoldView is a hold of all jobs of a user or a role.
type HoldView struct {
	Kind job.HoldKind `json:"kind"`
	Name string       `json:"name"`
	job.Hold
}

// HoldList is the response to GET /v1/holds, users first, by name.
type HoldList struct {
	Holds []HoldView `json:"holds"`
}
