package crash

import (
	"fmt"
	"math/rand/v2"
	"time"

	"mesos-gpu/framework/journal"
	"mesos-gpu/job"
)

// When a scheduler dies, as seen from a Commit.
const (
	before  = "before"  // nothing of it is recorded
	after   = "after"   // it is recorded, and nothing was sent or answered
	during  = "during"  // a moment later: some calls went out
	anytime = "anytime" // whatever the journal does
)

// kinds are what a change may record. A change may be of several kinds: what
// happens at about the same time is recorded together.
var kinds = []struct {
	name string
	is   func(journal.Change) bool
}{
	{"framework", func(c journal.Change) bool { return c.FrameworkID != "" }},
	{"submit", func(c journal.Change) bool { return len(c.Jobs) > 0 }},
	{"launch", someTask(func(t job.Task) bool { return t.State == job.Launching })},
	// It may be recorded as launched again at once.
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

// crashPoint is where a scheduler dies: at the Nth Commit of a kind, from 1. Delay
// is from that Commit, or from the start of the process where When is anytime;
// a process that dies before is that slow to record.
type crashPoint struct {
	When, Kind string
	Nth        int
	Delay      time.Duration
}

// String leaves out what differs between two deaths at the same point.
func (p crashPoint) String() string {
	if p.When == anytime {
		return anytime
	}
	return p.When + " " + p.Kind
}

// Delays. What is chosen by chance is less than the longest.
const (
	slowCommit   = 30 * time.Millisecond
	longestCalls = 10 * time.Millisecond
	longestLife  = 700 * time.Millisecond
)

// allCrashPoints are all there are, in an order in which each can be reached: a task
// is lost when its launch was recorded and not sent.
func allCrashPoints() (all []crashPoint) {
	for _, k := range kinds {
		for _, when := range []string{before, after, during} {
			if k.name == "framework" {
				continue // recorded once only: see newJournalCrashPoints
			}
			if k.name == "requeue" {
				all = append(all, crashPoint{When: after, Kind: "launch"})
			}
			all = append(all, crashPoint{When: when, Kind: k.name})
		}
	}
	return append(all, crashPoint{When: anytime}, crashPoint{When: anytime})
}

// newJournalCrashPoints are those of a new journal.
func newJournalCrashPoints() []crashPoint {
	return []crashPoint{
		{When: before, Kind: "framework", Nth: 1},
		{When: before, Kind: "framework", Nth: 1},
		{When: after, Kind: "framework", Nth: 1},
	}
}

// planCrashes is so many deaths, each point about as often as the others.
func planCrashes(deaths int, chance *rand.Rand) []crashPoint {
	all := newJournalCrashPoints()
	for len(all) < deaths {
		for _, p := range allCrashPoints() {
			p.Nth = 1 + chance.IntN(2)
			if p.Kind == "requeue" {
				p.Nth = 1 // the next one may never come
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

// formatTable is for people.
func (t crashCounts) formatTable() string {
	text := fmt.Sprintf("%-10s%8s%8s%8s\n", "recorded", before, after, during)
	for _, k := range kinds {
		text += fmt.Sprintf("%-10s%8d%8d%8d\n", k.name, t[before+" "+k.name], t[after+" "+k.name], t[during+" "+k.name])
	}
	return text + fmt.Sprintf("%s: %d", anytime, t[anytime])
}
