package sched

import (
	"fmt"
	"testing"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// TestEntitlementsArePursued: with reclaim of entitlements, roles hold what they are entitled to after a while, whoever
// came first, tasks end for that only as often as is necessary, and then everything is quiet. The first two cases are the
// example of Peloton's documentation (docs/preemption.md): 30 GPUs, a reservation of 6 each.
func TestEntitlementsArePursued(t *testing.T) {
	six := quota.Quota{quota.AllTypes: 6}
	for name, c := range map[string]struct {
		policy placement.ReclaimPolicy
		roles  []queue.Role
		tasks  []int // of each role, submitted in this order
		size   int   // GPUs of a task
		held   []int
		kills  int
	}{
		"demands of 3, 24 and 24":        {placement.ReclaimEntitled, []queue.Role{{Name: "a", Deserved: six}, {Name: "b", Deserved: six}, {Name: "c", Deserved: six}}, []int{3, 24, 24}, 1, []int{3, 14, 13}, 10},
		"demands of 15, 24 and 24":       {placement.ReclaimEntitled, []queue.Role{{Name: "a", Deserved: six}, {Name: "b", Deserved: six}, {Name: "c", Deserved: six}}, []int{15, 24, 24}, 1, []int{10, 10, 10}, 15},
		"only what is deserved":          {placement.ReclaimDeserved, []queue.Role{{Name: "a", Deserved: six}, {Name: "b", Deserved: six}, {Name: "c", Deserved: six}}, []int{3, 24, 24}, 1, []int{3, 21, 6}, 3},
		"weights of 3 and 1":             {placement.ReclaimEntitled, []queue.Role{{Name: "a"}, {Name: "b", Weight: 3}}, []int{30, 40}, 1, []int{8, 22}, 22},
		"weights, tasks of 2 GPUs":       {placement.ReclaimEntitled, []queue.Role{{Name: "a"}, {Name: "b", Weight: 3}}, []int{30, 40}, 2, []int{8, 22}, 11},
		"what is deserved comes first":   {placement.ReclaimEntitled, []queue.Role{{Name: "a", Weight: 4}, {Name: "b", Deserved: quota.Quota{quota.AllTypes: 20}}}, []int{30, 30}, 1, []int{8, 22}, 22},
		"roles in a tree":                {placement.ReclaimEntitled, []queue.Role{{Name: "a"}, {Name: "b"}, {Name: "b/x"}, {Name: "b/y", Weight: 2}}, []int{30, 0, 30, 30}, 1, []int{15, 0, 5, 10}, 25},
		"a limit leaves the others more": {placement.ReclaimEntitled, []queue.Role{{Name: "a"}, {Name: "b", Quota: quota.Quota{quota.AllTypes: 4}}, {Name: "c"}}, []int{30, 30, 30}, 1, []int{13, 4, 13}, 17},
	} {
		t.Run(name, func(t *testing.T) {
			agents := map[string]int{}
			for i := range 5 {
				agents[fmt.Sprint("m", i)] = 6
			}
			cluster := newPeerCluster(t, placement.Policy{Roles: c.roles, Reclaim: c.policy}, agents)
			for i, r := range c.roles {
				if c.tasks[i] > 0 {
					cluster.submit("job-"+fmt.Sprint(i), r.Name, c.tasks[i], c.size, nil)
					for range 10 {
						cluster.round()
					}
				}
			}
			for range 150 {
				cluster.round()
			}
			kills := cluster.kills
			for range 200 {
				cluster.round()
			}
			if cluster.kills != kills {
				t.Errorf("%d tasks are stopped in 200 s in which nothing was submitted", cluster.kills-kills)
			}
			for i, r := range c.roles {
				held := 0
				for ref := range cluster.st.placedTasks() {
					if ref.job.Spec.Role == r.Name {
						held += ref.job.Spec.Request.GPUs
					}
				}
				if held < c.held[i]-c.size || held > c.held[i]+c.size {
					t.Errorf("role %s holds %d GPUs, want about %d", r.Name, held, c.held[i])
				}
			}
			if kills > c.kills {
				t.Errorf("%d tasks were stopped, want at most %d", kills, c.kills)
			}
		})
	}
}
