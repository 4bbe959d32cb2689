package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// limitedUsers submits jobs of users with limits, and offers the GPUs of one agent to one role after the other.
type limitedUsers struct {
	t     *rapid.T
	st    *State
	now   time.Time
	roles []queue.Role
	free  int
	jobs  int
	// gangs means that some jobs are gangs, or have tasks with several GPUs: free GPUs may then be reserved for them.
	gangs bool
}

func (u *limitedUsers) step(e Event) {
	u.now = u.now.Add(time.Second)
	for _, one := range []Event{e, Cycle{}} {
		for _, op := range u.st.Step(u.now, one) {
			if a, ok := op.(AcceptOffers); ok {
				for _, l := range a.Launches {
					u.free -= l.Spec.Request.GPUs
				}
			}
		}
		u.st.TakeChanges()
	}
	u.checkLimits()
}

// heldBy returns the GPUs and the jobs with placed tasks of a user in a role and the roles below it.
func (u *limitedUsers) heldBy(user, role string) (gpus, running, waiting int) {
	for _, j := range u.st.Jobs() {
		if j.Spec.Owner != user || !quota.IsWithinRole(j.Spec.Role, role) || j.IsTerminal() {
			continue
		}
		placed := 0
		for i := range j.Tasks {
			if j.Tasks[i].State.IsPlaced() {
				placed++
			}
		}
		if gpus += placed * j.Spec.Request.GPUs; placed > 0 {
			running++
		} else {
			waiting++
		}
	}
	return gpus, running, waiting
}

// checkLimits checks that no user has more than a limit permits, and that gangs are whole.
func (u *limitedUsers) checkLimits() {
	for i := range u.roles {
		r := &u.roles[i]
		for _, user := range []string{"ann", "bob"} {
			limits := r.UserLimits(user)
			gpus, running, _ := u.heldBy(user, r.Name)
			if most, ok := limits.GPUs[quota.AllTypes]; ok && gpus > most {
				u.t.Fatalf("%s holds %d GPUs in role %s, may hold %d", user, gpus, r.Name, most)
			}
			if limits.RunningJobs > 0 && running > limits.RunningJobs {
				u.t.Fatalf("%s runs %d jobs in role %s, may run %d", user, running, r.Name, limits.RunningJobs)
			}
		}
	}
	for _, j := range u.st.Jobs() {
		placed, waiting := 0, 0
		for i := range j.Tasks {
			switch {
			case j.Tasks[i].State.IsPlaced():
				placed++
			case j.Tasks[i].State == job.Waiting:
				waiting++
			}
		}
		if j.Spec.Gang && placed > 0 && waiting > 0 {
			u.t.Fatalf("%d tasks of gang %s are placed, %d wait", placed, j.Spec.Name, waiting)
		}
	}
}

func (u *limitedUsers) submit() {
	u.jobs++
	s := job.Spec{
		Name: fmt.Sprint("j", u.jobs), Role: rapid.SampledFrom(u.roles).Draw(u.t, "role").Name, Owner: rapid.SampledFrom([]string{"ann", "bob"}).Draw(u.t, "user"),
		Tasks: rapid.IntRange(1, 4).Draw(u.t, "tasks"), CPUs: 1, MemMiB: 256, Command: []string{"true"},
	}
	s.Request.GPUs = 1
	if u.gangs {
		s.Gang, s.Request.GPUs = rapid.Bool().Draw(u.t, "gang"), rapid.IntRange(0, 2).Draw(u.t, "gpus")
	}
	s.SetDefaults()
	refused := u.st.Admit(&s) != nil
	full := false
	for i := range u.roles {
		if r := &u.roles[i]; quota.IsWithinRole(s.Role, r.Name) {
			_, _, waiting := u.heldBy(s.Owner, r.Name)
			limit := r.UserLimits(s.Owner).WaitingJobs
			full = full || limit > 0 && waiting >= limit
		}
	}
	if refused != full {
		u.t.Fatalf("job %s is refused: %t, want %t: %v", s.Name, refused, full, u.st.Admit(&s))
	}
	u.step(SubmitJob{Spec: s})
}

