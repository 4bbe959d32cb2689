package sched

import (
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// TestEarliestFitMatchesSearch: the time at which tasks fit, found by counting while
// others end one by one, is that which a search finds that makes a new cluster
// for each time it tries, and so are the places.
func TestEarliestFitMatchesSearch(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		c := genBackfillCase(t)
		if rapid.Bool().Draw(t, "by name") {
			c.nameDevices()
		}
		if rapid.Bool().Draw(t, "not offered") { // some of what is free is known from before
			c.q.Known = append(c.q.Known, fit.JoinOffers(c.offers[:1])...)
			c.offers = c.offers[1:]
		}
		p := testPolicy()
		p.Fit.Name = rapid.SampledFrom([]string{"headroom", "binpack", "spread", "topology"}).Draw(t, "policy")
		pl := newPlannerForOffers(c.offers, &c.q, &p)
		for i := range c.q.Waiting {
			j := &c.q.Waiting[i]
			if rapid.IntRange(0, 3).Draw(t, "apart") == 0 {
				j.Spec.Constraints = []job.Constraint{{Field: "hostname", Operator: job.Unique}}
			}
			d := j.taskDemand(&p, pl.agentsForPeers(j))
			ends, n := pl.taskEndsOf(j.Spec.Role).all, len(j.Tasks)
			spots, k, ok := pl.earliestFit(pl.clusterWithLeftovers(&d), &d, n, ends)
			wantSpots, want, wantOK := naiveEarliestFit(pl, &d, n, ends)
			if ok != wantOK || ok && k != want {
				t.Fatalf("%s fits when %d have ended (%t), want %d (%t)", j.Spec.Name, k, ok, want, wantOK)
			}
			if diff := cmp.Diff(wantSpots, spots); ok && diff != "" {
				t.Fatalf("%s (-searched +counted):\n%s", j.Spec.Name, diff)
			}
			if ok && k > 0 {
				found++
			}
		}
	})
	if found < 20 {
		t.Errorf("%d jobs found places ahead: that tells nothing", found)
	}
}

// nameDevices has the agents hand out their GPUs by name.
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
	for i := range c.q.Running {
		r := &c.q.Running[i]
		r.DeviceIDs = names(r.AgentID, r.Spec.Request.GPUs)
	}
}

// naiveEarliestFit is soonest without what makes it fast.
func naiveEarliestFit(pl *planner, d *fit.Demand, n int, ends []taskEnd) (spots []fit.Placement, k int, ok bool) {
	at := func(k int) bool {
		c := pl.cluster.clone()
		for i := range pl.agents {
			if a := &pl.agents[i]; len(a.Offers) == 0 {
				c.releaseHolding(a.ID, a.Role, pl.leftoverOf(a))
			}
		}
		for _, e := range ends[:k] {
			releaseTask(c, e.RunningTask, pl.policy)
		}
		spots = c.fillPlacements(d, n)
		return len(spots) == n
	}
	if !at(len(ends)) {
		return nil, 0, false
	}
	k = sort.Search(len(ends), at)
	at(k)
	return spots, k, true
}

// TestQueueCacheFollowsQueue: what is kept of the queue are its jobs, in its
// order, also where one has ended and another came under its name.
func TestQueueCacheFollowsQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st, now := New(SchedulerSettings{MaxEndedTasks: 2}, RecoveredState{}), time.Unix(1_700_000_000, 0)
		names := []string{"a", "b", "c", "d"}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			if rapid.Bool().Draw(t, "submit") {
				st.Step(now, SubmitJob{Spec: testSpec(name)})
			} else {
				st.Step(now, KillJob{Job: name})
			}
			if rapid.Bool().Draw(t, "look") {
				var got []*job.Job
				for _, q := range st.queuedJobs() {
					got = append(got, q.Job)
				}
				want := make([]*job.Job, 0, len(st.queue))
				for _, name := range st.queue {
					want = append(want, st.jobs[name])
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%d jobs are kept, want the %d of %v", len(got), len(want), st.queue)
				}
			}
		}
	})
}
