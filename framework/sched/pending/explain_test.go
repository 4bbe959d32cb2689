package pending

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func testPolicy() *placement.Policy {
	p := &placement.Policy{}
	p.SetDefaults()
	return p
}

// testAgent returns an agent of which that many GPUs of one type are free.
func testAgent(id string, free, total int) fit.AgentResources {
	return fit.AgentResources{
		ID: id, Hostname: id, Role: "team", GPUs: free, TotalGPUs: total, Types: []string{"V100"}, Unreserved: true,
		Free: fit.Amount{CPUs: 8, MemMiB: 8192, DiskMiB: 1000}, Ports: []fit.PortRange{{First: 31000, Last: 31009}},
	}
}

// withDevices returns the agent with named devices of its type.
func withDevices(a fit.AgentResources, uuids ...string) fit.AgentResources {
	for _, uuid := range uuids {
		a.Inventory = append(a.Inventory, gpu.Device{UUID: uuid, Model: "V100"})
	}
	return a
}

// waitingJob returns a job whose tasks need one GPU each.
func waitingJob(name string, tasks int, change func(*queue.WaitingJob)) *queue.WaitingJob {
	s := &job.Spec{Name: name, Role: "team", Tasks: tasks, Request: gpu.Request{GPUs: 1}, CPUs: 1, MemMiB: 100, Command: []string{"true"}}
	w := &queue.WaitingJob{Spec: s}
	for i := range tasks {
		w.Tasks = append(w.Tasks, queue.WaitingTask{ID: name, Index: i})
	}
	if change != nil {
		change(w)
	}
	s.SetDefaults()
	s.Request.Types.Rules = s.GPUTypeRules()
	return w
}

func withGPUs(n int) func(*queue.WaitingJob) {
	return func(w *queue.WaitingJob) { w.Spec.Request.GPUs = n }
}

func asGang(w *queue.WaitingJob) { w.Spec.Gang = true }

// onDifferentHosts keeps the job's tasks off the agents that have tasks of it.
func onDifferentHosts(peers ...string) func(*queue.WaitingJob) {
	return func(w *queue.WaitingJob) {
		w.Spec.Constraints, w.PeerAgents = []job.Constraint{{Field: "hostname", Operator: job.Unique}}, peers
	}
}

