// Package journal remembers what must survive the scheduler: its framework id
// and its jobs with their tasks. It stores and returns; what follows from a
// record is decided elsewhere.
package journal

import (
	"errors"

	"mesos-gpu/job"
)

// Journal is where the scheduler records before it acts. It is used by one
// goroutine.
type Journal interface {
	// Load returns all that was committed.
	Load() (Contents, error)
	// Commit records the change as a whole or not at all. When it returns nil
	// the change survives a crash of the machine.
	Commit(Change) error
	// Close releases the journal. Commit must not be called after it.
	Close() error
}

// Contents is a journal's memory.
type Contents struct {
	// FrameworkID is empty in a new journal.
	FrameworkID string
	Jobs        []*job.Job
}

// Change is applied in the order of its fields.
type Change struct {
	// FrameworkID replaces the recorded one, unless empty.
	FrameworkID string
	// Removed jobs are forgotten with their tasks.
	Removed []string
	// Jobs are new. Their tasks are not taken from here.
	Jobs []*job.Job
	// Tasks replace what was recorded under their job and index.
	Tasks []job.Task
}

var (
	// ErrLocked means that another process has the journal open.
	ErrLocked = errors.New("another process has it open")
	// ErrCorrupt means that the file is no journal, or a damaged one.
	ErrCorrupt = errors.New("the file is damaged or no journal")
	// ErrNewer means that a newer release wrote the journal.
	ErrNewer = errors.New("a newer release wrote it")
)
