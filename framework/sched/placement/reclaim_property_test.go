package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// fataler is the part of *testing.T and *rapid.T that worlds use.
type fataler interface {
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// lendingWorld runs plans in turn on a small cluster. Mesos offers the free GPUs of each agent to one role after the other.
type lendingWorld struct {
	t        fataler
	now      time.Time
	policy   Policy
	agents   map[string]int        // GPUs
	amounts  map[string]fit.Amount // CPUs and memory of agents, nil for more than all tasks need
	turns    map[string]int        // the role that an agent is offered to next
	jobs     []*job.Spec
	waiting  map[string][]queue.WaitingTask
	running  []queue.RunningTask
	attempts int
	// preempted counts the tasks that ended for others.
	preempted int
	// onPreempt, if set, is called for each task that ends for another one, before it does.
	onPreempt func(r *queue.RunningTask, v PreemptionVictim)
	// unused are the places of tasks that have ended for others, by agent, until another job starts a task there. Those that
	// have ended for a job below the same limit, or the same role that deserves GPUs, are left out, and those for a role that
	// claims both GPUs and CPUs or memory: a claim of one kind may start on what ended for the other kind, which then needs
	// another place. So are those for jobs of several tasks that are no gang: tasks end for one after another, and what ends
	// for a later one may be enough for all. Once a third job starts that may claim too, no place is unused: which of their
	// places is offered first decides where the two jobs start, and what is left may be too small for one or not be needed.
	unused map[string]unusedPlace
}

// unusedPlace is a place that a job has left for another one.
type unusedPlace struct{ loser, claimant string }

// newLendingWorld returns a cluster without agents and roles.
func newLendingWorld(t fataler) *lendingWorld {
	return &lendingWorld{
		t: t, now: planTime(), agents: map[string]int{}, turns: map[string]int{}, waiting: map[string][]queue.WaitingTask{},
		unused: map[string]unusedPlace{},
	}
}

// drawLendingWorld returns a cluster with roles that deserve part of it, one of them below another one.
func drawLendingWorld(t *rapid.T, gangs bool) *lendingWorld {
	w := newLendingWorld(t)
	capacity := 0
	for i := range rapid.IntRange(1, 4).Draw(t, "agents") {
		n := rapid.IntRange(1, 4).Draw(t, "gpus")
		w.agents[fmt.Sprint("a", i)] = n
		w.turns[fmt.Sprint("a", i)] = rapid.IntRange(0, 4).Draw(t, "first offered to")
		capacity += n
	}
	left := capacity
	for i := range rapid.IntRange(2, 4).Draw(t, "roles") {
		r := queue.Role{Name: fmt.Sprint("r", i), Weight: float64(rapid.IntRange(1, 3).Draw(t, "weight"))}
		if n := rapid.IntRange(0, left).Draw(t, "deserved"); n > 0 {
			r.Deserved = quota.Quota{quota.AllTypes: n}
			left -= n
			if i == 0 && rapid.Bool().Draw(t, "tree") {
				below := rapid.IntRange(1, n).Draw(t, "below")
				w.policy.Roles = append(w.policy.Roles, queue.Role{Name: "r0/x", Deserved: quota.Quota{quota.AllTypes: below}})
				if rapid.Bool().Draw(t, "sibling") {
					y := queue.Role{Name: "r0/y"}
					if n > below {
						y.Deserved = quota.Quota{quota.AllTypes: rapid.IntRange(1, n-below).Draw(t, "below")}
					}
					w.policy.Roles = append(w.policy.Roles, y)
				}
			}
			if rapid.Bool().Draw(t, "limited") {
				r.Quota = quota.Quota{quota.AllTypes: rapid.IntRange(n, capacity).Draw(t, "limit")}
			}
			if i == 0 && r.Quota != nil && rapid.Bool().Draw(t, "deserves nothing itself") {
				r.Deserved, r.Quota = nil, quota.Quota{quota.AllTypes: rapid.IntRange(1, n).Draw(t, "limit")}
			}
		}
		w.policy.Roles = append(w.policy.Roles, r)
	}
	w.policy.SetDefaults()
	for _, r := range w.policy.Roles {
		t.Logf("role %s deserves %s, limit %s", r.Name, r.Deserved, r.Quota)
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
		s := waitingJob(fmt.Sprint("j", i), rapid.IntRange(1, 5).Draw(t, "tasks"), nil).Spec
		s.Role = rapid.SampledFrom(w.policy.Roles).Draw(t, "role").Name
		s.Preemptible = rapid.Bool().Draw(t, "preemptible")
		s.MinRunTime = time.Duration(rapid.SampledFrom([]int{0, 0, 25, 70}).Draw(t, "min_run_time")) * time.Second
		if gangs {
			s.Gang, s.Request.GPUs = rapid.Bool().Draw(t, "gang"), rapid.IntRange(1, 2).Draw(t, "gpus of a task")
		}
		w.jobs = append(w.jobs, s)
	}
	return w
}

// submit queues the tasks of a job.
func (w *lendingWorld) submit(s *job.Spec) {
	w.t.Logf("%s of role %s: %d tasks of %d GPUs, gang %t, preemptible %t", s.Name, s.Role, s.Tasks, s.Request.GPUs, s.Gang, s.Preemptible)
	for i := range s.Tasks {
		w.queueTask(s, i)
	}
}

func (w *lendingWorld) queueTask(s *job.Spec, index int) {
	w.attempts++
	w.waiting[s.Name] = append(w.waiting[s.Name], queue.WaitingTask{ID: fmt.Sprintf("%s.%d.%d", s.Name, index, w.attempts), Index: index})
}

// round ends tasks that were told to, offers what is free, makes a plan and carries it out. It reports whether anything
// happened.
func (w *lendingWorld) round() bool {
	w.now = w.now.Add(10 * time.Second)
	active := false
	kept := w.running[:0:0]
	for _, r := range w.running {
		if !r.Ending {
			kept = append(kept, r)
			continue
		}
		active = true
		index := 0
		fmt.Sscanf(r.TaskID[len(r.Spec.Name):], ".%d.", &index)
		w.queueTask(r.Spec, index)
	}
	w.running = kept

	in := PlanInput{Now: w.now, Running: slices.Clone(w.running), FutileReturns: map[string]bool{}}
	for _, s := range w.jobs {
		if tasks := w.waiting[s.Name]; len(tasks) > 0 && !(s.Gang && len(tasks) < s.Tasks) {
			in.Waiting = append(in.Waiting, queue.WaitingJob{Spec: s, Tasks: slices.Clone(tasks)})
		}
	}
	var offers []fit.Offer
	for _, id := range slices.Sorted(maps.Keys(w.agents)) {
		free := w.agents[id]
		for i := range w.running {
			if w.running[i].AgentID == id {
				free -= w.running[i].Spec.Request.GPUs
			}
		}
		if free < 0 {
			w.t.Fatalf("agent %s has %d GPUs more in use than it has", id, -free)
		}
		if left := w.freeAmount(id); w.amounts != nil && (left.CPUs < 0 || left.MemMiB < 0) {
			w.t.Fatalf("agent %s has more in use than it has: %v", id, left)
		}
		to := w.policy.Roles[w.turns[id]%len(w.policy.Roles)].Name
		for _, role := range w.policy.Roles {
			o := roleOffer(role.Name, id, free)
			if w.amounts != nil {
				o.Free = w.freeAmount(id)
			}
			if role.Name == to { // also without GPUs: what else is free is known then
				offers = append(offers, o)
				continue
			}
			in.Known = append(in.Known, WithoutFree(agentOf(o)))
		}
	}
	plan := w.plan(offers, in)
	if again := w.plan(offers, in); cmp.Diff(plan, again) != "" {
		w.t.Fatalf("two plans of one input differ: %s", cmp.Diff(plan, again))
	}
	w.carryOut(&plan)
	held := map[string]bool{}
	for _, o := range plan.Hold {
		held[o.OfferID] = true
	}
	for i := range offers { // a held offer stays, any other one is for the next role
		if !held[offers[i].ID] {
			w.turns[offers[i].AgentID]++
		}
	}
	return active || len(plan.Accept) > 0 || len(plan.Preempt) > 0
}

// freeAmount returns the CPUs and memory of an agent that no task uses.
func (w *lendingWorld) freeAmount(agent string) fit.Amount {
	free := w.amounts[agent]
	for i := range w.running {
		if r := &w.running[i]; r.AgentID == agent {
			uses := queue.TaskAmount(r.Spec, w.policy.Overhead)
			free.CPUs, free.MemMiB = free.CPUs-uses.CPUs, free.MemMiB-uses.MemMiB
		}
	}
	return free
}

func (w *lendingWorld) plan(offers []fit.Offer, in PlanInput) Plan {
	c, leftoverOf := NewClusterOfOffers(pointersTo(offers), &in, &w.policy)
	for i := range c.agents {
		c.agents[i].TotalGPUs = w.agents[c.agents[i].ID]
	}
	return MakePlan(CachedAgents{Cluster: c, LeftoverOf: leftoverOf, Buffers: &PlanBuffers{}}, &in, &w.policy)
}

func (w *lendingWorld) carryOut(plan *Plan) {
	for _, a := range plan.Accept {
		for _, l := range a.Launches {
			w.t.Logf("%s starts on %s for %s", l.TaskID, a.AgentID, a.Role)
		}
	}
	for _, v := range plan.Preempt {
		w.t.Logf("%s ends for %s, deserved by %q", v.TaskID, v.ForJob, v.DeservedBy)
	}
	for _, a := range plan.Accept {
		for _, l := range a.Launches {
			list := w.waiting[l.Spec.Name]
			at := slices.IndexFunc(list, func(t queue.WaitingTask) bool { return t.ID == l.TaskID })
			if at < 0 {
				w.t.Fatalf("%s does not wait", l.TaskID)
			}
			w.waiting[l.Spec.Name] = slices.Delete(slices.Clone(list), at, at+1)
			w.recordUse(a.AgentID, l.Spec)
			w.running = append(w.running, queue.RunningTask{TaskID: l.TaskID, AgentID: a.AgentID, Spec: l.Spec, GPUTypes: l.GPUTypes, Since: w.now})
		}
	}
	for _, v := range plan.Preempt {
		at := slices.IndexFunc(w.running, func(r queue.RunningTask) bool { return r.TaskID == v.TaskID })
		if at < 0 || w.running[at].Ending {
			w.t.Fatalf("%s cannot end for %s", v.TaskID, v.ForJob)
		}
		if ran := w.now.Sub(w.running[at].Since); ran < w.running[at].Spec.MinRunTime {
			w.t.Fatalf("%s ends after %s, before its min_run_time of %s", v.TaskID, ran, w.running[at].Spec.MinRunTime)
		}
		if w.onPreempt != nil {
			w.onPreempt(&w.running[at], v)
		}
		loser, agent := w.running[at].Spec, w.running[at].AgentID
		claim := w.specOfJob(v.ForJob.Name)
		if endsForOne := claim.Gang || claim.Tasks == 1; endsForOne && !w.hasClaimsOfBothKinds(v.DeservedBy) &&
			!slices.ContainsFunc(w.policy.Roles, func(r queue.Role) bool { // else it may have made room inside a limit, or what a role deserves
				return (r.Quota != nil || len(r.Deserved) > 0) && isWithin(loser.Role, r.Name) && isWithin(v.DeservedBy, r.Name)
			}) {
			w.unused[agent] = unusedPlace{loser.Name, v.ForJob.Name}
		}
		w.running[at].Ending, w.running[at].Ends = true, w.now.Add(time.Second)
		w.preempted++
		if v.DeservedBy == w.running[at].Spec.Role {
			w.t.Fatalf("%s ends for a job of its own role", v.TaskID)
		}
	}
	for _, s := range w.jobs {
		placed, ending := 0, 0
		for i := range w.running {
			if r := &w.running[i]; r.Spec == s && r.Ending {
				ending++
			} else if r.Spec == s {
				placed++
			}
		}
		if s.Gang && placed > 0 && (placed < s.Tasks || ending > 0) {
			w.t.Fatalf("gang %s has %d of %d tasks, %d end", s.Name, placed, s.Tasks, ending)
		}
	}
	for _, role := range w.policy.Roles {
		if limit, ok := role.Quota[quota.AllTypes]; ok && w.held(role.Name) > limit {
			w.t.Fatalf("role %s holds %d, its limit is %d", role.Name, w.held(role.Name), limit)
		}
		moved := 0 // GPUs that tasks of the role leave to other tasks of it
		for _, v := range plan.Preempt {
			if s := w.specOf(v.TaskID); isWithin(s.Role, role.Name) && isWithin(v.DeservedBy, role.Name) {
				moved += s.Request.GPUs
			}
		}
		largest := 0 // unit that ended for a task outside of the role
		for _, v := range plan.Preempt {
			if s := w.specOf(v.TaskID); v.DeservedBy != "" && isWithin(s.Role, role.Name) && !isWithin(v.DeservedBy, role.Name) {
				unit := s.Request.GPUs
				if s.Gang {
					unit *= s.Tasks
				}
				largest = max(largest, unit)
			}
		}
		if left := w.held(role.Name) + moved; largest > 0 && !w.policy.PursuesEntitlements() && left+largest <= role.Deserved.Total() {
			w.t.Fatalf("role %s deserves %d and is left with %d, and no task of more than %d ended for others", role.Name, role.Deserved.Total(), left, largest)
		}
	}
}

// recordUse removes from unused what the start of a job's task on an agent uses.
func (w *lendingWorld) recordUse(agent string, s *job.Spec) {
	if place, ok := w.unused[agent]; ok && place.loser != s.Name {
		isGang := w.specOfJob(place.loser).Gang // one of its places is enough
		maps.DeleteFunc(w.unused, func(other string, p unusedPlace) bool { return other == agent || isGang && p.loser == place.loser })
	}
	if w.policy.PursuesEntitlements() || slices.ContainsFunc(w.policy.Roles, func(r queue.Role) bool {
		return isWithin(s.Role, r.Name) && len(r.Deserved)+len(r.DeservedHost) > 0
	}) {
		maps.DeleteFunc(w.unused, func(_ string, p unusedPlace) bool { return p.loser != s.Name && p.claimant != s.Name })
	}
}

func (w *lendingWorld) specOf(task string) *job.Spec {
	at := slices.IndexFunc(w.running, func(r queue.RunningTask) bool { return r.TaskID == task })
	return w.running[at].Spec
}

func isWithin(role, parent string) bool {
	return role == parent || len(role) > len(parent) && role[:len(parent)+1] == parent+"/"
}

// held returns the GPUs that a role and the roles below it hold with tasks that do not end.
func (w *lendingWorld) held(role string) (n int) {
	for i := range w.running {
		if r := &w.running[i]; !r.Ending && isWithin(r.Spec.Role, role) {
			n += r.Spec.Request.GPUs
		}
	}
	return n
}

// fullRoleAbove returns the lowest role at its limit of those that a role is in, or "" without such a role. The role gets more
// only from roles in that one.
func (w *lendingWorld) fullRoleAbove(role string) (full string) {
	for _, r := range w.policy.Roles {
		if limit, ok := r.Quota[quota.AllTypes]; ok && isWithin(role, r.Name) && w.held(r.Name) >= limit && len(r.Name) > len(full) {
			full = r.Name
		}
	}
	return full
}

// settle runs rounds until nothing happens in several of them.
func (w *lendingWorld) settle() {
	const most = 200
	for quiet, n := 0, 0; quiet < 12; n++ {
		if n == most {
			w.t.Fatalf("not quiet after %d rounds, %d preemptions", most, w.preempted)
		}
		if quiet++; w.round() {
			quiet = 0
		}
	}
}

// TestReclaimSettles: once nothing happens any more, no role is below what it deserves and demands while a role outside of
// it borrows. No task ends for nothing: at each level of the tree at most as many as GPUs are deserved there.
func TestReclaimSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawLendingWorld(t, false)
		w.submitAll(t)
		deserved := 0
		for _, top := range w.policy.Roles {
			if strings.Contains(top.Name, "/") {
				continue
			}
			below, levels := 0, 0
			for _, r := range w.policy.Roles {
				if isWithin(r.Name, top.Name) {
					levels++
				}
				if r.Name != top.Name && isWithin(r.Name, top.Name) {
					below += r.Deserved.Total()
				}
			}
			deserved += levels * max(top.Deserved.Total(), below) // all of it may be reclaimed among top-level roles, and again inside the role
		}
		if w.preempted > deserved {
			t.Fatalf("%d preemptions, at most %d GPUs may be reclaimed", w.preempted, deserved)
		}
		for _, a := range w.policy.Roles {
			demand := w.held(a.Name)
			for _, s := range w.jobs {
				if isWithin(s.Role, a.Name) {
					demand += len(w.waiting[s.Name])
				}
			}
			if w.held(a.Name) >= min(demand, a.Deserved.Total()) {
				continue
			}
			full := w.fullRoleAbove(a.Name)
			for _, b := range w.policy.Roles {
				if full != "" && !isWithin(b.Name, full) {
					continue
				}
				if !isWithin(a.Name, b.Name) && !isWithin(b.Name, a.Name) && w.held(b.Name) > b.Deserved.Total() {
					t.Fatalf("role %s demands %d, deserves %d and holds %d; role %s deserves %d and holds %d", a.Name, demand,
						a.Deserved.Total(), w.held(a.Name), b.Name, b.Deserved.Total(), w.held(b.Name))
				}
			}
		}
	})
}

