package sched

import (
	"time"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Event is something that happened: one of the types below.
type Event interface{ isEvent() }

type (
	// Subscribed: the master took the framework on, under that id.
	Subscribed struct{ FrameworkID string }
	// Disconnected: the subscription is gone, and all offers with it.
	Disconnected struct{}
	// Offers: the master offers resources.
	OffersReceived struct{ Offers []Offer }
	// OfferRescinded: an offer is void. An answer under way comes too late.
	OfferRescinded struct{ OfferID string }
	// TaskUpdate: the status of a task.
	TaskUpdate struct {
		TaskID  string
		AgentID string
		State   job.State
		// UUID is set where the master wants an acknowledgement.
		UUID     []byte
		Message  string
		Reason   string
		ExitCode *int
		// Reconciled: the master repeats what it knows; the rest of the
		// status says nothing new.
		Reconciled bool
		// Drained: the agent is being drained; the task has done no wrong.
		Drained bool
		// Mismatch is set where the task was not started, for its image cannot
		// run on that agent.
		Mismatch ImageMismatch
		// Healthy is what the task's health check says, nil where it says
		// nothing; Check what its check has found, "" likewise.
		Healthy *bool
		Check   string
		// Addresses are the IP addresses by which the task is reached, as its
		// agent tells them; empty where it says nothing.
		Addresses []string
	}
	// SubmitJob: somebody wants a job run. Admit said that it may.
	SubmitJob struct{ Spec job.Spec }
	// KillJob: somebody wants a job ended; with Force without its kill grace, also
	// where its end has been asked for already.
	KillJob struct {
		Job   string
		Force bool
	}
	// ForgetJob: somebody needs no longer know of a job that has ended.
	ForgetJob struct{ Job string }
	// ScaleService: somebody wants a service to have so many tasks. AdmitScale said
	// that it may.
	ScaleService struct {
		Job   string
		Tasks int
	}
	// StopTasks: somebody wants tasks ended. Those of a service are started again
	// or, with Retire, are fewer from then on.
	StopTasks struct {
		TaskIDs []string
		Retire  bool
	}
	// EndBackoff: tasks that pause after failures need not do so any longer.
	EndBackoff struct{ TaskIDs []string }
	// PutDocument: something is to be remembered beside the jobs. An empty Value
	// forgets it.
	PutDocument struct {
		Key   string
		Value []byte
	}
	// CountersChanged is what has been counted up to now, for who goes on counting.
	CountersChanged struct{ Value []byte }
	// CordonHost: an operator wants no new tasks on the agents of a host and, with
	// Drain, none of those that are there either. Host is as State.Host tells.
	CordonHost struct {
		Host, Reason string
		Drain        bool
	}
	// UncordonHost takes a Cordon back.
	UncordonHost struct{ Host string }
	// SetQuota: an operator bounds what a role may hold, whatever the table of
	// roles says. No bound is an empty Quota; a nil one is the table's again.
	SetQuota struct {
		Role  string
		Quota quota.Quota
	}
	// Tick: time has passed.
	Tick struct{}
	// Cycle: no more events for now, answer the offers.
	Cycle struct{}
	// PolicyChanged: roles, weights, quotas or the placing of tasks have changed.
	// ValidatePolicy found nothing wrong with it.
	PolicyChanged struct{ Policy Policy }
	// AcceptFailed: an ACCEPT did not reach the master, or it refused it.
	// The tasks may run nevertheless: a connection can break after the call.
	AcceptFailed struct{ TaskIDs []string }
	// Agents: the agents the master has now, whoever uses them.
	AgentsListed struct{ Agents []Agent }
	// InverseOffers: an operator would like agents free for maintenance.
	InverseOffersReceived struct{ Offers []InverseOffer }
	// OperationUpdated: the status of an operation on resources. We make none
	// with an id; what comes is of somebody else's making, and acknowledged.
	OperationUpdated OperationStatus
	// AgentLost: the master removed the agent.
	AgentLost struct{ AgentID string }
)

// OperationStatus names one status of an operation.
type OperationStatus struct {
	ID, AgentID, ProviderID string
	// UUID is set where the master wants an acknowledgement.
	UUID []byte
}

// InverseOffer asks whether an agent may be taken away. A zero Duration is
// for good.
type InverseOffer struct {
	ID, AgentID string
	Start       time.Time
	Duration    time.Duration
}

// Agent is what an agent has in all, used or not.
type Agent struct {
	ID        string
	Hostname  string
	GPUs      int
	Types     []string
	Inventory []gpu.Device
	// Shared are the devices that tasks share.
	Shared []SharedDevice
	// Driver, CUDA, Attributes, Region and Zone are as in an Offer.
	Driver, CUDA string
	Attributes   []Attribute
	Region, Zone string
	// Draining agents take no new tasks.
	Draining bool
}

func (Subscribed) isEvent()            {}
func (Disconnected) isEvent()          {}
func (OffersReceived) isEvent()        {}
func (OfferRescinded) isEvent()        {}
func (TaskUpdate) isEvent()            {}
func (SubmitJob) isEvent()             {}
func (KillJob) isEvent()               {}
func (ForgetJob) isEvent()             {}
func (ScaleService) isEvent()          {}
func (StopTasks) isEvent()             {}
func (EndBackoff) isEvent()            {}
func (PutDocument) isEvent()           {}
func (CountersChanged) isEvent()       {}
func (CordonHost) isEvent()            {}
func (UncordonHost) isEvent()          {}
func (SetQuota) isEvent()              {}
func (Tick) isEvent()                  {}
func (Cycle) isEvent()                 {}
func (PolicyChanged) isEvent()         {}
func (AcceptFailed) isEvent()          {}
func (AgentsListed) isEvent()          {}
func (OperationUpdated) isEvent()      {}
func (AgentLost) isEvent()             {}
func (InverseOffersReceived) isEvent() {}
