package replay

import (
	"runtime"
	"testing"

	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/internal/testing/testneeds"
)

// TestSpeedOfReplay fails if decisions take twice the CPU time or memory that they took when the ranges were measured. A
// replay submits, places, starts and ends each job by the scheduler's code.
func TestSpeedOfReplay(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("make test-long compares CPU times")
	}
	replay := func(agentCount int) func() {
		cluster := agents(agentCount)
		return func() {
			r, err := RunReplay(ReplaySettings{Agents: cluster}, scaleRecords(10*agentCount))
			if err != nil || r.Jobs != 10*agentCount {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	}
	small, large := cputime.MeasureRatio(t, 3, replay(1000)), cputime.MeasureRatio(t, 3, replay(4000))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	replay(1000)()
	runtime.ReadMemStats(&after)
	cputime.CheckRanges(t,
		cputime.Figure{Name: "CPU time of 10,000 decisions on 1,000 agents, divided by that of the reference", Got: small, Least: 3, Most: 10},
		cputime.Figure{Name: "CPU time of a decision on 4,000 agents, divided by that on 1,000", Got: large / 4 / small, Least: 0.6, Most: 1.9},
		cputime.Figure{Name: "KiB that a decision allocates", Got: float64(after.TotalAlloc-before.TotalAlloc) / 1024 / 10_000, Least: 15, Most: 48},
	)
}
