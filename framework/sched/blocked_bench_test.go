package sched

import (
	"fmt"
	"testing"
	"time"

	"mesos-gpu/framework/sched/queue"
)

// BenchmarkBlockedQueue measures a cycle on a cluster whose GPUs are all in use, while jobs wait that need more than the
// next end on one agent frees. The scheduler searches a reservation for the head of each role. Every agent offers its
// CPUs.
func BenchmarkBlockedQueue(b *testing.B) {
	for _, roles := range []int{1, 11} {
		b.Run(fmt.Sprint(roles, " roles"), func(b *testing.B) {
			st, now, offers := stateWithBlockedJobs(b, 88, roles, 500)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now = now.Add(time.Second)
				for a := range offers {
					offers[a].ID = fmt.Sprint("o", i, ".", a)
				}
				st.Step(now, OffersReceived{Offers: offers})
				st.Step(now, Cycle{})
				st.TakeChanges()
				b.StopTimer()
				for _, o := range offers {
					st.Step(now, OfferRescinded{OfferID: o.ID})
				}
				b.StartTimer()
			}
		})
	}
}

// stateWithBlockedJobs returns a State with tasks on all GPUs of the agents, and waiting jobs. The offers contain
// what the agents have left.
func stateWithBlockedJobs(b *testing.B, agents, roles, jobs int) (*State, time.Time, []Offer) {
	cfg, now := SchedulerSettings{MaxEndedTasks: 1}, time.Unix(1_700_000_000, 0)
	for r := range roles {
		cfg.Policy.Roles = append(cfg.Policy.Roles, queue.Role{Name: fmt.Sprint("r", r)})
	}
	cfg.Policy.Fit.Name = "binpack"
	st := New(cfg, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	submit := func(name string, i, gpus int) {
		s := testSpec(name)
		s.Role, s.Request.GPUs, s.CPUs, s.RunTime = cfg.Policy.Roles[i%roles].Name, gpus, 1, time.Duration(100+i)*time.Hour
		st.Step(now, SubmitJob{Spec: s})
	}
	for i := range 8 * agents {
		submit(fmt.Sprint("runs", i), i/8, 1)
	}
	offers := benchmarkOffers(agents)
	for a := range offers {
		offers[a].Inventory, offers[a].Types, offers[a].Role = nil, []string{"V100"}, cfg.Policy.Roles[a%roles].Name
	}
	st.Step(now, OffersReceived{Offers: offers})
	started := 0
	for _, op := range st.Step(now, Cycle{}) {
		if a, ok := op.(AcceptOffers); ok {
			started += len(a.Launches)
		}
	}
	if started != 8*agents {
		b.Fatalf("%d tasks started, want %d", started, 8*agents)
	}
	for i := range jobs {
		submit(fmt.Sprint("waits", i), i, 8)
	}
	for a := range offers {
		o := &offers[a]
		o.GPUs, o.DeviceIDs, o.Free = 0, nil, Amount{CPUs: 8, MemMiB: 1000, DiskMiB: 1000}
	}
	st.TakeChanges()
	return st, now, offers
}
