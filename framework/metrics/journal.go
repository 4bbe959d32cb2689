package metrics

import (
	"context"
	"errors"
	"time"

	"mesos-gpu/framework/journal"
)

// measuredJournal is a journal whose commits are counted.
type measuredJournal struct {
	journal.Journal
	counters *SchedulerCounters
}

// WrapJournal counts how j does.
func (c *SchedulerCounters) WrapJournal(j journal.Journal) journal.Journal {
	m := measuredJournal{j, c}
	m.recordSize()
	return m
}

// sizedJournal is a journal that knows its size, in bytes.
type sizedJournal interface{ Size() int64 }

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

// Why a change was not recorded.
const (
	reasonFenced   = "fenced"   // another scheduler leads
	reasonUnknown  = "unknown"  // or was recorded after all
	reasonCanceled = "canceled" // the scheduler stops
	reasonFailed   = "failed"
)

// failureReason says in a word why a change was not recorded.
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
