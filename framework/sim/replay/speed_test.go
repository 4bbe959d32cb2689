package replay

import (
	"math/rand"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"mesos-gpu/internal/cputime"
	"mesos-gpu/internal/testneeds"
)

// TestSpeed fails if decisions take twice the processor time or memory that they took when the ranges were measured. A replay
// submits, places, starts and ends each job by the scheduler's code. Processor time is divided by that of a fixed amount of
// work in the same process, so that neither the machine nor its other load matter much; the lowest of several measurements is compared.
func TestSpeed(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("make test-long compares processor times")
	}
	references := []time.Duration{measureReference(t), measureReference(t)}
	small, bytes := measureReplay(t, 1000)
	references = append(references, measureReference(t), measureReference(t))
	large, _ := measureReplay(t, 4000)
	references = append(references, measureReference(t), measureReference(t))
	t.Logf("references %v", references)
	for _, c := range []struct {
		name             string
		got, least, most float64
	}{
		{"processor time of 10,000 decisions on 1,000 agents, divided by that of the reference", small.Seconds() / slices.Min(references).Seconds(), 0.6, 2.2},
		{"processor time of a decision on 4,000 agents, divided by that on 1,000", large.Seconds() / 4 / small.Seconds(), 0.6, 1.9},
		{"KiB that a decision allocates", bytes / 1024 / 10_000, 35, 110},
	} {
		t.Logf("%s: %.2f", c.name, c.got)
		if c.got < c.least || c.got > c.most {
			t.Errorf("%s: %.2f, want %g to %g; change the range if the reason is known and good", c.name, c.got, c.least, c.most)
		}
	}
}

// measureReplay replays ten tasks for each agent three times. It returns the lowest processor time, and the bytes that one
// replay allocates.
func measureReplay(t *testing.T, agentCount int) (lowest time.Duration, bytes float64) {
	cluster := agents(agentCount)
	var replays []time.Duration
	var before, after runtime.MemStats
	for range 3 {
		runtime.ReadMemStats(&before)
		begun := cputime.Read(t)
		r, err := RunReplay(ReplaySettings{Agents: cluster}, scaleRecords(10*agentCount))
		replays = append(replays, cputime.Read(t)-begun)
		runtime.ReadMemStats(&after)
		if err != nil || r.Jobs != 10*agentCount {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	t.Logf("%d agents: replays %v", agentCount, replays)
	return slices.Min(replays), float64(after.TotalAlloc - before.TotalAlloc)
}

// measureReference returns the processor time of a fixed amount of work like a scheduler's: maps, texts, sorting and memory
// that becomes garbage.
func measureReference(t *testing.T) time.Duration {
	rnd := rand.New(rand.NewSource(1))
	runtime.GC()
	begun := cputime.Read(t)
	for range 5 {
		type entry struct {
			name  string
			value int
			_     [20]int
		}
		byName := map[string]*entry{}
		var list []*entry
		for range 100_000 {
			e := &entry{name: "task-" + strconv.Itoa(rnd.Int()), value: rnd.Int()}
			byName[e.name] = e
			list = append(list, e)
		}
		slices.SortFunc(list, func(a, b *entry) int { return byName[a.name].value - byName[b.name].value })
	}
	return cputime.Read(t) - begun
}
