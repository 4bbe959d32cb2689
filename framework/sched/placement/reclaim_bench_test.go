package placement

import (
	"fmt"
	"testing"
	"time"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// benchmarkLending returns a full cluster of 1,000 agents with eight GPUs, all borrowed by 2,000 jobs of one role.
func benchmarkLending() (in PlanInput, policy Policy) {
	in = PlanInput{Now: planTime()}
	policy = Policy{Roles: []queue.Role{
		{Name: "prod", Deserved: quota.Quota{quota.AllTypes: 4000}},
		{Name: "lab", Deserved: quota.Quota{quota.AllTypes: 1000}},
		{Name: "guests"},
	}}
	policy.SetDefaults()
	for a := range 1000 {
		id := fmt.Sprintf("a%04d", a)
		for _, role := range policy.Roles {
			in.Known = append(in.Known, WithoutFree(agentOf(roleOffer(role.Name, id, 8))))
		}
	}
	specs := make([]*job.Spec, 2000)
	for i := range specs {
		specs[i] = waitingJob(fmt.Sprint("g", i), 4, func(s *job.Spec) { s.Role, s.Priority, s.Preemptible = "guests", i%3, i%2 == 0 }).Spec
	}
	for n := range 8000 {
		s := specs[n*7%2000]
		in.Running = append(in.Running, queue.RunningTask{
			TaskID:   fmt.Sprintf("%s.%d", s.Name, n),
			AgentID:  fmt.Sprintf("a%04d", n%1000),
			Spec:     s,
			GPUTypes: map[string]int{"V100": 1},
			Since:    planTime().Add(-time.Duration(n) * time.Second),
		})
	}
	return in, policy
}

// BenchmarkReclaim measures a plan that reclaims GPUs on 1,000 agents with eight GPUs and 2,000 jobs that borrow all of them.
func BenchmarkReclaim(b *testing.B) {
	for name, waiting := range map[string]func() []queue.WaitingJob{
		"gang of 250 x 8": func() []queue.WaitingJob {
			return []queue.WaitingJob{waitingJob("train", 250, func(s *job.Spec) { s.Role, s.Gang, s.Request.GPUs = "prod", true, 8 })}
		},
		"4000 single jobs": func() (list []queue.WaitingJob) {
			for i := range 4000 {
				list = append(list, waitingJob(fmt.Sprint("p", i), 1, func(s *job.Spec) { s.Role = "prod" }))
			}
			return list
		},
		"one job": func() []queue.WaitingJob {
			return []queue.WaitingJob{waitingJob("train", 1, func(s *job.Spec) { s.Role, s.Request.GPUs = "prod", 4 })}
		},
	} {
		b.Run(name, func(b *testing.B) {
			in, policy := benchmarkLending()
			in.Waiting = waiting()
			cluster, leftoverOf := NewClusterOfOffers(nil, &in, &policy)
			working, buffers := &PartitionedCluster{}, &PlanBuffers{}
			preempted := 0
			for b.Loop() {
				working.CopyState(cluster)
				plan := MakePlan(CachedAgents{Cluster: working, LeftoverOf: leftoverOf, Buffers: buffers, KeepsOffers: true}, &in, &policy)
				preempted = len(plan.Preempt)
			}
			b.ReportMetric(float64(preempted), "preempted")
		})
	}
}
