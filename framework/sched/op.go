package sched

import (
	"fmt"
	"strings"
	"time"
)

// Op is a call to the master: one of the types below. String is one line for
// people.
type Op interface {
	fmt.Stringer
	op()
}

type (
	// Accept launches tasks on all offers of one agent.
	Accept struct {
		AgentID, Hostname, AgentURL string
		// Role is what the offers are allocated to.
		Role     string
		OfferIDs []string
		Launches []Launch
		// Offered is when the last of the offers came.
		Offered time.Time
		// Refuse is how long the rest need not be offered again.
		Refuse time.Duration
	}
	// Decline answers offers that are refused for the same time.
	Decline struct {
		Offers []Declined
		Refuse time.Duration
	}
	// Revive asks for offers to the roles again, whatever was refused before.
	Revive struct{ Roles []string }
	// Suppress asks for no more offers to the roles.
	Suppress struct{ Roles []string }
	// SetRoles makes these the framework's roles: offers to others are void,
	// tasks stay.
	SetRoles struct{ Roles []string }
	// AnswerInverse accepts or declines inverse offers.
	AnswerInverse struct {
		OfferIDs []string
		Accept   bool
		Refuse   time.Duration
	}
	// Acknowledge says that an update is recorded.
	Acknowledge struct {
		AgentID, TaskID string
		UUID            []byte
	}
	// AcknowledgeOperation says that an operation's status has been heard.
	AcknowledgeOperation Operation
	// KillTask asks for a task's end; with Force for SIGKILL at once.
	KillTask struct {
		TaskID, AgentID string
		Force           bool
	}
	// Reconcile asks for the states of tasks; of all the master knows where
	// Tasks is empty.
	Reconcile struct{ Tasks []TaskOn }
)

// TaskOn names a task and the agent it was placed on.
type TaskOn struct{ TaskID, AgentID string }

func (Accept) op()               {}
func (Decline) op()              {}
func (Revive) op()               {}
func (SetRoles) op()             {}
func (AnswerInverse) op()        {}
func (Suppress) op()             {}
func (Acknowledge) op()          {}
func (AcknowledgeOperation) op() {}
func (KillTask) op()             {}
func (Reconcile) op()            {}

func (o Accept) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "accept %s on %s:", strings.Join(o.OfferIDs, " "), o.AgentID)
	for _, l := range o.Launches {
		fmt.Fprintf(&b, " %s", l.TaskID)
		if len(l.Parts) > 0 {
			fmt.Fprint(&b, l.Parts)
		} else if len(l.DeviceIDs) > 0 {
			fmt.Fprintf(&b, "[%s]", strings.Join(l.DeviceIDs, " "))
		}
	}
	return b.String()
}

func (o Decline) String() string {
	lines := make([]string, len(o.Offers))
	for i, d := range o.Offers {
		lines[i] = fmt.Sprintf("decline %s for %s: %s", d.OfferID, d.Refuse, d.Reason)
	}
	return strings.Join(lines, "\n")
}

func (o Revive) String() string   { return strings.Join(append([]string{"revive"}, o.Roles...), " ") }
func (o Suppress) String() string { return strings.Join(append([]string{"suppress"}, o.Roles...), " ") }
func (o SetRoles) String() string { return strings.Join(append([]string{"roles"}, o.Roles...), " ") }

func (o AnswerInverse) String() string {
	verb := "decline"
	if o.Accept {
		verb = "accept"
	}
	return fmt.Sprintf("%s inverse %s", verb, strings.Join(o.OfferIDs, " "))
}

func (o AcknowledgeOperation) String() string { return fmt.Sprintf("acknowledge operation %s", o.ID) }
func (o Acknowledge) String() string          { return fmt.Sprintf("acknowledge %s", o.TaskID) }

func (o KillTask) String() string {
	if o.Force {
		return fmt.Sprintf("kill %s on %s by force", o.TaskID, o.AgentID)
	}
	return fmt.Sprintf("kill %s on %s", o.TaskID, o.AgentID)
}

func (o Reconcile) String() string {
	if len(o.Tasks) == 0 {
		return "reconcile all"
	}
	ids := make([]string, len(o.Tasks))
	for i, t := range o.Tasks {
		ids[i] = t.TaskID
	}
	return "reconcile " + strings.Join(ids, " ")
}
