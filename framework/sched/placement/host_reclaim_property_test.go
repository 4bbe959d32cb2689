package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// drawHostWorld returns a cluster whose CPUs and memory are scarce, with roles that deserve GPUs, CPUs and memory, each of
// them or not.
func drawHostWorld(t *rapid.T, tree bool) *lendingWorld {
	w := newLendingWorld(t)
	w.amounts = map[string]fit.Amount{}
	gpus, cpus, gib := 0, 0, 0
	for i := range rapid.IntRange(1, 3).Draw(t, "agents") {
		id := fmt.Sprint("a", i)
		w.agents[id] = rapid.IntRange(0, 2).Draw(t, "gpus")
		c, m := rapid.IntRange(2, 6).Draw(t, "cpus"), rapid.IntRange(2, 6).Draw(t, "gib")
		w.amounts[id] = fit.Amount{CPUs: float64(c) + 0.5, MemMiB: float64(m*1024 + 100), DiskMiB: 1000} // with executors
		gpus, cpus, gib = gpus+w.agents[id], cpus+c, gib+m
		w.turns[id] = rapid.IntRange(0, 4).Draw(t, "first offered to")
	}
	w.policy.Overhead = fit.Amount{CPUs: 0.01, MemMiB: 1}
	take := func(left *int, name string) float64 {
		n := rapid.IntRange(0, *left).Draw(t, name)
		*left -= n
		return float64(n)
	}
	for i := range rapid.IntRange(2, 4).Draw(t, "roles") {
		r := queue.Role{Name: fmt.Sprint("r", i)}
		if n := take(&gpus, "deserved gpus"); n > 0 {
			r.Deserved = quota.Quota{quota.AllTypes: int(n)}
		}
		r.DeservedHost = quota.HostQuota{}
		if rapid.Bool().Draw(t, "deserves cpus") {
			r.DeservedHost[quota.CPUs] = take(&cpus, "deserved cpus")
		}
		if rapid.Bool().Draw(t, "deserves memory") {
			r.DeservedHost[quota.Memory] = take(&gib, "deserved gib") * 1024
		}
		w.policy.Roles = append(w.policy.Roles, r)
		if i == 0 && tree {
			below := queue.Role{Name: "r0/x", DeservedHost: quota.HostQuota{}}
			for resource, n := range r.DeservedHost {
				below.DeservedHost[resource] = float64(int(n / 2))
			}
			w.policy.Roles = append(w.policy.Roles, below, queue.Role{Name: "r0/y"})
		}
	}
	w.policy.SetDefaults()
	if err := w.policy.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.policy.Roles {
		t.Logf("role %s deserves %s, %v", r.Name, r.Deserved, r.DeservedHost)
	}
	for i := range rapid.IntRange(1, 7).Draw(t, "jobs") {
		s := waitingJob(fmt.Sprint("j", i), rapid.IntRange(1, 4).Draw(t, "tasks"), nil).Spec
		s.Role = rapid.SampledFrom(w.policy.Roles).Draw(t, "role").Name
		s.Preemptible = rapid.Bool().Draw(t, "preemptible")
		s.MinRunTime = time.Duration(rapid.SampledFrom([]int{0, 0, 25}).Draw(t, "min_run_time")) * time.Second
		s.Request.GPUs = rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "gpus of a task")
		s.CPUs, s.MemMiB = float64(rapid.IntRange(1, 3).Draw(t, "cpus of a task")), float64(rapid.IntRange(1, 3).Draw(t, "gib of a task")*1024)
		w.jobs = append(w.jobs, s)
	}
	return w
}

// amountIn returns the CPUs or MiB of a job's tasks.
func amountIn(s *job.Spec, resource string) float64 {
	if resource == quota.CPUs {
		return s.CPUs
	}
	return s.MemMiB
}

// heldHost returns what a role holds of a resource with tasks that do not end.
func (w *lendingWorld) heldHost(role, resource string) (sum float64) {
	for i := range w.running {
		if r := &w.running[i]; !r.Ending && isWithin(r.Spec.Role, role) {
			sum += amountIn(r.Spec, resource)
		}
	}
	return sum
}

// lendsHost reports whether a role without roles below it lends a resource: it holds more than it deserves, of the other one
// if it deserves only that.
func (w *lendingWorld) lendsHost(r *queue.Role, resource string) bool {
	if n, listed := r.DeservedHost[resource]; listed {
		return w.heldHost(r.Name, resource) > n
	}
	for other, n := range r.DeservedHost {
		return w.heldHost(r.Name, other) > n
	}
	return true
}

func (w *lendingWorld) role(name string) *queue.Role {
	return &w.policy.Roles[slices.IndexFunc(w.policy.Roles, func(r queue.Role) bool { return r.Name == name })]
}

// submitAll submits the jobs one by one, and settles between some of them and at the end.
func (w *lendingWorld) submitAll(t *rapid.T) {
	for _, s := range w.jobs {
		w.submit(s)
		if rapid.Bool().Draw(t, "settles between") {
			w.settle()
		}
	}
	w.settle()
	for agent, place := range w.unused {
		w.t.Fatalf("a task of %s has ended on %s for %s, and none has started there since", place.loser, agent, place.claimant)
	}
}

