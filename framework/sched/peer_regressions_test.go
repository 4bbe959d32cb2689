package sched

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// peerCluster is a master with agents that answers each operation at once: tasks run when they are launched, and end when
// they are killed or after their length. It offers what is free in each round, whatever the State has declined.
type peerCluster struct {
	t   *testing.T
	st  *State
	now time.Time
	// gpus are the free GPUs of agents by name. names has the agents in order.
	names []string
	gpus  map[string][]string
	roles []string
	// rejects are agents whose ACCEPTs always fail.
	rejects map[string]bool
	// length is the number of rounds for which tasks run; 0 means forever.
	length int
	tasks  map[string]*peerTask
	offers map[string]string // outstanding, by id the agent
	rounds int
	// launches and kills count operations. onKill and onLaunch are called for each, unless they are nil.
	launches, kills int
	onKill          func(KillTask)
	onLaunch        func(*TaskLaunch)
}

type peerTask struct {
	agent string
	gpus  []string
	until int
}

// newPeerCluster starts a State. agents are numbers of GPUs by agent name.
func newPeerCluster(t *testing.T, policy placement.Policy, agents map[string]int) *peerCluster {
	t.Helper()
	c := &peerCluster{
		t: t, now: time.Unix(1_700_000_000, 0), gpus: map[string][]string{}, rejects: map[string]bool{},
		tasks: map[string]*peerTask{}, offers: map[string]string{}, roles: []string{""},
		st: New(SchedulerSettings{Policy: Policy{Policy: policy}, MaxAttempts: 1000, MaxLiveTasks: 1000}, RecoveredState{}),
	}
	for _, r := range policy.Roles {
		if c.roles[0] == "" {
			c.roles = nil
		}
		c.roles = append(c.roles, r.Name)
	}
	for name, n := range agents {
		c.names = append(c.names, name)
		for i := range n {
			c.gpus[name] = append(c.gpus[name], fmt.Sprintf("GPU-%s-%d", name, i))
		}
	}
	slices.Sort(c.names)
	c.step(Subscribed{FrameworkID: "f"})
	var listed []Agent
	for _, name := range c.names {
		listed = append(listed, Agent{ID: name, Hostname: name, Types: []string{"V100"}, GPUs: len(c.gpus[name])})
	}
	c.step(AgentsListed{Agents: listed})
	return c
}

func (c *peerCluster) submit(name, role string, tasks, gpus int, change func(*job.Spec)) {
	c.t.Helper()
	s := testSpec(name)
	s.Role, s.Tasks, s.Request, s.CPUs = role, tasks, gpu.Request{GPUs: gpus}, 0.1
	if change != nil {
		change(&s)
	}
	if err := s.Complete(); err != nil {
		c.t.Fatal(err)
	}
	c.step(SubmitJob{Spec: s})
}

// step applies an event and carries out the operations.
func (c *peerCluster) step(ev Event) {
	for _, op := range c.st.Step(c.now, ev) {
		switch op := op.(type) {
		case AcceptOffers:
			c.accept(op)
		case DeclineOffers:
			for _, d := range op.Offers {
				delete(c.offers, d.OfferID)
			}
		case KillTask:
			c.kills++
			if c.onKill != nil {
				c.onKill(op)
			}
			c.end(op.TaskID, job.Killed)
		case ReconcileTasks:
			for _, at := range op.Tasks {
				if c.tasks[at.TaskID] == nil {
					c.step(TaskUpdate{TaskID: at.TaskID, AgentID: at.AgentID, State: job.Lost, Reconciled: true})
				}
			}
		}
	}
	c.st.TakeChanges()
}

func (c *peerCluster) accept(op AcceptOffers) {
	for _, id := range op.OfferIDs {
		delete(c.offers, id)
	}
	var ids []string
	for _, l := range op.Launches {
		c.launches++
		ids = append(ids, l.TaskID)
		if c.onLaunch != nil {
			c.onLaunch(&l)
		}
	}
	if c.rejects[op.AgentID] {
		c.step(AcceptFailed{TaskIDs: ids})
		return
	}
	for _, l := range op.Launches {
		task := &peerTask{agent: op.AgentID, gpus: l.DeviceIDs}
		if c.length > 0 {
			task.until = c.rounds + c.length
		}
		c.tasks[l.TaskID] = task
		for _, d := range l.DeviceIDs {
			if !slices.Contains(c.gpus[op.AgentID], d) {
				c.t.Fatalf("%s gets %s, which is not free", l.TaskID, d)
			}
		}
		c.gpus[op.AgentID] = slices.DeleteFunc(c.gpus[op.AgentID], func(d string) bool { return slices.Contains(l.DeviceIDs, d) })
		c.step(TaskUpdate{TaskID: l.TaskID, AgentID: op.AgentID, State: job.Running, UUID: []byte{1}})
	}
}

func (c *peerCluster) end(id string, state job.State) {
	task := c.tasks[id]
	if task == nil {
		return
	}
	delete(c.tasks, id)
	c.gpus[task.agent] = append(c.gpus[task.agent], task.gpus...)
	slices.Sort(c.gpus[task.agent])
	c.step(TaskUpdate{TaskID: id, AgentID: task.agent, State: state, UUID: []byte{2}})
}