// trackerOf returns what the role holds of its quota.
func trackerOf(q quota.Quota, held int) *quota.Tracker {
	usage := quota.NewTracker([]quota.RoleEntitlement{{Role: "team", Quota: q}}, nil)
	usage.AddUsage("team", map[string]int{"V100": held}, nil, 1)
	return usage
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name   string
		agents []fit.AgentResources
		status map[string]AgentStatus
		job    *queue.WaitingJob
		quota  quota.Quota
		held   int
		want   placement.PendingCause
	}{
		{
			name: "agents lack GPUs", agents: []fit.AgentResources{testAgent("a", 1, 4), testAgent("b", 0, 4)}, job: waitingJob("train", 1, withGPUs(2)),
			want: placement.PendingCause{Needs: "2 free GPUs on one agent", Available: "2 agents have GPUs, 1 has 1 free"},
		},
		{
			name: "a gang lacks GPUs together", agents: []fit.AgentResources{testAgent("a", 1, 4), testAgent("b", 1, 4)}, job: waitingJob("train", 3, asGang),
			want: placement.PendingCause{Needs: "3 free GPUs for the gang of 3 together", Available: "2 agents have 2 free together"},
		},
		{
			name: "the quota is used up", agents: []fit.AgentResources{testAgent("a", 4, 4)}, job: waitingJob("train", 1, nil),
			quota: quota.Quota{quota.AllTypes: 2}, held: 2,
			want: placement.PendingCause{
				Needs:     "room in the quota of role team for 1 more",
				Available: "it may hold 2 GPUs and holds 2",
				BlockedBy: placement.BlockedByQuota,
			},
		},
		{
			name: "the quota has room for a part of a gang", agents: []fit.AgentResources{testAgent("a", 4, 4)},
			job: waitingJob("train", 3, asGang), quota: quota.Quota{quota.AllTypes: 4}, held: 2,
			want: placement.PendingCause{
				Needs:     "room in the quota of role team for 3 more",
				Available: "it may hold 4 GPUs and holds 2",
				BlockedBy: placement.BlockedByQuota,
			},
		},
		{
			name: "the quota has room for a gang", agents: []fit.AgentResources{testAgent("a", 0, 4)},
			job: waitingJob("train", 2, asGang), quota: quota.Quota{quota.AllTypes: 4}, held: 2,
			want: placement.PendingCause{Needs: "1 free GPU on one agent for each of the 2 tasks of the gang", Available: "1 agent has GPUs, none has one free"},
		},
		{
			name:   "the quota of all types is used up, that of one type is not",
			agents: []fit.AgentResources{testAgent("a", 4, 4)}, job: waitingJob("train", 3, asGang),
			quota: quota.Quota{quota.AllTypes: 4, "V100": 9}, held: 4,
			want: placement.PendingCause{
				Needs:     "room in the quota of role team for 3 more",
				Available: "it may hold 4 GPUs and holds 4",
				BlockedBy: placement.BlockedByQuota,
			},
		},
		{
			name: "the quota has room for a part of the tasks", agents: []fit.AgentResources{testAgent("a", 0, 4)},
			job: waitingJob("train", 3, nil), quota: quota.Quota{quota.AllTypes: 4}, held: 2,
			want: placement.PendingCause{Needs: "1 free GPU on one agent", Available: "1 agent has GPUs, none has one free"},
		},
		{
			name: "the quota excludes a type", agents: []fit.AgentResources{testAgent("a", 4, 4)},
			job: waitingJob("train", 1, nil), quota: quota.Quota{"V100": 2}, held: 2,
			want: placement.PendingCause{
				Needs:     "1 free GPU other than V100 on one agent",
				Available: "no agent has the type, 1 agent is known: V100 on 1; role team may hold 2 V100 and holds 2",
			},
		},
		{
			name: "an agent is cordoned", agents: []fit.AgentResources{testAgent("a", 2, 4), testAgent("b", 1, 4)}, job: waitingJob("train", 1, withGPUs(2)),
			status: map[string]AgentStatus{"a": {Closed: true, Host: "host-a", Reason: "repair", Offered: true}},
			want: placement.PendingCause{
				Needs:     "2 free GPUs on one agent",
				Available: "1 agent has GPUs, 1 has 1 free; 1 agent that would fit is cordoned: host-a (repair), with 2 free GPUs",
			},
		},
		{
			name: "a cordoned agent would not fit either", agents: []fit.AgentResources{testAgent("a", 1, 4)}, job: waitingJob("train", 1, withGPUs(2)),
			status: map[string]AgentStatus{"a": {Closed: true, Host: "host-a", Offered: true}},
			want:   placement.PendingCause{Needs: "2 free GPUs on one agent", Available: "the only agent accepts no tasks"},
		},
		{
			name: "agents are closed for different reasons", job: waitingJob("train", 1, nil),
			agents: []fit.AgentResources{testAgent("a", 1, 4), testAgent("b", 1, 4), testAgent("c", 1, 4), testAgent("d", 0, 4), testAgent("e", 0, 4)},
			status: map[string]AgentStatus{
				"a": {Closed: true, Draining: true, Host: "host-a", Offered: true}, "b": {Closed: true, Draining: true, Host: "host-b", Offered: true},
				"c": {Closed: true, Host: "host-c", Offered: true, LostLaunches: "its last 2 launches were lost"},
				"d": {Closed: true, Host: "host-d"},
				"e": {Closed: true, Host: "host-e", Offered: true},
			},
			want: placement.PendingCause{
				Needs: "1 free GPU on one agent",
				Available: "none of 5 agents accepts tasks; 2 agents that would fit are being drained, such as host-a, with 1 free GPU; " +
					"1 agent that would fit is cordoned: host-d, which has 4 GPUs and never offered any; " +
					"1 agent that would fit is paused: host-c (its last 2 launches were lost), with 1 free GPU",
			},
		},
		{
			name: "a lost launch on a cordoned agent", agents: []fit.AgentResources{testAgent("a", 1, 1)}, job: waitingJob("train", 1, nil),
			status: map[string]AgentStatus{"a": {Closed: true, Host: "host-a", Reason: "repair", Offered: true, LostLaunches: "its last 2 launches were lost"}},
			want: placement.PendingCause{
				Needs:     "1 free GPU on one agent",
				Available: "the only agent accepts no tasks; 1 agent that would fit is cordoned: host-a (repair), with 1 free GPU",
			},
		},
		{
			name: "a gang does not fit on the cordoned agents", agents: []fit.AgentResources{testAgent("a", 1, 4)}, job: waitingJob("train", 2, asGang),
			status: map[string]AgentStatus{"a": {Closed: true, Host: "host-a", Offered: true}},
			want:   placement.PendingCause{Needs: "1 free GPU on one agent for each of the 2 tasks of the gang", Available: "the only agent accepts no tasks"},
		},
		{
			name: "a gang fits on the cordoned agents", agents: []fit.AgentResources{testAgent("a", 2, 4)}, job: waitingJob("train", 2, asGang),
			status: map[string]AgentStatus{"a": {Closed: true, Host: "host-a", Offered: true}},
			want: placement.PendingCause{
				Needs:     "1 free GPU on one agent for each of the 2 tasks of the gang",
				Available: "the only agent accepts no tasks; 1 agent that would fit is cordoned: host-a, with 2 free GPUs",
			},
		},
		{
			name:   "a gang would fit on open and cordoned agents together",
			agents: []fit.AgentResources{testAgent("a", 1, 4), testAgent("b", 1, 4)}, job: waitingJob("train", 2, asGang),
			status: map[string]AgentStatus{"b": {Closed: true, Host: "host-b", Offered: true}},
			want: placement.PendingCause{
				Needs:     "2 free GPUs for the gang of 2 together",
				Available: "1 agent has 1 free; 1 agent that would fit is cordoned: host-b, with 1 free GPU",
			},
		},
		{
			name: "the named device is on a cordoned agent that never offered", agents: []fit.AgentResources{withDevices(testAgent("a", 0, 2), "GPU-1", "GPU-2")},
			job:    waitingJob("train", 1, withSpec(func(s *job.Spec) { s.Request.Devices.Include = []string{"GPU-2"} })),
			status: map[string]AgentStatus{"a": {Closed: true, Host: "host-a"}},
			want: placement.PendingCause{
				Needs:     "1 free GPU among the 1 named on one agent",
				Available: "the only agent accepts no tasks; 1 agent that would fit is cordoned: host-a, which has 2 GPUs and never offered any",
			},
		},
		{
			name: "the named device is on another agent than the cordoned one", agents: []fit.AgentResources{withDevices(testAgent("a", 0, 2), "GPU-1", "GPU-2")},
			job:    waitingJob("train", 1, withSpec(func(s *job.Spec) { s.Request.Devices.Include = []string{"GPU-3"} })),
			status: map[string]AgentStatus{"a": {Closed: true, Host: "host-a"}},
			want:   placement.PendingCause{Needs: "1 free GPU among the 1 named on one agent", Available: "the only agent accepts no tasks"},
		},
		{
			name: "CPUs of an agent that never offered are not known", agents: []fit.AgentResources{testAgent("a", 0, 4)}, job: waitingJob("cpu", 1, withGPUs(0)),
			status: map[string]AgentStatus{"a": {Closed: true, Host: "host-a"}},
			want:   placement.PendingCause{Needs: "1.1 CPUs (including 0.1 for the executor) on one agent", Available: "the only agent accepts no tasks"},
		},
	} {
		e := NewExplainer(c.agents, func(a *fit.AgentResources) AgentStatus { return c.status[a.ID] }, testPolicy(), testTime())
		for range 2 { // the second result is cached
			if diff := cmp.Diff(c.want, e.Explain(c.job, trackerOf(c.quota, c.held))); diff != "" {
				t.Errorf("%s: cause (-want +got):\n%s", c.name, diff)
			}
		}
	}
}

