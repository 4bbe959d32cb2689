package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// backfillCase is a cluster of agents with GPUs by count, running tasks and waiting jobs. Only GPUs are scarce.
type backfillCase struct {
	offers []fit.Offer
	in     PlanInput
	// types are the GPU types of the agents. Some gangs need GPUs of one type.
	types map[string]string
}

func genBackfillCase(t *rapid.T) backfillCase {
	c := backfillCase{in: PlanInput{Now: time.Unix(1_700_000_000, 0)}, types: map[string]string{}}
	spec := func(name string, gpus, tasks int) *job.Spec {
		s := &job.Spec{Name: name, Tasks: tasks, Request: gpu.Request{GPUs: gpus}, CPUs: 0.1, MemMiB: 1, Command: []string{"true"}}
		s.RunTime = time.Duration(rapid.IntRange(0, 6).Draw(t, "run")) * time.Minute
		s.Priority = rapid.IntRange(0, 2).Draw(t, "priority")
		s.Preemptible = rapid.Bool().Draw(t, "preemptible")
		s.Gang = rapid.Bool().Draw(t, "gang")
		s.Request.Types.Same = s.Gang && rapid.Bool().Draw(t, "same")
		s.SetDefaults()
		return s
	}
	for a := range rapid.IntRange(1, 3).Draw(t, "agents") {
		id := fmt.Sprintf("a%d", a)
		c.types[id] = rapid.SampledFrom([]string{"V100", "V100", "K80"}).Draw(t, "type")
		free := rapid.IntRange(0, 4).Draw(t, "free")
		ports := []fit.PortRange{{First: 1, Last: 999}}
		amount := fit.Amount{CPUs: 100, MemMiB: 100000, DiskMiB: 1000}
		c.offers = append(c.offers, fit.Offer{ID: "o" + id, AgentID: id, Hostname: id, GPUs: free, Types: []string{c.types[id]}, Free: amount, Ports: ports})
		for r := range rapid.IntRange(0, 3).Draw(t, "running") {
			s := spec(fmt.Sprintf("r%d-%d", a, r), rapid.IntRange(1, 3).Draw(t, "gpus"), 1)
			run := queue.RunningTask{TaskID: s.Name, AgentID: id, Spec: s, Since: c.in.Now.Add(-time.Minute), GPUTypes: map[string]int{c.types[id]: s.Request.GPUs}}
			if s.RunTime > 0 {
				run.Ends = c.in.Now.Add(s.RunTime)
			}
			c.in.Running = append(c.in.Running, run)
		}
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		s := spec(fmt.Sprintf("j%d", i), rapid.IntRange(1, 4).Draw(t, "gpus"), rapid.IntRange(1, 3).Draw(t, "tasks"))
		j := queue.WaitingJob{Spec: s}
		for n := range s.Tasks {
			j.Tasks = append(j.Tasks, queue.WaitingTask{ID: fmt.Sprintf("%s.%d", s.Name, n), Index: n})
		}
		c.in.Waiting = append(c.in.Waiting, j)
	}
	return c
}

// waitingInOrder returns the waiting jobs in placement order.
func (c *backfillCase) waitingInOrder() []queue.WaitingJob {
	return slices.SortedStableFunc(slices.Values(c.in.Waiting), func(a, b queue.WaitingJob) int { return b.Spec.Priority - a.Spec.Priority })
}

// findHead returns the named job or, for "", the first job in order some of whose tasks found no place. missing is
// how many of its tasks wait. free is what was free after the job was placed.
func (c *backfillCase) findHead(plan *Plan, name string) (h *queue.WaitingJob, missing int, free map[string]int) {
	free = c.freeByAgent()
	order := c.waitingInOrder()
	for i := range order {
		missing = len(order[i].Tasks)
		for _, a := range plan.Accept {
			for _, l := range a.Launches {
				if l.Spec.Name == order[i].Spec.Name {
					free[a.AgentID] -= l.Spec.Request.GPUs
					missing--
				}
			}
		}
		if missing > 0 && (name == "" || order[i].Spec.Name == name) {
			return &order[i], missing, free
		}
	}
	return nil, 0, free
}

// countRoom returns how many tasks of the job fit, given what is free on each agent: on all agents, or on those of one type.
func (c *backfillCase) countRoom(spec *job.Spec, free map[string]int) int {
	byType := map[string]int{}
	for id, n := range free {
		name := ""
		if spec.Request.Types.Same {
			name = c.types[id]
		}
		byType[name] += n / spec.Request.GPUs
	}
	room := 0
	for _, n := range byType {
		room = max(room, n)
	}
	return room
}

