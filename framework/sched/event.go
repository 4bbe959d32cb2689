package sched

import (
	"time"

	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Event is one of the types below.
type Event interface{ isEvent() }

type (
	// Subscribed: the master has accepted the subscription and assigned the id.
	Subscribed struct{ FrameworkID string }
	// Disconnected: the subscription has ended; all offers are void.
	Disconnected struct{}
	// OffersReceived: the master offers resources. The State keeps the Offers: the caller must not change them.
	OffersReceived struct{ Offers []Offer }
	// OfferRescinded: an offer is void. An ACCEPT under way fails.
	OfferRescinded struct{ OfferID string }
	// TaskUpdate: an agent or the master reports the status of a task.
	TaskUpdate struct {
		// TaskID is the attempt that the update is about. An update of an unknown one is acknowledged and ignored.
		TaskID  string
		AgentID string
		// State is "" for a state that has no meaning here.
		State job.State
		// UUID is set if the update must be acknowledged.
		UUID     []byte
		Message  string
		Reason   string
		ExitCode *int
		// Proof states whether LOST proves the end; it is ProvenEnd for all other states.
		Proof EndProof
		// MachineFault is why the machine could not start the task, "" for other ends. It does not count as a failure.
		MachineFault string
		// Reconciled: the master answers a reconciliation. Only the state is new, not the other fields.
		Reconciled bool
		// Drained: the task ended because its agent is being drained. It does not count as a failure.
		Drained bool
		// Mismatch is set if the task was not started because its image cannot run on the agent.
		Mismatch ImageMismatch
		// Healthy is the result of the health check, nil if the update has none. Check is the result of the task's
		// check, "" if the update has none.
		Healthy *bool
		Check   string
		// HealthFailure is the failed attempt of a health check that the update reports, nil if it reports none.
		HealthFailure *job.HealthFailure
		// Addresses are the IP addresses of the task that its agent reports; empty if the update has none.
		Addresses []string
	}
	// SubmitJob: a user submits a job that Admit accepts.
	SubmitJob struct {
		Spec job.Spec
		// RetryRun, unless it is zero, is a run of the job that AdmitRetry accepts: only its tasks that did not finish
		// run again. The others are FINISHED in the new run.
		RetryRun job.RunID
	}
	// KillJob: a user kills a job. Force skips the kill grace, also for a kill that was requested before. By is the user,
	// "" if it is unknown.
	KillJob struct {
		Job, By string
		Force   bool
	}
	// EditJob: a user gives a job, NAME@RUN or NAME for the newest run, a specification that AdmitEdit accepts. Keys are the
	// changed keys for its history, as in job.Change.
	EditJob struct {
		Job  string
		Spec job.Spec
		By   string // as of KillJob
		Keys string
	}
	// HoldJob: a user keeps the waiting tasks of a job from being placed. It replaces an earlier hold of the job.
	HoldJob struct{ Job, By, Reason string }
	// ReleaseJob ends the hold of a job.
	ReleaseJob struct{ Job, By string }
	// RequeueJob: a user stops the placed tasks of a job, which are queued again, and with Hold holds the job.
	RequeueJob struct {
		Job, By, Reason string
		Hold            bool
	}
	// HoldJobsOf: an operator keeps the waiting tasks of all jobs of a user, or of a role and the roles below it, from
	// being placed. With Drain their placed tasks are stopped and queued again.
	HoldJobsOf struct {
		Target     job.HoldTarget
		By, Reason string
		Drain      bool
	}
	// ReleaseJobsOf ends such a hold.
	ReleaseJobsOf struct{ Target job.HoldTarget }
	// ForgetJob: a user removes the records of a job that has ended: of the run NAME@RUN, or for NAME alone of all
	// runs of the owner of the newest one.
	ForgetJob struct{ Job string }
	// ScaleService: a user, or the scheduler for the Reason, changes the number of a service's tasks, which AdmitScale
	// accepts.
	ScaleService struct {
		Job    string
		Tasks  int
		By     string // as of KillJob
		Reason string
	}
	// UpdateService: a user gives a service, named as in EditJob, another specification, which AdmitUpdate accepts.
	UpdateService struct {
		Job      string
		Spec     job.Spec
		By, Keys string // as of EditJob
	}
	// StopTasks: a user stops single tasks. A service starts others in their place or, with Retire, has fewer tasks.
	StopTasks struct {
		TaskIDs []string
		Retire  bool
		By      string // as of KillJob
		Reason  string // as of ScaleService
	}
	// ClientConnected and ClientDisconnected: a client of the API has connected to a job, and has left it. They determine
	// when the job has been idle for its idle timeout.
	ClientConnected    struct{ Job string }
	ClientDisconnected struct{ Job string }
	// EndBackoff: waiting tasks that pause after a failure may start at once.
	EndBackoff struct{ TaskIDs []string }
	// PutDocument: an extension stores a document; an empty Value deletes it.
	PutDocument struct {
		Key   string
		Value []byte
	}
	// CountersChanged: metric counters that must survive a failover.
	CountersChanged struct{ Value []byte }
	// AttemptsAccounted: the accounting has stored the ends of attempts.
	AttemptsAccounted struct{ TaskIDs []string }
	// NotificationsAttempted: deliveries of notifications have succeeded or failed.
	NotificationsAttempted struct{ Results []notification.Result }
	// GPUDutiesMeasured: all GPUs of the runs in Idle have been idle for so long that targets are notified, for the reason.
	// A GPU of the runs in Busy is in use, so that targets are notified when they are idle again.
	GPUDutiesMeasured struct {
		Idle, Busy []job.RunID
		Reason     string
	}
	// RetryNotification: a user requests the delivery of a notification again. DropNotification: a user gives it up.
	RetryNotification struct{ ID string }
	DropNotification  struct{ ID string }
	// CordonHost: an operator excludes the agents of a host from placement and, with Drain, stops the tasks that run
	// there. ResolveHost returns the Host.
	CordonHost struct {
		Host, Reason string
		Drain        bool
	}
	// UncordonHost ends a cordon.
	UncordonHost struct{ Host string }
	// SetQuota: an operator sets the quota of a role at run time. An empty Quota has no limits; a nil one restores the
	// configured quota.
	SetQuota struct {
		Role  string
		Quota quota.Quota
	}
	// Tick: time has passed; deadlines are checked.
	Tick struct{}
	// Cycle: a burst of events has ended; waiting tasks are placed and offers answered.
	Cycle struct{}
	// PolicyChanged: the operator has changed a policy that is valid.
	PolicyChanged struct{ Policy Policy }
	// AcceptFailed: an ACCEPT failed. Its tasks may run nevertheless if the connection broke after the call.
	AcceptFailed struct{ TaskIDs []string }
	// AgentsListed: the agents that are registered with the master.
	AgentsListed struct{ Agents []Agent }
	// MesosQuotasListed: the quotas of GPUs that operators of Mesos have set for roles, and their usage.
	MesosQuotasListed struct{ Quotas []quota.MesosQuota }
	// BudgetUsageMeasured: what the accounting has of the attempts that ended in the month of Until, before Until. All ends that
	// the State recorded before Until are included.
	BudgetUsageMeasured struct {
		Until time.Time
		Used  budget.Usage
	}
	// InverseOffersReceived: the master requests agents for maintenance.
	InverseOffersReceived struct{ Offers []InverseOffer }
	// OperationUpdated: the status of an operation on resources. The scheduler starts none; it acknowledges updates of
	// operations that others started.
	OperationUpdated OperationStatus
	// AgentLost: the master removed the agent.
	AgentLost struct{ AgentID string }
	// AgentInspected: an agent answers an InspectAgent of the time At with the framework's tasks that it has: those that run
	// or are about to, and those that have ended.
	AgentInspected struct {
		AgentID string
		At      time.Time
		Tasks   []InspectedTask
	}
)

// The values of offers and agents that events carry.
type (
	Offer        = fit.Offer
	Amount       = fit.Amount
	Attribute    = fit.Attribute
	PortRange    = fit.PortRange
	SharedDevice = fit.SharedDevice
)

// ImageMismatch names the reason why an image cannot run on an agent.
type ImageMismatch string

const (
	// MismatchDriver: no agent with this driver version can run the image.
	MismatchDriver ImageMismatch = "driver"
	// MismatchGPU: an agent with other GPUs may run the image.
	MismatchGPU ImageMismatch = "gpu"
	// MismatchAnyAgent: no agent can run the image, because what it requires cannot be read.
	MismatchAnyAgent ImageMismatch = "any host"
)

// OperationStatus identifies a status update of an operation on resources.
type OperationStatus struct {
	ID, AgentID, ProviderID string
	// UUID is set if the update must be acknowledged.
	UUID []byte
}

// InverseOffer requests an agent for maintenance. A zero Duration means forever.
type InverseOffer struct {
	ID, AgentID string
	Start       time.Time
	Duration    time.Duration
}

// InspectedTask is an attempt that an agent has.
type InspectedTask struct {
	TaskID string
	State  job.State
}

// Agent is a registered agent with all its resources, used or free.
type Agent struct {
	ID       string
	Hostname string
	// URL is the address of the agent's API.
	URL string
	// Total is the total of CPUs, memory and disk, zero if it is unknown. Ports are all ports that it offers.
	Total     Amount
	Ports     []PortRange
	GPUs      int
	Types     []string
	Inventory []gpu.Device
	// Shared are the devices that tasks share. The fields below are as in an Offer.
	Shared []SharedDevice
	// Driver is the version of the NVIDIA driver, CUDA the newest CUDA version that it supports.
	Driver, CUDA string
	Attributes   []Attribute
	Region, Zone string
	// Draining: the agent takes no new tasks.
	Draining bool
}

func (Subscribed) isEvent()             {}
func (Disconnected) isEvent()           {}
func (OffersReceived) isEvent()         {}
func (OfferRescinded) isEvent()         {}
func (TaskUpdate) isEvent()             {}
func (SubmitJob) isEvent()              {}
func (KillJob) isEvent()                {}
func (EditJob) isEvent()                {}
func (HoldJob) isEvent()                {}
func (ReleaseJob) isEvent()             {}
func (RequeueJob) isEvent()             {}
func (HoldJobsOf) isEvent()             {}
func (ReleaseJobsOf) isEvent()          {}
func (ForgetJob) isEvent()              {}
func (ScaleService) isEvent()           {}
func (UpdateService) isEvent()          {}
func (ClientConnected) isEvent()        {}
func (ClientDisconnected) isEvent()     {}
func (StopTasks) isEvent()              {}
func (EndBackoff) isEvent()             {}
func (PutDocument) isEvent()            {}
func (CountersChanged) isEvent()        {}
func (AttemptsAccounted) isEvent()      {}
func (NotificationsAttempted) isEvent() {}
func (GPUDutiesMeasured) isEvent()      {}
func (RetryNotification) isEvent()      {}
func (DropNotification) isEvent()       {}
func (CordonHost) isEvent()             {}
func (UncordonHost) isEvent()           {}
func (SetQuota) isEvent()               {}
func (Tick) isEvent()                   {}
func (Cycle) isEvent()                  {}
func (PolicyChanged) isEvent()          {}
func (AcceptFailed) isEvent()           {}
func (AgentsListed) isEvent()           {}
func (MesosQuotasListed) isEvent()      {}
func (BudgetUsageMeasured) isEvent()    {}
func (OperationUpdated) isEvent()       {}
func (AgentLost) isEvent()              {}
func (AgentInspected) isEvent()         {}
func (InverseOffersReceived) isEvent()  {}
