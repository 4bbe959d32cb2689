package job

import "time"

// Hold keeps the waiting tasks of a job, or of all jobs of a user or a role, from being placed until it is released.
// Placed tasks keep running.
type Hold struct {
	// By is the user who requested it, "" without an access file. Reason is that user's text, or "".
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// String returns, for example, "held by alice".
func (h *Hold) String() string {
	if h.By == "" {
		return "held"
	}
	return "held by " + h.By
}

// HoldTarget are the jobs of a user, or of a role and the roles below it.
type HoldTarget struct {
	Kind HoldKind
	// Name is the owner of the jobs, or the role.
	Name string
}

// HoldKind is the type of a HoldTarget.
type HoldKind string

const (
	HeldUser HoldKind = "user"
	HeldRole HoldKind = "role"
)

// String returns, for example, "role lab".
func (t HoldTarget) String() string { return string(t.Kind) + " " + t.Name }
