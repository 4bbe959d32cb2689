package sched

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/job"
)

// benchmarkOffers returns n agents with eight GPUs each, of three types, offered by id.
func benchmarkOffers(n int) []Offer {
	offers := make([]Offer, n)
	for a := range offers {
		o := Offer{
			ID: fmt.Sprint("o", a), AgentID: fmt.Sprintf("a%05d", a), Hostname: fmt.Sprint("h", a),
			Types: []string{[]string{"V100", "K80", "A100"}[a%3]}, GPUs: 8,
			Free: Amount{CPUs: float64(32 + a%5*16), MemMiB: 512000, DiskMiB: 1e6}, Ports: []PortRange{{First: 31000, Last: 32000}},
		}
		for d := range 8 {
			uuid := fmt.Sprintf("GPU-%d-%d", a, d)
			o.DeviceIDs = append(o.DeviceIDs, uuid)
			o.Inventory = append(o.Inventory, gpu.Device{UUID: uuid, Model: o.Types[0], MemMiB: 32768, Minor: d, NUMA: d / 4})
		}
		offers[a] = o
	}
	return offers
}

// benchmarkQueue returns n jobs: of about two hundred kinds or, if own is set, all different.
func benchmarkQueue(n int, own bool) []queue.WaitingJob {
	waiting := make([]queue.WaitingJob, n)
	for i := range waiting {
		s := testSpec(fmt.Sprint("j", i))
		s.Request.GPUs, s.Request.Types.Include = []int{0, 1, 1, 2, 4, 8}[i%6], []string{"V100", "A100"}[:i%3]
		if s.Request.GPUs == 0 {
			s.Request.Types.Include = nil
		}
		s.CPUs = float64(1 + i%11)
		if own {
			s.MemMiB = float64(256 + i)
		}
		s.Tasks = 1 + i%3
		waiting[i] = queue.WaitingJob{Spec: &s}
		for t := range s.Tasks {
			waiting[i].Tasks = append(waiting[i].Tasks, queue.WaitingTask{ID: fmt.Sprint(i, ".", t), Index: t})
		}
	}
	return waiting
}