// TestReclaimOfHostResourcesSettles: once nothing happens any more, no task without GPUs that is inside the CPUs and memory
// that its role deserves waits while the end of one task of a role that lends them would give it a place. Tasks end only of
// roles that hold more than they deserve, and make room for tasks of other jobs that start.
func TestReclaimOfHostResourcesSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawHostWorld(t, false)
		w.onPreempt = func(r *queue.RunningTask, v PreemptionVictim) {
			if v.DeservedBy == "" {
				return
			}
			role, lends := w.role(r.Spec.Role), func(resource string) bool { return w.lendsHost(w.role(r.Spec.Role), resource) }
			if forGPUs := w.specOfJob(v.ForJob.Name).Request.GPUs > 0; !(r.Spec.Request.GPUs > 0 && forGPUs) && !slices.ContainsFunc(quota.HostResources(), lends) {
				t.Fatalf("%s ends for %s, and its role holds no more than it deserves of what it lists", r.TaskID, v.ForJob)
			}
			if r.Spec.Request.GPUs > 0 && w.held(role.Name) <= role.Deserved.Total() {
				t.Fatalf("%s ends for %s, and its role deserves %d GPUs and holds %d", r.TaskID, v.ForJob, role.Deserved.Total(), w.held(role.Name))
			}
		}
		w.submitAll(t)
		most := 0.0
		for i := range w.policy.Roles {
			r := &w.policy.Roles[i]
			most += float64(r.Deserved.Total()) + r.DeservedHost[quota.CPUs] + r.DeservedHost[quota.Memory]/1024
		}
		if most *= 3; float64(w.preempted) > most { // a claim may need the places of three tasks
			t.Fatalf("%d tasks ended for others, want at most %g", w.preempted, most)
		}
		for _, s := range w.jobs {
			if len(w.waiting[s.Name]) > 0 && s.Request.GPUs == 0 {
				w.checkHostClaim(s)
			}
		}
	})
}

func (w *lendingWorld) specOfJob(name string) *job.Spec {
	return w.jobs[slices.IndexFunc(w.jobs, func(s *job.Spec) bool { return s.Name == name })]
}

// checkHostClaim fails if a waiting task without GPUs is a claim that the end of one task would serve.
func (w *lendingWorld) checkHostClaim(s *job.Spec) {
	claimant := w.role(s.Role)
	var claims []string
	for resource, n := range claimant.DeservedHost {
		if w.heldHost(s.Role, resource)+amountIn(s, resource) > n {
			return
		}
		claims = append(claims, resource)
	}
	slices.Sort(claims)
	uses := queue.TaskAmount(s, w.policy.Overhead)
	for _, id := range slices.Sorted(maps.Keys(w.agents)) {
		free := w.freeAmount(id)
		for i := range w.running {
			r := &w.running[i]
			lender := w.role(r.Spec.Role)
			lends := slices.ContainsFunc(claims, func(resource string) bool { return w.lendsHost(lender, resource) })
			if r.AgentID != id || lender == claimant || !lends || r.Spec.Request.GPUs > 0 && w.held(lender.Name) <= lender.Deserved.Total() {
				continue
			}
			freed := queue.TaskAmount(r.Spec, w.policy.Overhead)
			if free.CPUs+freed.CPUs >= uses.CPUs && free.MemMiB+freed.MemMiB >= uses.MemMiB {
				w.t.Fatalf("%s waits, role %s holds %g CPUs and %g MiB, and the end of %s would give it a place", s.Name, s.Role,
					w.heldHost(s.Role, quota.CPUs), w.heldHost(s.Role, quota.Memory), r.TaskID)
			}
		}
	}
}

// TestReclaimOfHostResourcesSettlesInTrees: with roles below others, and with both policies, nothing ends any more some time
// after the last submission.
func TestReclaimOfHostResourcesSettlesInTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawHostWorld(t, true)
		w.policy.Reclaim = rapid.SampledFrom([]ReclaimPolicy{ReclaimDeserved, ReclaimEntitled}).Draw(t, "reclaim")
		w.submitAll(t)
	})
}