// naiveEarliestStart returns when n tasks of the job fit at the same time, given what is free and when running tasks end.
// It returns false if that is not known.
func (c *backfillCase) naiveEarliestStart(free map[string]int, running []queue.RunningTask, n int, spec *job.Spec) (time.Time, bool) {
	now := c.in.Now
	times := []time.Time{now}
	for _, r := range running {
		if !r.Ends.IsZero() {
			times = append(times, r.Ends)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, at := range times {
		then := maps.Clone(free)
		for _, r := range running {
			if !r.Ends.IsZero() && !r.Ends.After(at) {
				then[r.AgentID] += r.Spec.Request.GPUs
			}
		}
		if c.countRoom(spec, then) >= n {
			return at, true
		}
	}
	return time.Time{}, false
}

func (c *backfillCase) freeByAgent() map[string]int {
	free := map[string]int{}
	for _, o := range c.offers {
		free[o.AgentID] += o.GPUs
	}
	return free
}

// TestBackfillNeverDelaysHead checks that backfilled jobs never delay the head of the queue: it can start as early as
// without them.
func TestBackfillNeverDelaysHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genBackfillCase(t)
		for i := range c.in.Running { // TestPreemptionTakesNoUnneededVictim covers preemption
			c.in.Running[i].Spec.Preemptible = false
		}
		plan := planOffers(c.offers, c.in, testPolicy())
		h, n, own := c.findHead(&plan, "")
		if h == nil {
			return
		}
		var after []queue.RunningTask
		free := c.freeByAgent()
		for _, a := range plan.Accept {
			for _, l := range a.Launches {
				free[a.AgentID] -= l.Spec.Request.GPUs
				r := queue.RunningTask{TaskID: l.TaskID, AgentID: a.AgentID, Spec: l.Spec}
				if l.Spec.RunTime > 0 {
					r.Ends = c.in.Now.Add(l.Spec.RunTime)
				}
				after = append(after, r)
			}
		}
		alone, known := c.naiveEarliestStart(own, c.in.Running, n, h.Spec)
		if !known {
			return
		}
		with, ok := c.naiveEarliestStart(free, slices.Concat(c.in.Running, after), n, h.Spec)
		if !ok || with.After(alone) {
			t.Fatalf("%s could start in %s, now in %s (%t)\n%+v", h.Spec.Name, alone.Sub(c.in.Now), with.Sub(c.in.Now), ok, plan)
		}
	})
}

// TestPreemptingJobsStartWhenVictimsHaveEnded checks that all jobs of a role that preempt tasks at the same time start once
// the victims have ended, and preempt no further ones for that. Each victim has a lower priority than its job.
func TestPreemptingJobsStartWhenVictimsHaveEnded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genBackfillCase(t)
		for i := range c.in.Waiting { // jobs that preempt together have the same demand
			s := c.in.Waiting[i].Spec
			s.Request, s.Gang, s.Priority = gpu.Request{GPUs: c.in.Waiting[0].Spec.Request.GPUs}, s.Gang && !s.Request.Types.Same, min(s.Priority+1, 2)
		}
		plan := planOffers(c.offers, c.in, testPolicy())
		if first, _, _ := c.findHead(&plan, ""); first == nil || len(plan.Preempt) == 0 || first.RunID() != plan.Preempt[0].ForJob {
			return // with fewer running tasks another job may be the head
		}
		victims := map[string]string{}
		for _, v := range plan.Preempt {
			victims[v.TaskID] = v.ForJob.Name
		}
		started := map[string]int{} // tasks by job
		free := c.freeByAgent()
		var running []queue.RunningTask
		for _, r := range c.in.Running {
			if name := victims[r.TaskID]; name != "" {
				free[r.AgentID] += r.Spec.Request.GPUs
				if p := c.specOf(name).Priority; p <= r.Spec.Priority || !r.Spec.Preemptible {
					t.Fatalf("%s has the priority %d, and is preempted for %s with %d", r.TaskID, r.Spec.Priority, name, p)
				}
				continue
			}
			running = append(running, r)
		}
		for _, a := range plan.Accept {
			for _, l := range a.Launches {
				free[a.AgentID] -= l.Spec.Request.GPUs
				started[l.Spec.Name]++
				running = append(running, queue.RunningTask{
					TaskID:   l.TaskID,
					AgentID:  a.AgentID,
					Spec:     l.Spec,
					Since:    c.in.Now,
					GPUTypes: map[string]int{c.types[a.AgentID]: l.Spec.Request.GPUs},
				})
			}
		}
		after := PlanInput{Now: c.in.Now, Running: running}
		for _, j := range c.in.Waiting {
			if j.Tasks = j.Tasks[started[j.Spec.Name]:]; len(j.Tasks) > 0 {
				after.Waiting = append(after.Waiting, j)
			}
		}
		for i := range c.offers {
			c.offers[i].GPUs = free[c.offers[i].AgentID]
		}
		next := planOffers(c.offers, after, testPolicy())
		starts := map[string]int{}
		for _, a := range next.Accept {
			for _, l := range a.Launches {
				starts[l.Spec.Name]++
			}
		}
		for _, name := range victims {
			if starts[name] == 0 {
				t.Fatalf("%s does not start\nfirst %s\nthen %s", name, planText(&plan), planText(&next))
			}
		}
		for _, v := range next.Preempt {
			if starts[v.ForJob.Name] == 0 && slices.Contains(slices.Collect(maps.Values(victims)), v.ForJob.Name) {
				t.Fatalf("%s preempts again\nfirst %s\nthen %s", v.ForJob, planText(&plan), planText(&next))
			}
		}
	})
}