// TestReclaimOfEntitlementsSettles: once nothing is submitted any more, nothing ends any more, also with gangs and several
// GPUs a task, and no task has ended before its min_run_time.
func TestReclaimOfEntitlementsSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawLendingWorld(t, rapid.Bool().Draw(t, "gangs"))
		w.policy.Reclaim = ReclaimEntitled
		w.submitAll(t)
	})
}

// TestReclaimKeepsGangsWhole: with gangs and several GPUs a task, gangs start and end together, plans become quiet, and no
// role that holds at most what it deserves loses a task to another one. Once nothing happens any more, no task that is inside
// what its role deserves waits while the end of one task of a role that borrows would give it a place.
func TestReclaimKeepsGangsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawLendingWorld(t, true)
		w.submitAll(t)
		for _, s := range w.jobs {
			if len(w.waiting[s.Name]) > 0 && !s.Gang {
				w.checkClaim(s)
			}
		}
	})
}

// deservesAlone reports whether a role deserves GPUs, and none of the roles below it does.
func (w *lendingWorld) deservesAlone(role string) bool {
	return len(w.role(role).Deserved) > 0 && !slices.ContainsFunc(w.policy.Roles, func(r queue.Role) bool {
		return r.Name != role && isWithin(r.Name, role) && len(r.Deserved) > 0
	})
}