// round lets a second pass: tasks end, and everything free is offered, to each role in turn.
func (c *peerCluster) round() {
	c.rounds++
	c.now = c.now.Add(time.Second)
	c.step(Tick{})
	for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
		if t := c.tasks[id]; t != nil && t.until > 0 && c.rounds >= t.until {
			c.end(id, job.Finished)
		}
	}
	var offers []Offer
	for i, name := range c.names {
		if len(c.gpus[name]) == 0 || slices.Contains(slices.Collect(maps.Values(c.offers)), name) {
			continue
		}
		o := Offer{
			ID: fmt.Sprintf("offer-%d-%s", c.rounds, name), AgentID: name, Hostname: name, Role: c.roles[(c.rounds+i)%len(c.roles)],
			Free: Amount{CPUs: 16, MemMiB: 65536, DiskMiB: 10000}, Types: []string{"V100"}, GPUs: len(c.gpus[name]), DeviceIDs: slices.Clone(c.gpus[name]),
			Ports: []PortRange{{First: 31000, Last: 32000}},
		}
		c.offers[o.ID] = name
		offers = append(offers, o)
	}
	if len(offers) > 0 {
		c.step(OffersReceived{Offers: offers})
	}
	c.step(Cycle{})
}

// TestFailingAcceptsDoNotStarveJobs is KAI-Scheduler #2075: a job whose binding to a node always failed was tried there in
// each cycle, and kept the jobs behind it from starting. Here the ACCEPTs of an agent that the policy prefers always fail.
func TestFailingAcceptsDoNotStarveJobs(t *testing.T) {
	for _, name := range fit.PolicyNames() {
		t.Run(name, func(t *testing.T) {
			c := newPeerCluster(t, placement.Policy{Fit: fit.PlacementPolicy{Name: name}}, map[string]int{"bad": 4, "good": 2})
			c.rejects["bad"], c.length = true, 5
			c.submit("first", "", 1, 1, func(s *job.Spec) { s.Priority = 10 })
			c.submit("gang", "", 2, 1, func(s *job.Spec) { s.Gang = true; s.Priority = 5 })
			for i := range 6 {
				c.submit(fmt.Sprint("job-", i), "", 1, 1, nil)
			}
			for range 120 {
				c.round()
			}
			for _, j := range c.st.Jobs() {
				if j.State() != job.Finished {
					t.Errorf("%s is %s after 120 s, though a good agent has been free", j.Spec.Name, j.State())
				}
			}
			if lost := c.launches - 9; lost > 40 {
				t.Errorf("%d launches were lost on the bad agent in 120 s", lost)
			}
		})
	}
}

// TestEvictionsDoNotCycle is Volcano #4947: jobs evicted each other without end. Once the claims and priorities are
// satisfied, no task is stopped any more, and no more than were needed.
func TestEvictionsDoNotCycle(t *testing.T) {
	roles := func(a, b int) placement.Policy {
		return placement.Policy{Roles: []queue.Role{
			{Name: "a", Deserved: quota.Quota{quota.AllTypes: a}}, {Name: "b", Deserved: quota.Quota{quota.AllTypes: b}},
		}}
	}
	yields := func(s *job.Spec) { s.Preemptible = true }
	for _, test := range []struct {
		name   string
		policy placement.Policy
		agents map[string]int
		submit []func(c *peerCluster)
		least  int // of tasks that are stopped
		most   int
	}{
		{"two roles claim what each lends", roles(2, 2), map[string]int{"m": 4}, []func(*peerCluster){
			func(c *peerCluster) { c.submit("lent", "a", 4, 1, nil) },
			func(c *peerCluster) { c.submit("back", "b", 4, 1, nil) },
		}, 2, 2},
		{"tasks that cannot be divided", roles(2, 3), map[string]int{"m": 4, "n": 2}, []func(*peerCluster){
			func(c *peerCluster) { c.submit("pairs", "a", 3, 2, nil) },
			func(c *peerCluster) { c.submit("triple", "b", 2, 3, nil) },
		}, 2, 2},
		{"a gang larger than what its role borrows", roles(4, 4), map[string]int{"m": 4, "n": 4}, []func(*peerCluster){
			func(c *peerCluster) { c.submit("wide", "a", 8, 1, func(s *job.Spec) { s.Gang = true }) },
			func(c *peerCluster) { c.submit("half", "b", 4, 1, func(s *job.Spec) { s.Gang = true }) },
		}, 8, 8},
		{"priorities within a role", placement.Policy{}, map[string]int{"m": 2, "n": 2}, []func(*peerCluster){
			func(c *peerCluster) { c.submit("low", "", 4, 1, yields) },
			func(c *peerCluster) {
				c.submit("high", "", 2, 1, func(s *job.Spec) { s.Priority = 2; s.Preemptible = true })
			},
			func(c *peerCluster) {
				c.submit("middle", "", 4, 1, func(s *job.Spec) { s.Priority = 1; s.Preemptible = true })
			},
		}, 2, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newPeerCluster(t, test.policy, test.agents)
			for _, submit := range test.submit {
				submit(c)
				for range 30 {
					c.round()
				}
			}
			for range 100 {
				c.round()
			}
			kills, launches := c.kills, c.launches
			for range 200 {
				c.round()
			}
			if c.kills != kills || c.launches != launches {
				t.Errorf("%d tasks are stopped and %d launched in 200 s in which nothing was submitted", c.kills-kills, c.launches-launches)
			}
			if kills < test.least || kills > test.most {
				t.Errorf("%d tasks were stopped, want %d to %d", kills, test.least, test.most)
			}
		})
	}
}