// TestExplainerReusesResultsOfEqualJobs checks that a result is reused only for jobs that have the same cause.
func TestExplainerReusesResultsOfEqualJobs(t *testing.T) {
	none := func(*fit.AgentResources) AgentStatus { return AgentStatus{} }
	e := NewExplainer([]fit.AgentResources{testAgent("a", 1, 4), testAgent("b", 1, 4)}, none, testPolicy(), testTime())
	usage := trackerOf(nil, 0)
	for _, c := range []struct {
		job  *queue.WaitingJob
		want string
	}{
		{waitingJob("one", 1, withGPUs(2)), "2 free GPUs on one agent; 2 agents have GPUs, 2 have 1 free"},
		{waitingJob("same", 5, withGPUs(2)), "2 free GPUs on one agent; 2 agents have GPUs, 2 have 1 free"},
		{waitingJob("larger", 1, withGPUs(3)), "3 free GPUs on one agent; 2 agents have GPUs, 2 have 1 free"},
		{waitingJob("three", 3, asGang), "3 free GPUs for the gang of 3 together; 2 agents have 2 free together"},
		{waitingJob("four", 4, asGang), "4 free GPUs for the gang of 4 together; 2 agents have 2 free together"},
		{waitingJob("apart", 1, onDifferentHosts("a", "b")), "an agent that hostname UNIQUE allows; 2 agents have room, 2 are excluded"},
		{waitingJob("apart from one", 1, onDifferentHosts("a")), "an offer; 1 agent had room when last offered"},
	} {
		cause := e.Explain(c.job, usage)
		if got := (placement.PendingReason{PendingCause: cause}).Text(); got != c.want {
			t.Errorf("%s: the reason is %q, want %q", c.job.Spec.Name, got, c.want)
		}
	}
	e.cluster = fit.NewCluster(e.Agents()[:1], e.policy.Fit, testTime()) // which is not examined for an equal job
	if got := e.Explain(waitingJob("equal", 1, withGPUs(2)), usage).Available; got != "2 agents have GPUs, 2 have 1 free" {
		t.Errorf("the cause of an equal job was computed again: %q", got)
	}
}