// checkClaim fails if a waiting task is inside what its role and the roles above it deserve, and the end of one task would serve
// it. Roles that deserve what roles below them leave are not checked.
func (w *lendingWorld) checkClaim(s *job.Spec) {
	if !w.deservesAlone(s.Role) {
		return
	}
	for _, r := range w.policy.Roles {
		limit, limited := r.Quota[quota.AllTypes]
		after := w.held(r.Name) + s.Request.GPUs
		if isWithin(s.Role, r.Name) && (len(r.Deserved) > 0 && after > r.Deserved.Total() || limited && after > limit) {
			return
		}
	}
	for i := range w.running {
		r := &w.running[i]
		alone := w.deservesAlone(r.Spec.Role)
		lends := !r.Spec.Gang && r.Spec.Role != s.Role && (alone || len(w.role(r.Spec.Role).Deserved) == 0)
		for _, above := range w.policy.Roles {
			if !isWithin(r.Spec.Role, above.Name) || len(above.Deserved) == 0 {
				continue
			}
			if !alone || !isWithin(s.Role, above.Name) && w.held(above.Name) <= above.Deserved.Total() {
				lends = false
			}
		}
		free := w.agents[r.AgentID]
		for k := range w.running {
			if w.running[k].AgentID == r.AgentID && k != i {
				free -= w.running[k].Spec.Request.GPUs
			}
		}
		if lends && free >= s.Request.GPUs {
			w.t.Fatalf("%s waits, role %s holds %d of the %d GPUs that it deserves, and the end of %s would give it a place",
				s.Name, s.Role, w.held(s.Role), w.role(s.Role).Deserved.Total(), r.TaskID)
		}
	}
}

// hasClaimsOfBothKinds reports whether a role deserves CPUs or memory, and has jobs with and without GPUs.
func (w *lendingWorld) hasClaimsOfBothKinds(role string) bool {
	withGPUs, withoutGPUs := false, false
	for _, s := range w.jobs {
		if isWithin(s.Role, role) {
			withGPUs, withoutGPUs = withGPUs || s.Request.GPUs > 0, withoutGPUs || s.Request.GPUs == 0
		}
	}
	return withGPUs && withoutGPUs && slices.ContainsFunc(w.policy.Roles, func(r queue.Role) bool {
		return len(r.DeservedHost) > 0 && isWithin(role, r.Name)
	})
}