// TestNothingEndsForPlacesThatItsRoleClaimsAgain: role a deserves 1 GiB. It runs a small task inside that and borrows for a large
// one. Only the end of both would make room for a task of role b, and then the small one is a claim and takes most of the
// place, the large one uses the rest of it, and both would end again.
func TestNothingEndsForPlacesThatItsRoleClaimsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		cpusOfSmall float64
		ends        bool
	}{
		"the small one leaves no room":                  {3, false},
		"there is room beside the small one afterwards": {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLendingWorld(t)
			w.agents["agent"], w.amounts = 0, map[string]fit.Amount{"agent": {CPUs: c.cpusOfSmall + 2.5, MemMiB: 8000, DiskMiB: 1000}}
			w.policy.Roles = []queue.Role{
				{Name: "a", DeservedHost: quota.HostQuota{quota.Memory: 1024}}, {Name: "b", DeservedHost: quota.HostQuota{quota.Memory: 6000}},
			}
			w.policy.Overhead = fit.Amount{CPUs: 0.01, MemMiB: 1}
			w.policy.SetDefaults()
			job := func(name, role string, cpus, gib float64) *job.Spec { return w.addHostJob(name, role, 1, 0, cpus, gib) }
			w.submit(job("large", "a", 2, 2))
			w.settle()
			w.submit(job("small", "a", c.cpusOfSmall, 1))
			w.settle()
			w.submit(job("claim", "b", c.cpusOfSmall+1, 1))
			w.settle()
			if got := w.preempted > 0; got != c.ends {
				t.Errorf("%d tasks ended, want some: %t", w.preempted, c.ends)
			}
		})
	}
}

// addHostJob adds a job.
func (w *lendingWorld) addHostJob(name, role string, tasks, gpus int, cpus, gib float64) *job.Spec {
	s := waitingJob(name, tasks, nil).Spec
	s.Role, s.Request.GPUs, s.CPUs, s.MemMiB = role, gpus, cpus, gib*1024
	w.jobs = append(w.jobs, s)
	return s
}

// TestClaimComesBeforeRolesEntitledToNoGPUs: a GPU of r0/y and the memory beside it end for role r1. The task that had the
// memory is inside the CPUs that r0 deserves. r0 itself demands no GPUs: it must not come first with this task because it holds
// none of the GPUs that it is entitled to, else both tasks start again and end again forever.
func TestClaimComesBeforeRolesEntitledToNoGPUs(t *testing.T) {
	w := newLendingWorld(t)
	w.agents, w.turns = map[string]int{"a0": 1, "a1": 1}, map[string]int{"a0": 3, "a1": 1}
	w.amounts = map[string]fit.Amount{"a0": {CPUs: 5.5, MemMiB: 3*1024 + 100, DiskMiB: 1000}, "a1": {CPUs: 4.5, MemMiB: 3*1024 + 100, DiskMiB: 1000}}
	one := quota.Quota{quota.AllTypes: 1}
	w.policy.Roles = []queue.Role{
		{Name: "r0", Deserved: one, DeservedHost: quota.HostQuota{quota.CPUs: 6}}, {Name: "r0/x", DeservedHost: quota.HostQuota{quota.CPUs: 3}},
		{Name: "r0/y"}, {Name: "r1", Deserved: one, DeservedHost: quota.HostQuota{quota.CPUs: 2}},
	}
	w.policy.Overhead, w.policy.Reclaim = fit.Amount{CPUs: 0.01, MemMiB: 1}, ReclaimEntitled
	w.policy.SetDefaults()
	w.submit(w.addHostJob("large", "r0/y", 3, 1, 3, 1))
	w.submit(w.addHostJob("wide", "r0/x", 2, 1, 2, 2))
	w.submit(w.addHostJob("small", "r0", 2, 0, 1, 1))
	for _, s := range w.jobs {
		s.Preemptible = s.Name != "wide"
	}
	w.settle()
	w.submit(w.addHostJob("claim", "r1", 4, 1, 1, 2))
	w.settle()
	if w.preempted != 2 || w.held("r1") != 1 {
		t.Errorf("%d tasks ended and the claim holds %d GPUs, want 2 and 1", w.preempted, w.held("r1"))
	}
}

// TestNothingEndsForClaimsOfHigherLevels: the claim of r0/x is inside what r0 deserves, and needs the places of both tasks of r1.
// One of these is inside what r1 deserves itself, and comes before the claim once both have ended.
func TestNothingEndsForClaimsOfHigherLevels(t *testing.T) {
	w := newLendingWorld(t)
	w.agents, w.amounts = map[string]int{"a0": 0}, map[string]fit.Amount{"a0": {CPUs: 5.5, MemMiB: 3*1024 + 100, DiskMiB: 1000}}
	w.policy.Roles = []queue.Role{
		{Name: "r0", DeservedHost: quota.HostQuota{quota.Memory: 3072}}, {Name: "r0/x", DeservedHost: quota.HostQuota{quota.Memory: 1536}},
		{Name: "r1", DeservedHost: quota.HostQuota{quota.CPUs: 1}},
	}
	w.policy.Overhead = fit.Amount{CPUs: 0.01, MemMiB: 1}
	w.policy.SetDefaults()
	small := w.addHostJob("small", "r1", 1, 0, 1, 2)
	small.Preemptible = true
	w.submit(small)
	w.settle()
	w.submit(w.addHostJob("large", "r1", 1, 0, 3, 1))
	w.settle()
	w.submit(w.addHostJob("claim", "r0/x", 1, 0, 3, 3))
	w.settle()
	if w.preempted > 0 {
		t.Errorf("%d tasks ended, want none", w.preempted)
	}
}
