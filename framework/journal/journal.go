// Package journal stores what must survive a restart of the scheduler: its framework
// id, its jobs with their tasks, and documents of other components. It does not
// interpret the records: which changes are made, and in which order, is decided by packages sched and leader.
//
// BoltJournal stores the journal in one file, for one scheduler. ZooKeeperJournal
// stores it where several schedulers can reach it; only the one that opened it last
// may write. There it is an append-only log with one znode for each change, and an
// occasional snapshot that replaces the log before it. One znode for each job or
// task would need no snapshots, but a change of many tasks would not fit into one
// atomic request, and loading would take a hundred thousand reads. A log entry is
// created by a single request that also checks the epoch. It therefore exists
// completely or not at all, and only the leader can write it. Texts that are too
// large for one request are written in parts beforehand. The parts have no effect
// until the entry that refers to them exists.
package journal

import (
	"context"
	"errors"

	"mesos-gpu/job"
)

// Journal records changes before the scheduler acts on them. It is used by one
// goroutine.
type Journal interface {
	// Load returns everything that was committed, with the jobs in the order of their keys. It
	// returns ErrCorrupt, wrapped, if any part cannot be read: a scheduler must not
	// lose some of its tasks.
	Load(ctx context.Context) (JournalContents, error)
	// Commit records the whole change or nothing. When it returns nil the change
	// survives a crash of the machine. It returns ErrFenced, with nothing
	// recorded, once another scheduler leads, and ErrUnknown if ctx or the session
	// ended before it could determine whether the change is recorded, or if the disk
	// failed while it was written. After an error the caller must close the journal.
	Commit(ctx context.Context, c Change) error
	// ConfirmLeading returns ErrFenced once another scheduler leads. A scheduler calls it before effects for which there is
	// nothing to commit. After an error the caller must close the journal.
	ConfirmLeading(ctx context.Context) error
	// CheckSpace returns ErrFull, wrapped with the remedy, while the disk has no space
	// for more jobs. Changes of recorded jobs can still be committed for a while.
	CheckSpace() error
	// Close releases the journal. Commit must not be called after it.
	Close() error
}

// JournalContents is everything that a journal stores.
type JournalContents struct {
	// FrameworkID is empty in a new journal.
	FrameworkID string
	// Jobs are the recorded jobs with their tasks.
	Jobs []*job.Job
	// Documents are the stored documents by key.
	Documents map[string][]byte
}

// Change is a set of modifications, which apply in the order of the fields.
type Change struct {
	// FrameworkID replaces the recorded one; "" leaves it unchanged.
	FrameworkID string
	// Removed are the runs of jobs to delete together with their tasks.
	Removed []job.RunID
	// Jobs are new or changed jobs. Only their specifications and submission
	// times are recorded; tasks are recorded through Tasks.
	Jobs []*job.Job
	// Tasks replace the records with the same job, run and index.
	Tasks []job.Task
	// Documents replace the documents with the same keys; an empty value deletes
	// the document.
	Documents map[string][]byte
}

var (
	// ErrLocked means that another process has the journal open.
	ErrLocked = errors.New("another process has it open")
	// ErrCorrupt means that the journal is damaged, or is not a journal.
	ErrCorrupt = errors.New("it is damaged or no journal")
	// ErrEmptied means that a journal which had contents is empty or missing.
	ErrEmptied = errors.New("it was emptied or removed")
	// ErrFull means that the disk has no space for more jobs.
	ErrFull = errors.New("its disk is full")
	// ErrNewer means that a newer release wrote the journal.
	ErrNewer = errors.New("a newer release wrote it")
	// ErrFenced means that another scheduler has opened the journal and is now the
	// leader.
	ErrFenced = errors.New("another scheduler leads now")
	// ErrUnknown means that a change may or may not be recorded; Load shows which.
	ErrUnknown = errors.New("whether it is recorded is not known")
)
