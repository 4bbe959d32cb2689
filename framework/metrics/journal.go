package metrics

import (
	"context"
	"errors"
	"time"

	"mesos-gpu/framework/journal"
)

// measured is a journal whose commits are counted.
type measured struct {
	journal.Journal
	counters *Counters
}

// Journal counts how j does.
func (c *Counters) Journal(j journal.Journal) journal.Journal {
	m := measured{j, c}
	m.weigh()
	return m
}

// sized is a journal that tells how large it is, in bytes.
type sized interface{ Size() int64 }

func (m measured) weigh() {
	if s, ok := m.Journal.(sized); ok {
		m.counters.journalSize.Set(float64(s.Size()))
	}
}

// Commit implements journal.Journal.
func (m measured) Commit(ctx context.Context, c journal.Change) error {
	began := time.Now()
	err := m.Journal.Commit(ctx, c)
	m.counters.commit.Observe(time.Since(began).Seconds())
	if err != nil {
		m.counters.journalErrors.WithLabelValues(failure(err)).Inc()
		return err
	}
	m.weigh()
	return nil
}

// Why a change was not recorded.
const (
	fenced   = "fenced"   // another scheduler leads
	unknown  = "unknown"  // or was recorded after all
	canceled = "canceled" // the scheduler stops
	failed   = "failed"
)

// failure says in a word why a change was not recorded.
func failure(err error) string {
	switch {
	case errors.Is(err, journal.ErrFenced):
		return fenced
	case errors.Is(err, journal.ErrUnknown):
		return unknown
	case errors.Is(err, context.Canceled):
		return canceled
	default:
		return failed
	}
}
