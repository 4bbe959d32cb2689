package placement

import (
	"fmt"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// Counting capacity while tasks end one by one finds the same time and the same places as a search that creates a new
// cluster for each number of ended tasks.
func TestEarliestFitMatchesSearch(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		c := genBackfillCase(t)
		if rapid.Bool().Draw(t, "by name") {
			c.nameDevices()
		}
		if rapid.Bool().Draw(t, "not offered") { // some free resources are known only from earlier offers
			c.in.Known = append(c.in.Known, agentOf(c.offers[0]))
			c.offers = c.offers[1:]
		}
		p := testPolicy()
		p.Fit.Name = rapid.SampledFrom(fit.PolicyNames()).Draw(t, "policy")
		cluster, leftoverOf := NewClusterOfOffers(pointersTo(c.offers), &c.in, &p)
		pl := newPlanner(CachedAgents{Cluster: cluster, LeftoverOf: leftoverOf, Buffers: &PlanBuffers{}}, &c.in, &p)
		forecaster := pl.backfill.forecaster
		for i := range c.in.Waiting {
			j := &c.in.Waiting[i]
			if rapid.IntRange(0, 3).Draw(t, "apart") == 0 {
				j.Spec.Constraints = []job.Constraint{{Field: "hostname", Operator: job.Unique}}
			}
			d := j.TaskDemand(p.Overhead, cluster.agents)
			ends, n := forecaster.taskEndsOf(j.Spec.Role).all, len(j.Tasks)
			places, k, ok := forecaster.earliestFit(forecaster.clusterWithLeftovers(&d), &d, n, ends)
			wantPlaces, want, wantOK := naiveEarliestFit(forecaster, &d, n, ends)
			if ok != wantOK || ok && k != want {
				t.Fatalf("%s fits when %d have ended (%t), want %d (%t)", j.Spec.Name, k, ok, want, wantOK)
			}
			if diff := cmp.Diff(wantPlaces, places); ok && diff != "" {
				t.Fatalf("%s (-searched +counted):\n%s", j.Spec.Name, diff)
			}
			if ok && k > 0 {
				found++
			}
		}
	})
	if found < 20 && !testing.Short() { // a short run has a fifth of the cases
		t.Errorf("%d jobs have a forecast: too few to compare", found)
	}
}

// nameDevices makes the agents offer their GPUs by id.
func (c *backfillCase) nameDevices() {
	next := map[string]int{}
	names := func(agent string, n int) []string {
		var ids []string
		for range n {
			ids = append(ids, fmt.Sprintf("GPU-%s-%d", agent, next[agent]))
			next[agent]++
		}
		return ids
	}
	for i := range c.offers {
		c.offers[i].DeviceIDs = names(c.offers[i].AgentID, c.offers[i].GPUs)
	}
	for i := range c.in.Running {
		r := &c.in.Running[i]
		r.DeviceIDs = names(r.AgentID, r.Spec.Request.GPUs)
	}
}

// naiveEarliestFit is earliestFit without incremental updates and counting.
func naiveEarliestFit(f *forecaster, d *fit.Demand, n int, ends []taskEnd) (places []fit.Placement, k int, ok bool) {
	at := func(k int) bool {
		c := &PartitionedCluster{}
		c.CopyState(f.cluster)
		c.ReleaseLeftovers(f.leftoverOf)
		for _, e := range ends[:k] {
			c.ReleaseTask(e.RunningTask, f.overhead)
		}
		places = c.PlaceTasks(d, n)
		return len(places) == n
	}
	if !at(len(ends)) {
		return nil, 0, false
	}
	k = sort.Search(len(ends), at)
	at(k)
	return places, k, true
}
