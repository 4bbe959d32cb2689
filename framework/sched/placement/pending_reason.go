package placement

import (
	"fmt"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// PendingReason is the reason why a job waits.
type PendingReason struct {
	Run job.RunID
	// Missing of the job's Tasks have no place.
	Missing, Tasks int
	PendingCause
}

// PendingCause describes the resources that tasks wait for, without the name of their job.
type PendingCause struct {
	// Needs describes the missing resources, Available the existing ones.
	Needs, Available string
	// BlockedBy classifies the obstacle, for decisions.
	BlockedBy BlockedBy
}

// BlockedBy classifies the obstacles to a placement.
type BlockedBy int

const (
	// BlockedByResources: no agent has room.
	BlockedByResources BlockedBy = iota
	// BlockedByQuota: the role may hold no more.
	BlockedByQuota
	// BlockedByReservation: there is room, which is reserved for an earlier job.
	BlockedByReservation
	// BlockedByReclaim: GPUs that the role deserves are reserved for the job and about to be free.
	BlockedByReclaim
)

// QuotaCause returns the cause of a job that a quota blocks.
func QuotaCause(e quota.LimitExplanation) PendingCause {
	c := PendingCause{Needs: e.Needs, Available: e.Available, BlockedBy: BlockedByQuota}
	if e.KeptForEarlier {
		c.BlockedBy = BlockedByReservation
	}
	return c
}

// Text returns the reason without the job's name, for example "2 free V100 on one agent; 41 agents have the type, 5
// have 1 free; 3 of 8 tasks wait". What the job needs comes first, since tables cut off the end.
func (r PendingReason) Text() string {
	text := r.Needs + "; " + r.Available
	switch {
	case r.Missing >= r.Tasks:
		return text
	case r.Missing == 1:
		return text + fmt.Sprintf("; 1 of %d tasks waits", r.Tasks)
	default:
		return text + fmt.Sprintf("; %d of %d tasks wait", r.Missing, r.Tasks)
	}
}

func (r PendingReason) String() string { return r.Run.Name + ": " + r.Text() }
