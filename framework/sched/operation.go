package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/gpu"
)

// Operation is a call to the master: one of the types below. String returns one line for logs and tests.
type Operation interface {
	fmt.Stringer
	isOperation()
}

type (
	// AcceptOffers launches tasks on all offers of one agent to one role.
	AcceptOffers placement.AgentLaunches
	// DeclineOffers declines offers for the same time.
	DeclineOffers struct {
		// Refuse is how long Mesos need not offer the resources to the role again.
		Offers []DeclinedOffer
		Refuse time.Duration
	}
	// ReviveOffers requests offers to roles and removes their filters.
	ReviveOffers struct{ Roles []string }
	// SuppressOffers stops offers to roles.
	SuppressOffers struct{ Roles []string }
	// SetRoles replaces the framework's roles. Offers to other roles become void; tasks keep running.
	SetRoles struct{ Roles []string }
	// AnswerInverseOffers accepts or declines inverse offers.
	AnswerInverseOffers struct {
		// Accept reports that no task of this framework will run during the maintenance. Refuse is as in DeclineOffers.
		OfferIDs []string
		Accept   bool
		Refuse   time.Duration
	}
	// AcknowledgeUpdate acknowledges a recorded task update.
	AcknowledgeUpdate struct {
		// UUID identifies the update; the agent repeats it until it is acknowledged.
		AgentID, TaskID string
		UUID            []byte
	}
	// AcknowledgeOperation acknowledges an operation's status update.
	AcknowledgeOperation OperationStatus
	// KillTask kills a task; Force sends SIGKILL at once.
	KillTask struct {
		TaskID, AgentID string
		Force           bool
		// Grace, unless it is 0, replaces the task's kill grace: a task with a Warning is warned in the time by which it
		// is longer.
		Grace time.Duration
	}
	// ShutdownExecutor ends the executor of a task, whose id is the task's, with the task. It reaches the agent even if the
	// master does not know the task.
	ShutdownExecutor struct{ TaskID, AgentID string }
	// InspectAgent asks an agent by its API which tasks of the framework it has. AgentInspected, with the same time, is the
	// answer. The question may be lost.
	InspectAgent struct {
		// URL is the address of the agent's API, "" if it is unknown.
		AgentID, URL string
		At           time.Time
	}
	// ReconcileTasks requests the states of tasks. If Tasks is empty, it requests those of all of the framework's
	// tasks.
	ReconcileTasks struct{ Tasks []TaskLocation }
)

// The parts of operations that a plan determines.
type (
	TaskLaunch    = placement.TaskLaunch
	DeclinedOffer = placement.DeclinedOffer
)

// TaskLocation is a task and the agent on which it was placed.
type TaskLocation struct{ TaskID, AgentID string }

func (AcceptOffers) isOperation()         {}
func (DeclineOffers) isOperation()        {}
func (ReviveOffers) isOperation()         {}
func (SetRoles) isOperation()             {}
func (AnswerInverseOffers) isOperation()  {}
func (SuppressOffers) isOperation()       {}
func (AcknowledgeUpdate) isOperation()    {}
func (AcknowledgeOperation) isOperation() {}
func (KillTask) isOperation()             {}
func (ReconcileTasks) isOperation()       {}
func (ShutdownExecutor) isOperation()     {}
func (InspectAgent) isOperation()         {}

func (o AcceptOffers) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "accept %s on %s:", strings.Join(o.OfferIDs, " "), o.AgentID)
	for _, l := range o.Launches {
		fmt.Fprintf(&b, " %s", l.TaskID)
		if _, devices := gpu.ExcludeShared(len(l.DeviceIDs), l.DeviceIDs, l.Shares); len(l.DeviceIDs) > 0 {
			for _, share := range l.Shares {
				devices = append(slices.Clip(devices), share.String())
			}
			fmt.Fprintf(&b, "[%s]", strings.Join(devices, " "))
		}
	}
	return b.String()
}

func (o DeclineOffers) String() string {
	lines := make([]string, len(o.Offers))
	for i, d := range o.Offers {
		lines[i] = fmt.Sprintf("decline %s for %s: %s", d.OfferID, d.Refuse, d.Reason)
	}
	return strings.Join(lines, "\n")
}

func (o ReviveOffers) String() string {
	return strings.Join(append([]string{"revive"}, o.Roles...), " ")
}
func (o SuppressOffers) String() string {
	return strings.Join(append([]string{"suppress"}, o.Roles...), " ")
}
func (o SetRoles) String() string { return strings.Join(append([]string{"roles"}, o.Roles...), " ") }

func (o AnswerInverseOffers) String() string {
	verb := "decline"
	if o.Accept {
		verb = "accept"
	}
	return fmt.Sprintf("%s inverse %s", verb, strings.Join(o.OfferIDs, " "))
}

func (o AcknowledgeOperation) String() string { return fmt.Sprintf("acknowledge operation %s", o.ID) }
func (o AcknowledgeUpdate) String() string    { return fmt.Sprintf("acknowledge %s", o.TaskID) }

func (t KillTask) String() string {
	if t.Force {
		return fmt.Sprintf("kill %s on %s by force", t.TaskID, t.AgentID)
	}
	if t.Grace > 0 {
		return fmt.Sprintf("kill %s on %s within %s", t.TaskID, t.AgentID, t.Grace)
	}
	return fmt.Sprintf("kill %s on %s", t.TaskID, t.AgentID)
}

func (o ShutdownExecutor) String() string {
	return fmt.Sprintf("shut down executor %s on %s", o.TaskID, o.AgentID)
}
func (a InspectAgent) String() string { return "inspect " + a.AgentID }

func (o ReconcileTasks) String() string {
	if len(o.Tasks) == 0 {
		return "reconcile all"
	}
	ids := make([]string, len(o.Tasks))
	for i, t := range o.Tasks {
		ids[i] = t.TaskID
	}
	return "reconcile " + strings.Join(ids, " ")
}
