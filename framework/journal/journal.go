// Package journal remembers what must survive the scheduler: its framework id,
// its jobs with their tasks, and documents that others keep beside them. It stores and returns; what follows from a
// record is decided elsewhere.
//
// Bolt keeps it in one file, for one scheduler. ZooKeeperJournal keeps it where
// several schedulers reach it, of which the one that opened it last may
// write. It is an append-only log there, one znode a change, and now and then
// a snapshot from which the log goes on. A znode for each job or task would
// need no snapshot, but a change of many tasks would not fit into the one
// request that ZooKeeperJournal carries out as a whole, and loading would ask a
// hundred thousand times. A log entry is made by a single request, which also
// checks the epoch: it is there as a whole or not at all, and only from the
// scheduler that leads. What is too large for a request is put down in parts
// before, which mean nothing until the entry that names them is there.
package journal

import (
	"context"
	"errors"

	"mesos-gpu/job"
)

// Journal is where the scheduler records before it acts. It is used by one
// goroutine.
type Journal interface {
	// Load returns all that was committed, jobs by name. Returns ErrCorrupt,
	// wrapped, if any of it cannot be read: a scheduler must not forget part
	// of its tasks.
	Load(ctx context.Context) (JournalContents, error)
	// Commit records the change as a whole or not at all. When it returns nil
	// the change survives a crash of the machine. Returns ErrFenced, and
	// has recorded nothing, once another scheduler leads; ErrUnknown if it
	// could not find out whether the change is recorded before ctx or the
	// session ended. After an error the journal must be closed.
	Commit(ctx context.Context, c Change) error
	// Close releases the journal. Commit must not be called after it.
	Close() error
}

// JournalContents is a journal's memory.
type JournalContents struct {
	// FrameworkID is empty in a new journal.
	FrameworkID string
	Jobs        []*job.Job
	// Documents are whatever else was put, by key.
	Documents map[string][]byte
}

// Change is applied in the order of its fields.
type Change struct {
	// FrameworkID replaces the recorded one, unless empty.
	FrameworkID string
	// Removed jobs are forgotten with their tasks.
	Removed []string
	// Jobs are new, or have changed: tasks that are recorded already stay.
	// Their tasks are not taken from here.
	Jobs []*job.Job
	// Tasks replace what was recorded under their job and index.
	Tasks []job.Task
	// Documents replace what was put under their keys; an empty one is
	// forgotten.
	Documents map[string][]byte
}

var (
	// ErrLocked means that another process has the journal open.
	ErrLocked = errors.New("another process has it open")
	// ErrCorrupt means that it is no journal, or a damaged one.
	ErrCorrupt = errors.New("it is damaged or no journal")
	// ErrNewer means that a newer release wrote the journal.
	ErrNewer = errors.New("a newer release wrote it")
	// ErrFenced means that another scheduler has opened the journal since and
	// leads now.
	ErrFenced = errors.New("another scheduler leads now")
	// ErrUnknown means that a change may be recorded or not; Load tells.
	ErrUnknown = errors.New("whether it is recorded is not known")
)
