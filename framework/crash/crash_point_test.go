package crash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"mesos-gpu/framework/journal"
	"mesos-gpu/job"
)

// When a scheduler dies, relative to a Commit.
const (
	before  = "before"  // before the change is recorded
	after   = "after"   // after the change is recorded and before anything is sent or answered
	during  = "during"  // shortly afterwards: some calls have been sent
	anytime = "anytime" // independent of the journal
)

// changeKinds are the kinds of changes. A change may be of several kinds, because changes that
// occur at about the same time are recorded together.
var changeKinds = []struct {
	name string
	is   func(journal.Change) bool
}{
	{"framework", func(c journal.Change) bool { return c.FrameworkID != "" }},
	{"submit", func(c journal.Change) bool {
		return slices.ContainsFunc(c.Jobs, func(j *job.Job) bool { return j.Revision == 0 })
	}},
	{"hold", func(c journal.Change) bool {
		return slices.ContainsFunc(c.Jobs, func(j *job.Job) bool { return j.Revision > 0 })
	}},
	{"launch", someTask(func(t job.Task) bool { return t.State == job.Launching && t.KillRequested.IsZero() })},
	// The task may be recorded as launched again in the same change.
	{"requeue", someTask(func(t job.Task) bool {
		return t.Attempt > 1 && (t.State == job.Waiting || t.State == job.Launching)
	})},
	{"starting", someTask(func(t job.Task) bool { return t.State == job.Starting })},
	{"running", someTask(func(t job.Task) bool { return t.State == job.Running })},
	{"kill", someTask(func(t job.Task) bool { return t.State.IsLive() && !t.KillRequested.IsZero() })},
	{"ended", someTask(func(t job.Task) bool { return !t.State.IsLive() })},
}

func someTask(is func(job.Task) bool) func(journal.Change) bool {
	return func(c journal.Change) bool {
		for i := range c.Tasks {
			if is(c.Tasks[i]) {
				return true
			}
		}
		return false
	}
}

// crashPoint is when a scheduler dies: at the Nth Commit of a kind, from 1. Delay counts from
// that Commit, or from the start of the process if When is anytime. If When is before,
// the Commit is delayed by it.
type crashPoint struct {
	When, Kind string
	Nth        int
	Delay      time.Duration
}

// String omits the fields that may differ between two deaths at the same point.
func (p crashPoint) String() string {
	if p.When == anytime {
		return anytime
	}
	return p.When + " " + p.Kind
}

// Delays; random ones are below the longest.
const (
	slowCommit   = 30 * time.Millisecond
	longestCalls = 10 * time.Millisecond
	longestLife  = 700 * time.Millisecond
)

// requeueWait is longer than a scheduler takes to find that a launch was not sent, and to
// queue the task again.
const requeueWait = 20 * time.Second

// allCrashPoints returns all crash points in an order in which each can be reached: a task
// is lost when its launch was recorded but not sent, and queued again unless its job is
// killed first.
func allCrashPoints() (all []crashPoint) {
	for _, k := range changeKinds {
		for _, when := range []string{before, after, during} {
			if k.name == "framework" {
				continue // recorded only once: see newJournalCrashPoints
			}
			if k.name == "requeue" {
				all = append(all, crashPoint{When: after, Kind: "launch"})
			}
			all = append(all, crashPoint{When: when, Kind: k.name})
		}
	}
	return append(all, crashPoint{When: anytime}, crashPoint{When: anytime})
}

// newJournalCrashPoints returns the crash points of a new journal.
func newJournalCrashPoints() []crashPoint {
	return []crashPoint{
		{When: before, Kind: "framework", Nth: 1},
		{When: before, Kind: "framework", Nth: 1},
		{When: after, Kind: "framework", Nth: 1},
	}
}

// planCrashes returns that many crash points, each about as often as the others.
func planCrashes(deaths int, chance *rand.Rand) []crashPoint {
	all := newJournalCrashPoints()
	for len(all) < deaths {
		for _, p := range allCrashPoints() {
			p.Nth = 1 + chance.IntN(2)
			if p.Kind == "requeue" {
				p.Nth = 1 // there may be no second one
			}
			switch p.When {
			case before:
				p.Delay = slowCommit
			case during:
				p.Delay = time.Duration(chance.Int64N(int64(longestCalls)))
			case anytime:
				p.Delay = time.Duration(chance.Int64N(int64(longestLife)))
			}
			all = append(all, p)
		}
	}
	return all
}

// crashCounts counts deaths by point.
type crashCounts map[string]int

// formatTable returns the counts as a table for the test's log.
func (t crashCounts) formatTable() string {
	text := fmt.Sprintf("%-10s%8s%8s%8s\n", "recorded", before, after, during)
	for _, k := range changeKinds {
		text += fmt.Sprintf("%-10s%8d%8d%8d\n", k.name, t[before+" "+k.name], t[after+" "+k.name], t[during+" "+k.name])
	}
	return text + fmt.Sprintf("%s: %d", anytime, t[anytime])
}
