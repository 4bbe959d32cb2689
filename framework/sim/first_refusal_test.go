package sim

import (
	"sort"
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// firstRefusal returns at which percentage of arrival a policy refuses the first task with GPUs of a seed.
func (t *ClusterTrace) firstRefusal(policy string, seed int64) float64 {
	a := t.drawArrivals(seed)
	c := fit.NewCluster(a.agents, fit.PlacementPolicy{Name: policy, Typical: t.TypicalTasks(), Seed: uint64(seed)}, time.Time{})
	arrived := int64(0)
	for _, task := range a.tasks {
		d := task.fitDemand()
		if len(c.PlaceTasks(&d, 1)) == 0 && task.GPUs > 0 {
			break
		}
		arrived += task.totalMilli()
	}
	return t.percentOfGPUs(arrived)
}

// lastWithoutRefusal returns at which percentage of arrival the tasks of a seed cannot all run any more, by the bound: no policy
// can refuse its first task later.
func (t *ClusterTrace) lastWithoutRefusal(seed int64) float64 {
	a := t.drawArrivals(seed)
	requested := []int64{0} // by the first tasks
	for _, task := range a.tasks {
		requested = append(requested, requested[len(requested)-1]+task.totalMilli())
	}
	tolerance := float64(t.CountGPUs()*milliPerGPU) * gapPercent / 100
	p := t.newPackingProblem(a.tasks)
	first := sort.Search(len(a.tasks), func(n int) bool {
		if t.percentOfGPUs(requested[n]) < 80 {
			return false
		}
		counts := p.countTasks(a.tasks[:n])
		return milliPerGPU*p.solvePrices(counts).boundFor(counts) < float64(requested[n])-tolerance
	})
	return t.percentOfGPUs(requested[first])
}

func (t *ClusterTrace) percentOfGPUs(milli int64) float64 {
	return 100 * float64(milli) / float64(t.CountGPUs()*milliPerGPU)
}

// TestFirstRefusal checks that headroom refuses its first task shortly before any policy must, and later than fgd.
func TestFirstRefusal(t *testing.T) {
	const most = 0.4 // points
	for _, variant := range []string{"default", "gpushare100"} {
		trace := openb(t, "testdata", variant)
		fgd, headroom, last := trace.firstRefusal("fgd", 42), trace.firstRefusal("headroom", 42), trace.lastWithoutRefusal(42)
		t.Logf("%s: fgd refuses the first task at %.2f %%, headroom at %.2f %%; from %.2f %% each policy must", variant, fgd, headroom, last)
		if headroom < fgd || headroom < last-most {
			t.Errorf("%s: headroom refuses the first task at %.2f %%, want at least %.2f and after fgd, at %.2f", variant, headroom, last-most, fgd)
		}
	}
}
