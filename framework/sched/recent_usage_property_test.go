package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// maxGreedyGPUs is the largest cluster that greedyUsers have.
const maxGreedyGPUs = 3

// greedyUsers are users who always have more waiting tasks than the cluster has GPUs. Each free GPU is offered to one role
// after the other.
type greedyUsers struct {
	t         *rapid.T
	st        *State
	now       time.Time
	roles     []string
	free      int
	halfLife  time.Duration
	running   map[string]shortTask
	lengths   func() time.Duration
	longest   time.Duration // of lengths
	jobs      int
	gpuTime   map[string]time.Duration // by user
	waiting   map[string]int           // tasks by user
	startedBy []string
}

// shortTask is a running task of one GPU.
type shortTask struct {
	owner string
	ends  time.Time
}

func (g *greedyUsers) step(e Event) {
	for _, op := range g.st.Step(g.now, e) {
		a, ok := op.(AcceptOffers)
		if !ok {
			continue
		}
		for _, l := range a.Launches {
			g.free--
			g.waiting[l.Spec.Owner]--
			g.running[l.TaskID] = shortTask{l.Spec.Owner, g.now.Add(g.lengths())}
			g.startedBy = append(g.startedBy, l.Spec.Owner)
		}
	}
	g.st.TakeChanges()
}

func (g *greedyUsers) submit(user, role string, tasks int) {
	g.jobs++
	s := job.Spec{Name: fmt.Sprint("j", g.jobs), Role: role, Owner: user, Tasks: tasks, CPUs: 1, MemMiB: 256, Command: []string{"true"}}
	s.Request.GPUs = 1
	s.SetDefaults()
	g.waiting[user] += tasks
	g.step(SubmitJob{Spec: s})
}

// refill submits jobs of so many tasks until the user has more waiting tasks than the cluster has GPUs.
func (g *greedyUsers) refill(user, role string, tasks int) {
	for g.waiting[user] <= maxGreedyGPUs {
		g.submit(user, role, tasks)
	}
}

// advance offers what is free to each role, and ends the task that ends next.
func (g *greedyUsers) advance() {
	for _, role := range g.roles {
		if g.free > 0 {
			n := g.free
			id := fmt.Sprint("o", role, g.now.UnixNano())
			g.step(OffersReceived{Offers: []Offer{{ID: id, AgentID: "a", Hostname: "a", Role: role, Free: Amount{CPUs: 4 * float64(n), MemMiB: 4096 * float64(n)}, GPUs: n}}})
			g.step(Cycle{})
			g.step(OfferRescinded{OfferID: id})
		}
	}
	next := ""
	for id, t := range g.running {
		if c := t.ends.Compare(g.running[next].ends); next == "" || c < 0 || c == 0 && id < next {
			next = id
		}
	}
	if next == "" {
		g.t.Fatalf("%s: nothing runs, %d GPUs are free, %d started: %v", g.now, g.free, len(g.startedBy), g.st.PendingReasons())
	}
	passed := g.running[next].ends.Sub(g.now)
	for _, t := range g.running {
		g.gpuTime[t.owner] += passed
	}
	g.now = g.running[next].ends
	delete(g.running, next)
	g.free++
	g.step(TaskUpdate{TaskID: next, AgentID: "a", State: job.Running, UUID: []byte{1}})
	g.step(TaskUpdate{TaskID: next, AgentID: "a", State: job.Finished, UUID: []byte{1}})
	g.step(Cycle{})
}

func drawGreedyUsers(t *rapid.T, users int, inRoles bool) *greedyUsers {
	g := &greedyUsers{t: t, now: time.Unix(1_700_000_000, 0).UTC(), roles: []string{"r0"}, free: rapid.IntRange(2, maxGreedyGPUs).Draw(t, "gpus"), halfLife: 30 * time.Minute, running: map[string]shortTask{}, gpuTime: map[string]time.Duration{}, waiting: map[string]int{}}
	if inRoles {
		for i := 1; i < users; i++ {
			g.roles = append(g.roles, fmt.Sprint("r", i))
		}
	}
	var roles []queue.Role
	for _, name := range g.roles {
		roles = append(roles, queue.Role{Name: name})
	}
	spread := time.Duration(rapid.IntRange(1, 4).Draw(t, "spread of lengths in minutes")) * time.Minute
	seed := uint64(rapid.IntRange(0, 1<<30).Draw(t, "seed"))
	g.lengths = func() time.Duration {
		seed = seed*6364136223846793005 + 1442695040888963407
		return time.Minute + time.Duration(seed>>1)%spread
	}
	g.longest = time.Minute + spread
	g.st = New(SchedulerSettings{HalfLife: g.halfLife, returnOffersEvery: time.Second, LimitShare: 100, Policy: Policy{Policy: placement.Policy{Roles: roles}}}, RecoveredState{})
	g.step(Subscribed{FrameworkID: "f"})
	return g
}

// TestGreedyUsersShareGPUTime: two users of equal weight, in one role or in two, who always wait for more GPUs get GPU
// time within 1 % of each other over ten half-lives, in whatever order they submitted and however long their tasks run.
// At the end one of them may have had a task more, which may have run for as long as the longest.
func TestGreedyUsersShareGPUTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inRoles := rapid.Bool().Draw(t, "in two roles")
		g := drawGreedyUsers(t, 2, inRoles)
		ann, bob := rapid.IntRange(1, 20).Draw(t, "tasks of ann's jobs"), rapid.IntRange(1, 20).Draw(t, "tasks of bob's jobs")
		for end := g.now.Add(10 * g.halfLife); g.now.Before(end); {
			g.refill("ann", "r0", ann)
			g.refill("bob", g.roles[len(g.roles)-1], bob)
			g.advance()
		}
		a, b := g.gpuTime["ann"], g.gpuTime["bob"]
		if diff := (a - b).Abs(); float64(diff-g.longest) > 0.01*float64(min(a, b)) {
			t.Fatalf("ann used %s, bob %s", a, b)
		}
	})
}

// TestAwayUserIsServedFirst: a user who has used nothing of late gets the next GPUs that become free, until he holds as
// many as the others.
func TestAwayUserIsServedFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGreedyUsers(t, 3, false)
		gpus := g.free
		for end := g.now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "half-lives")) * g.halfLife); g.now.Before(end); {
			g.refill("ann", "r0", 1)
			g.refill("bob", "r0", 1)
			g.advance()
		}
		g.startedBy = nil
		for range gpus {
			g.submit("cid", "r0", 1)
		}
		most := max(gpus/3, 1)
		for range most {
			g.advance()
		}
		g.advance()
		if first := g.startedBy[:min(most, len(g.startedBy))]; slices.ContainsFunc(first, func(u string) bool { return u != "cid" }) || len(first) == 0 {
			t.Fatalf("after cid returned, tasks of %v started; %d GPUs", g.startedBy, gpus)
		}
	})
}
