package metrics

import (
	"context"
	"errors"
	"time"

	"mesos-gpu/framework/journal"
)

// measuredJournal is a journal that measures its commits.
type measuredJournal struct {
	journal.Journal
	// counters get the duration and the result of each commit.
	counters *SchedulerCounters
}

// WrapJournal returns a journal that measures commits, errors and size of j.
func (c *SchedulerCounters) WrapJournal(j journal.Journal) journal.Journal {
	m := measuredJournal{j, c}
	m.recordSize()
	return m
}

// sizedJournal is a journal that reports its size, in bytes.
type sizedJournal interface{ Size() int64 }

// recordSize sets the size of the journal, if it reports one.
func (m measuredJournal) recordSize() {
	if s, ok := m.Journal.(sizedJournal); ok {
		m.counters.journalSize.Set(float64(s.Size()))
	}
}

// Commit implements journal.Journal.
func (m measuredJournal) Commit(ctx context.Context, c journal.Change) error {
	began := time.Now()
	err := m.Journal.Commit(ctx, c)
	m.counters.commitTime.Observe(time.Since(began).Seconds())
	if err != nil {
		m.counters.journalErrors.WithLabelValues(failureReason(err)).Inc()
		return err
	}
	m.recordSize()
	return nil
}

// Values of the reason label of failed commits.
const (
	reasonFenced   = "fenced"   // another scheduler leads
	reasonUnknown  = "unknown"  // the change may have been recorded
	reasonCanceled = "canceled" // the scheduler is stopping
	reasonFailed   = "failed"
)

// failureReason returns the reason label of a failed commit.
func failureReason(err error) string {
	switch {
	case errors.Is(err, journal.ErrFenced):
		return reasonFenced
	case errors.Is(err, journal.ErrUnknown):
		return reasonUnknown
	case errors.Is(err, context.Canceled):
		return reasonCanceled
	default:
		return reasonFailed
	}
}