func (c *backfillCase) specOf(name string) *job.Spec {
	i := slices.IndexFunc(c.in.Waiting, func(j queue.WaitingJob) bool { return j.Spec.Name == name })
	return c.in.Waiting[i].Spec
}

// TestPreemptionTakesNoUnneededVictim checks that the first job that preempts tasks preempts only preemptible ones of lower
// priority, only if that makes room for the job, and none unnecessarily.
func TestPreemptionTakesNoUnneededVictim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genBackfillCase(t)
		plan := planOffers(c.offers, c.in, testPolicy())
		victims, beneficiary := map[string]bool{}, ""
		for _, v := range plan.Preempt {
			if beneficiary = cmp.Or(beneficiary, v.ForJob.Name); v.ForJob.Name == beneficiary {
				victims[v.TaskID] = true
			}
		}
		h, missing, free := c.findHead(&plan, beneficiary)
		if h == nil {
			if len(victims) > 0 {
				t.Fatalf("%d victims though all have their places", len(victims))
			}
			return
		}
		fits := func(gone map[string]bool) bool {
			then := maps.Clone(free)
			for _, r := range c.in.Running {
				if gone[r.TaskID] {
					then[r.AgentID] += r.Spec.Request.GPUs
				}
			}
			return c.countRoom(h.Spec, then) >= missing
		}
		may := map[string]bool{}
		for _, r := range c.in.Running {
			if may[r.TaskID] = r.Spec.Preemptible && r.Spec.Priority < h.Spec.Priority; victims[r.TaskID] && !may[r.TaskID] {
				t.Fatalf("%s (priority %d, preemptible %t) is preempted for priority %d", r.TaskID, r.Spec.Priority, r.Spec.Preemptible, h.Spec.Priority)
			}
		}
		if !h.Spec.Gang && !fits(may) {
			if missing = 1; len(victims) == 0 {
				return // one task could start, unless run times of other tasks predict a start for all
			}
		}
		if fits(may) != (len(victims) > 0) {
			t.Fatalf("%s lacks %d, %d victims, all that may go make room: %t", h.Spec.Name, missing, len(victims), fits(may))
		}
		if len(victims) > 0 && !fits(victims) {
			t.Fatalf("%d victims make no room for %s", len(victims), h.Spec.Name)
		}
		for id := range victims {
			delete(victims, id)
			if fits(victims) {
				t.Fatalf("%s is preempted unnecessarily", id)
			}
			victims[id] = true
		}
	})
}

// pointersTo returns the offers as a State has them.
func pointersTo(offers []fit.Offer) []*fit.Offer {
	list := make([]*fit.Offer, len(offers))
	for i := range offers {
		list[i] = &offers[i]
	}
	return list
}

// agentOf returns the agent of an offer.
func agentOf(o fit.Offer) fit.AgentResources {
	return fit.CollectAgents([]*fit.Offer{&o})[0]
}

// planOffers makes a plan for offers alone, without agents of earlier plans.
func planOffers(offers []fit.Offer, in PlanInput, p Policy) Plan {
	c, leftoverOf := NewClusterOfOffers(pointersTo(offers), &in, &p)
	return MakePlan(CachedAgents{Cluster: c, LeftoverOf: leftoverOf, Buffers: &PlanBuffers{}}, &in, &p)
}

func testPolicy() Policy {
	return Policy{Fit: fit.PlacementPolicy{Name: "binpack"}}
}