// offer offers what is free to a role. What remains is useless to each job of the role, because limits of their users block all
// of them, unless GPUs are reserved for other jobs.
func (u *limitedUsers) offer(role string) {
	n := u.free
	if n == 0 {
		return
	}
	id := fmt.Sprint("o", u.now.UnixNano())
	u.step(OffersReceived{Offers: []Offer{{ID: id, AgentID: "a", Hostname: "a", Role: role,
		Free: Amount{CPUs: 4 * float64(n), MemMiB: 4096 * float64(n)}, GPUs: n}}})
	u.step(OfferRescinded{OfferID: id})
	if u.gangs || u.free == 0 || u.st.Reclaims() || len(u.st.returned.byAgent) > 0 { // what is free may be reserved for other roles, or was returned for them
		return
	}
	usage := u.st.newUsage(u.st.runningTasks(), nil)
	for _, j := range u.st.Jobs() {
		waits := slices.ContainsFunc(j.Tasks, func(t job.Task) bool { return t.State == job.Waiting })
		if j.Spec.Role == role && waits && !usage.IsBlockedByUser(j.Spec) {
			u.t.Fatalf("%d GPUs are free and offered to role %s, job %s of %s waits: %v", u.free, role, j.Spec.Name, j.Spec.Owner, u.st.PendingReasons(j.RunID()))
		}
	}
}

// end ends one running task, if there is any.
func (u *limitedUsers) end() {
	running := u.st.runningTasks()
	if len(running) == 0 {
		return
	}
	r := running[rapid.IntRange(0, len(running)-1).Draw(u.t, "task that ends")]
	if r.Ended {
		return
	}
	u.free += r.Spec.Request.GPUs
	u.step(TaskUpdate{TaskID: r.TaskID, AgentID: "a", State: job.Running, UUID: []byte{1}})
	u.step(TaskUpdate{TaskID: r.TaskID, AgentID: "a", State: job.Finished, UUID: []byte{1}})
}

func drawUserLimits(t *rapid.T, name string) quota.UserLimits {
	l := quota.UserLimits{RunningJobs: rapid.IntRange(0, 3).Draw(t, name+" running jobs"), WaitingJobs: rapid.IntRange(0, 3).Draw(t, name+" waiting jobs")}
	if n := rapid.IntRange(0, 6).Draw(t, name+" GPUs, 6 for no limit"); n < 6 {
		l.GPUs = quota.Quota{quota.AllTypes: n}
	}
	return l
}

// TestUsersStayWithinLimits: whatever is submitted, offered and ends, no user holds more GPUs or runs more jobs than the
// roles permit, gangs start as a whole, and a user's limits stop none of the others.
func TestUsersStayWithinLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := &limitedUsers{t: t, now: time.Unix(1_700_000_000, 0).UTC(), free: rapid.IntRange(1, 8).Draw(t, "gpus"), gangs: rapid.Bool().Draw(t, "gangs")}
		for _, name := range []string{"r", "r/a", "s"} {
			r := queue.Role{Name: name, EachUser: drawUserLimits(t, name), Strict: rapid.Bool().Draw(t, "strict")}
			if rapid.Bool().Draw(t, "own limits of ann") {
				r.NamedUsers = map[string]quota.UserLimits{"ann": drawUserLimits(t, name+" ann")}
			}
			if rapid.Bool().Draw(t, "deserved") && name != "r/a" {
				r.Deserved = quota.Quota{quota.AllTypes: 3}
			}
			u.roles = append(u.roles, r)
		}
		u.st = New(SchedulerSettings{LimitShare: 100, returnOffersEvery: time.Second, Policy: Policy{Policy: placement.Policy{Roles: u.roles}}}, RecoveredState{})
		u.step(Subscribed{FrameworkID: "f"})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				u.submit()
			case 2:
				u.offer(rapid.SampledFrom(u.roles).Draw(t, "role").Name)
			default:
				u.end()
			}
		}
	})
}