func TestExplainerReturnsAllAgents(t *testing.T) {
	closed := func(a *fit.AgentResources) AgentStatus { return AgentStatus{Closed: a.ID == "a"} }
	e := NewExplainer([]fit.AgentResources{testAgent("a", 1, 4), testAgent("b", 1, 4)}, closed, testPolicy(), testTime())
	if len(e.Agents()) != 2 {
		t.Errorf("the explainer has %d agents, want 2", len(e.Agents()))
	}
}

// TestExclusionsOfEqualJobs checks that exclusions by constraints count the peers of each job.
func TestExclusionsOfEqualJobs(t *testing.T) {
	none := func(*fit.AgentResources) AgentStatus { return AgentStatus{} }
	e := NewExplainer([]fit.AgentResources{testAgent("a", 1, 4), testAgent("b", 1, 4)}, none, testPolicy(), testTime())
	for _, c := range []struct {
		job  *queue.WaitingJob
		want int
	}{
		{waitingJob("first", 1, onDifferentHosts()), 0},
		{waitingJob("on one", 1, onDifferentHosts("a")), 1},
		{waitingJob("on both", 1, onDifferentHosts("a", "b")), 2},
		{waitingJob("on one too", 1, onDifferentHosts("b")), 1},
		{waitingJob("plain", 1, nil), 0},
	} {
		for _, count := range e.CountExclusions(c.job) {
			if count.Cause == job.ExcludedByConstraint && (count.Agents != 2 || count.Excluded != c.want) {
				t.Errorf("%s: constraints exclude %d of %d agents, want %d of 2", c.job.Spec.Name, count.Excluded, count.Agents, c.want)
			}
		}
	}
	if first, again := e.CountExclusions(waitingJob("plain", 1, nil)), e.CountExclusions(waitingJob("equal", 7, nil)); &first[0] != &again[0] {
		t.Error("the counts of an equal job were computed again")
	}
}

// TestMaintenanceDependsOnRunTime checks that jobs of different run times have different causes before maintenance.
func TestMaintenanceDependsOnRunTime(t *testing.T) {
	a := testAgent("a", 1, 1)
	a.Unavailable = testTime().Add(time.Hour)
	e := NewExplainer([]fit.AgentResources{a}, func(*fit.AgentResources) AgentStatus { return AgentStatus{} }, testPolicy(), testTime())
	runsFor := func(d time.Duration) func(*queue.WaitingJob) {
		return func(w *queue.WaitingJob) { w.Spec.RunTime = d }
	}
	short, long := e.Explain(waitingJob("short", 1, runsFor(time.Minute)), trackerOf(nil, 0)), e.Explain(waitingJob("long", 1,
		runsFor(2*time.Hour)), trackerOf(nil, 0))
	if short.Needs != "an offer" || strings.Contains(long.Needs, "offer") {
		t.Errorf("the short job needs %q, the long one %q", short.Needs, long.Needs)
	}
}
