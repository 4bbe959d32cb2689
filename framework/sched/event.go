package sched

import (
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Event is something that happened: one of the types below.
type Event interface{ event() }

type (
	// Subscribed: the master took the framework on, under that id.
	Subscribed struct{ FrameworkID string }
	// Disconnected: the subscription is gone, and all offers with it.
	Disconnected struct{}
	// Offers: the master offers resources.
	Offers struct{ Offers []Offer }
	// Rescind: an offer is void. An answer under way comes too late.
	Rescind struct{ OfferID string }
	// Update: the status of a task.
	Update struct {
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
		// Unfit is set where the task was not started, for its image cannot
		// run on that agent.
		Unfit Unfit
		// Healthy is what the task's health check says, nil where it says
		// nothing; Check what its check has found, "" likewise.
		Healthy *bool
		Check   string
		// Addresses are the IP addresses by which the task is reached, as its
		// agent tells them; empty where it says nothing.
		Addresses []string
	}
	// Submit: somebody wants a job run. Admit said that it may.
	Submit struct{ Spec job.Spec }
	// Kill: somebody wants a job ended; with Force without its kill grace, also
	// where its end has been asked for already.
	Kill struct {
		Job   string
		Force bool
	}
	// Forget: somebody needs no longer know of a job that has ended.
	Forget struct{ Job string }
	// Scale: somebody wants a service to have so many tasks. AdmitScale said
	// that it may.
	Scale struct {
		Job   string
		Tasks int
	}
	// Stop: somebody wants tasks ended. Those of a service are started again
	// or, with Retire, are fewer from then on.
	Stop struct {
		TaskIDs []string
		Retire  bool
	}
	// Wake: tasks that pause after failures need not do so any longer.
	Wake struct{ TaskIDs []string }
	// Put: something is to be remembered beside the jobs. An empty Value
	// forgets it.
	Put struct {
		Key   string
		Value []byte
	}
	// Counted is what has been counted up to now, for who goes on counting.
	Counted struct{ Value []byte }
	// Cordon: an operator wants no new tasks on the agents of a host and, with
	// Drain, none of those that are there either. Host is as State.Host tells.
	Cordon struct {
		Host, Reason string
		Drain        bool
	}
	// Uncordon takes a Cordon back.
	Uncordon struct{ Host string }
	// SetQuota: an operator bounds what a role may hold, whatever the table of
	// roles says. No bound is an empty Quota; a nil one is the table's again.
	SetQuota struct {
		Role  string
		Quota Quota
	}
	// Tick: time has passed.
	Tick struct{}
	// Cycle: no more events for now, answer the offers.
	Cycle struct{}
	// PolicyChanged: roles, weights, quotas or the placing of tasks have changed.
	// CheckPolicy found nothing wrong with it.
	PolicyChanged struct{ Policy Policy }
	// AcceptFailed: an ACCEPT did not reach the master, or it refused it.
	// The tasks may run nevertheless: a connection can break after the call.
	AcceptFailed struct{ TaskIDs []string }
	// Agents: the agents the master has now, whoever uses them.
	Agents struct{ Agents []Agent }
	// InverseOffers: an operator would like agents free for maintenance.
	InverseOffers struct{ Offers []InverseOffer }
	// OperationUpdate: the status of an operation on resources. We make none
	// with an id; what comes is of somebody else's making, and acknowledged.
	OperationUpdate Operation
	// AgentLost: the master removed the agent.
	AgentLost struct{ AgentID string }
)

// Operation names one status of an operation.
type Operation struct {
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
	Shared []Shared
	// Driver, CUDA, Attributes, Region and Zone are as in an Offer.
	Driver, CUDA string
	Attributes   []Attribute
	Region, Zone string
	// Draining agents take no new tasks.
	Draining bool
}

func (Subscribed) event()      {}
func (Disconnected) event()    {}
func (Offers) event()          {}
func (Rescind) event()         {}
func (Update) event()          {}
func (Submit) event()          {}
func (Kill) event()            {}
func (Forget) event()          {}
func (Scale) event()           {}
func (Stop) event()            {}
func (Wake) event()            {}
func (Put) event()             {}
func (Counted) event()         {}
func (Cordon) event()          {}
func (Uncordon) event()        {}
func (SetQuota) event()        {}
func (Tick) event()            {}
func (Cycle) event()           {}
func (PolicyChanged) event()   {}
func (AcceptFailed) event()    {}
func (Agents) event()          {}
func (OperationUpdate) event() {}
func (AgentLost) event()       {}
func (InverseOffers) event()   {}