// BenchmarkPlace measures one plan for all offers and all waiting jobs.
func BenchmarkPlace(b *testing.B) {
	for _, c := range []struct {
		name         string
		agents, jobs int
		own          bool
	}{{"1000x2000", 1000, 2000, false}, {"10000x10000", 10_000, 10_000, false}, {"10000x10000-all-differ", 10_000, 10_000, true}} {
		for _, policy := range fit.PolicyNames() {
			b.Run(c.name+"/"+policy, func(b *testing.B) {
				offers, waiting, p := benchmarkOffers(c.agents), benchmarkQueue(c.jobs, c.own), testPolicy()
				p.Fit.Name = policy
				tasks := 0
				w := taskMix{kinds: map[string]*fit.TypicalTask{}}
				for i := range waiting {
					tasks += len(waiting[i].Tasks)
					w.addJob(waiting[i].Spec, p.Overhead, 1)
				}
				p.Fit.Typical = w.mostFrequent()
				b.ReportAllocs()
				for b.Loop() {
					planOffers(offers, placement.PlanInput{Now: time.Unix(1, 0), Waiting: waiting}, p)
				}
				b.ReportMetric(float64(tasks)*float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
			})
		}
	}
}

// BenchmarkChangesInLongQueue measures a submission, and edits of a job in the middle of the queue, each with the cycle
// that follows, while 100,000 jobs wait.
func BenchmarkChangesInLongQueue(b *testing.B) {
	const jobs = 100_000
	roles := []queue.Role{{Name: "a"}, {Name: "b"}}
	for _, c := range []struct {
		name   string
		change func(st *State, i int) Event
	}{
		{"submit", func(_ *State, i int) Event { return SubmitJob{Spec: benchmarkJob(fmt.Sprint("new", i))} }},
		{"priority", func(st *State, i int) Event {
			middle, _ := st.jobs.Find(fmt.Sprint("j", jobs/2))
			spec := *middle.Spec
			spec.Priority = 1 + i%2
			return EditJob{Job: spec.Name, Spec: spec}
		}},
		{"role", func(st *State, i int) Event {
			middle, _ := st.jobs.Find(fmt.Sprint("j", jobs/2))
			spec := *middle.Spec
			spec.Role = roles[(i+1)%2].Name
			return EditJob{Job: spec.Name, Spec: spec}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			cfg := SchedulerSettings{MaxLiveTasks: 1_000_000, Policy: Policy{Policy: placement.Policy{Roles: roles}}}
			st, now := New(cfg, RecoveredState{}), time.Unix(1, 0)
			st.Step(now, Subscribed{FrameworkID: "f"})
			for i := range jobs {
				st.Step(now, SubmitJob{Spec: benchmarkJob(fmt.Sprint("j", i))})
			}
			st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", Role: "a", Free: Amount{CPUs: 0.1, MemMiB: 1}}}})
			st.Step(now, Cycle{})
			st.TakeChanges()
			i, began := 0, cputime.Read(b)
			for b.Loop() {
				st.Step(now, c.change(st, i))
				st.Step(now, Cycle{})
				if changes := st.TakeChanges(); len(changes.Jobs) == 0 {
					b.Fatal("nothing has changed")
				}
				i++
			}
			b.ReportMetric(float64(cputime.Read(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

func benchmarkJob(name string) job.Spec {
	s := testSpec(name)
	s.Role = "a"
	return s
}

// BenchmarkOfferStorm measures how ten thousand simultaneous offers, which no waiting job can use, are answered
// within one cycle. A thousand jobs wait.
func BenchmarkOfferStorm(b *testing.B) {
	offers := benchmarkOffers(10_000)
	for b.Loop() {
		st, now := stateAfterOfferStorm(b, 1000), time.Unix(1_700_000_000, 0)
		st.Step(now, OffersReceived{Offers: offers})
		st.Step(now, Cycle{})
	}
	b.ReportMetric(float64(len(offers))*float64(b.N)/b.Elapsed().Seconds(), "offers/s")
}

// stateAfterOfferStorm returns a State with jobs that need more than any agent has.
func stateAfterOfferStorm(t testing.TB, jobs int) *State {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	for i := range jobs {
		s := testSpec(fmt.Sprint("j", i))
		s.Request.GPUs, s.CPUs = 9+i%3, float64(1+i%7)
		st.Step(now, SubmitJob{Spec: s})
	}
	st.TakeChanges()
	return st
}

// TestEveryOfferOfAStormIsAnswered sends ten thousand offers repeatedly while a thousand jobs wait. Each offer must be answered, held
// ones after their time, and nothing may accumulate.
func TestEveryOfferOfAStormIsAnswered(t *testing.T) {
	st, now := stateAfterOfferStorm(t, 1000), time.Unix(1_700_000_000, 0)
	offers := benchmarkOffers(10_000)
	for round := range 5 {
		for i := range offers {
			offers[i].ID = fmt.Sprintf("o%d-%d", round, i)
		}
		answered := map[string]int{}
		take := func(ops []Operation) {
			for _, op := range ops {
				if d, ok := op.(DeclineOffers); ok {
					for _, o := range d.Offers {
						answered[o.OfferID]++
					}
				}
			}
		}
		take(st.Step(now, OffersReceived{Offers: offers}))
		take(st.Step(now, Cycle{}))
		if n := len(answered) + len(st.offers.offers); n != len(offers) {
			t.Fatalf("round %d: %d offers answered or held after the cycle, want %d", round, n, len(offers))
		}
		now = now.Add(st.cfg.HoldOffers)
		take(st.Step(now, Tick{}))
		take(st.Step(now, Cycle{}))
		for i := range offers {
			if answered[offers[i].ID] != 1 {
				t.Fatalf("round %d: offer %s was answered %d times", round, offers[i].ID, answered[offers[i].ID])
			}
		}
		if len(st.offers.offers) > 0 || len(st.lastOffered) > len(offers) {
			t.Fatalf("round %d: the State still has %d offers and %d agents", round, len(st.offers.offers), len(st.lastOffered))
		}
	}
}

// BenchmarkSubmit measures the admission and the record of a job with an environment, among many live ones.
func BenchmarkSubmit(b *testing.B) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{MaxLiveTasks: 1 << 30, MaxSpecBytes: 1 << 40}, RecoveredState{})
	s := testSpec("j")
	s.Env, s.Owner = map[string]string{}, "alice"
	for i := range 20 {
		s.Env[fmt.Sprint("NAME_", i)] = "a value of usual length"
	}
	for i := 0; b.Loop(); i++ {
		s.Name = fmt.Sprint("j", i)
		if err := st.AdmitCompleted(&s); err != nil {
			b.Fatal(err)
		}
		st.Step(now, SubmitJob{Spec: s})
		st.TakeChanges()
	}
}

// BenchmarkTaskEnds measures the end of one job among many live ones.
func BenchmarkTaskEnds(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			now := time.Unix(1_700_000_000, 0)
			st := New(SchedulerSettings{MaxLiveTasks: 1 << 30, MaxSpecBytes: 1 << 40, MaxEndedTasks: 1}, RecoveredState{})
			for i := range n + b.N {
				s := testSpec(fmt.Sprint("j", i))
				st.Step(now, SubmitJob{Spec: s})
			}
			st.TakeChanges()
			b.ResetTimer()
			for i := range b.N {
				st.Step(now, KillJob{Job: fmt.Sprint("j", n/2+i)})
				st.TakeChanges()
			}
		})
	}
}

// BenchmarkOneOffer measures a cycle in which one agent of many has something free, one task ends and another starts.
// This is the most frequent cycle in a cluster.
func BenchmarkOneOffer(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			now := time.Unix(1_700_000_000, 0)
			st := New(SchedulerSettings{MaxEndedTasks: 1}, RecoveredState{})
			st.Step(now, Subscribed{FrameworkID: "f"})
			offers := benchmarkOffers(n)
			for i := range n + 1 { // the last one waits
				s := testSpec(fmt.Sprint("j", i))
				s.Request.GPUs = 8
				st.Step(now, SubmitJob{Spec: s})
			}
			st.Step(now, OffersReceived{Offers: offers})
			var running []placement.TaskLaunch
			var on []string
			cycle := func() {
				for _, op := range st.Step(now, Cycle{}) {
					if a, ok := op.(AcceptOffers); ok {
						running, on = append(running, a.Launches...), append(on, a.AgentID)
					}
				}
				st.TakeChanges()
			}
			cycle()
			byID := map[string]Offer{}
			for _, o := range offers {
				byID[o.AgentID] = o
			}
			for i := 0; b.Loop(); i++ {
				now = now.Add(time.Second)
				st.Step(now, TaskUpdate{TaskID: running[i].TaskID, State: job.Finished})
				s := testSpec(fmt.Sprint("k", i))
				s.Request.GPUs = 8
				st.Step(now, SubmitJob{Spec: s})
				o := byID[on[i]]
				o.ID = fmt.Sprint("again", i)
				st.Step(now, OffersReceived{Offers: []Offer{o}})
				if cycle(); len(running) != n+i+1 {
					b.Fatalf("%d tasks started in cycle %d, want one more than %d", len(running), i, n+i)
				}
			}
		})
	}
}
