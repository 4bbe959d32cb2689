package sim

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// decisions is how many tasks arrive in one run of BenchmarkPolicies. On the recorded cluster they request more than
// all GPUs.
const decisions = 10_000

// BenchmarkPolicies places recorded tasks one by one with each policy, on the recorded cluster of 1,213 agents and on
// ten and eighty copies of it. A decision is a task that is placed or refused; creating the cluster is not measured.
// Decisions on one cluster depend on each other, so each thread has a cluster of its own.
func BenchmarkPolicies(b *testing.B) {
	trace := openb(b, "testdata", "default")
	typical := trace.TypicalTasks()
	for _, copies := range []int{1, 10, 80} {
		agents, tasks := trace.multipliedCluster(copies)
		for _, policy := range PolicyNames() {
			for name, threads := range map[string]int{"one": 1, "all": runtime.GOMAXPROCS(0)} {
				b.Run(fmt.Sprintf("agents=%d/%s/threads=%s", len(agents), policy, name), func(b *testing.B) {
					made := 0
					for b.Loop() {
						b.StopTimer()
						var clusters []*fit.Cluster
						for seed := range threads {
							clusters = append(clusters, fit.NewCluster(agents, fit.PlacementPolicy{Name: policy, Typical: typical, Seed: uint64(seed)}, time.Time{}))
						}
						b.StartTimer()
						var all sync.WaitGroup
						for _, c := range clusters {
							all.Go(func() { placeAll(c, tasks) })
						}
						all.Wait()
						made += threads * len(tasks)
					}
					b.ReportMetric(float64(made)/b.Elapsed().Seconds(), "decisions/s")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

func placeAll(c *fit.Cluster, tasks []fit.Demand) {
	for i := range tasks {
		c.PlaceTasks(&tasks[i], 1)
	}
}

// multipliedCluster returns the agents of that many copies of the cluster, and the tasks that arrive first.
func (t *ClusterTrace) multipliedCluster(copies int) (agents []fit.AgentResources, tasks []fit.Demand) {
	a := t.drawArrivals(42)
	for n := range copies {
		for _, agent := range a.agents {
			agent.ID = fmt.Sprintf("%s-%02d", agent.ID, n)
			agents = append(agents, agent)
		}
	}
	for i := range decisions {
		tasks = append(tasks, a.tasks[i%len(a.tasks)].fitDemand())
	}
	return agents, tasks
}
