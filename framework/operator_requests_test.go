package framework

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// onlyAgent returns the cluster's only agent.
func onlyAgent(t *testing.T, in *testInstance) api.AgentSummary {
	t.Helper()
	agents, err := in.ListAgents(frameworktest.Timeout(t))
	if err != nil || len(agents) != 1 {
		t.Fatalf("agents %+v, %v", agents, err)
	}
	return agents[0]
}

// awaitDecline waits until the first offer is declined. The FakeCluster sends each later
// offer once.
func awaitDecline(t *testing.T, c *mesostest.FakeCluster) {
	t.Helper()
	c.AwaitCall(t, 1, scheduler.Call_DECLINE, nil)
}

// TestCordon: a cordoned agent keeps its tasks and gets no new ones, also after a restart
// of the scheduler. When it is drained, its tasks are killed, and they start again once
// it is uncordoned.
func TestCordon(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	awaitDecline(t, c)
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("runs", 1, 1)); err != nil {
		t.Fatal(err)
	}
	before := awaitState(t, in, "runs", job.Running).Tasks[0]
	if err := in.CordonAgent(ctx, "agent-1", "new fans"); err != nil {
		t.Fatal(err)
	}
	in.stopAndWait(t)

	in = startWithJournal(t, c, path)
	if a := onlyAgent(t, in); a.Cordoned != "new fans" || a.Draining {
		t.Errorf("after a restart the agent is %+v", a)
	}
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("waits", 1, 1)); err != nil {
		t.Fatal(err)
	}
	c.SendOffer()
	c.AwaitCall(t, 2, scheduler.Call_DECLINE, nil)
	view, err := in.GetJob(ctx, "waits")
	if want := "the only agent accepts no tasks; 1 agent that would fit is cordoned: host-1 (new fans), with 1 free GPU"; err != nil ||
		view.State != job.Waiting || !strings.Contains(view.WaitReason, want) {
		t.Errorf("on a cordoned agent: %s, %q, %v", view.State, view.WaitReason, err)
	}
	wantMetrics(t, in, []string{"mesos_gpu_scheduler_cordoned_agents 1"})

	if err := in.DrainAgent(ctx, "host-1", "new fans, now"); err != nil {
		t.Fatal(err)
	}
	again := awaitCount(t, in, "runs", job.Waiting, 1).Tasks[0]
	if again.ID == before.ID || again.Attempt != 2 || again.Failures != 0 || again.Message != "attempt 1 was stopped: its agent is drained: new fans, now" {
		t.Errorf("after the drain: %+v", again)
	}
	if a := onlyAgent(t, in); a.Cordoned != "new fans, now" || !a.Draining {
		t.Errorf("drained, the agent is %+v", a)
	}

	if err := in.UncordonAgent(ctx, "host-1"); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "runs", job.Running)
	awaitState(t, in, "waits", job.Running)
	if a := onlyAgent(t, in); a.Cordoned != "" || a.Draining {
		t.Errorf("free again, the agent is %+v", a)
	}
	wantProblem(t, in.CordonAgent(ctx, "agent-9", ""), http.StatusNotFound, `no agent with the id or hostname "agent-9"`)
	wantProblem(t, in.UncordonAgent(ctx, "agent-9"), http.StatusNotFound, `"agent-9"`)
}

// TestCordonOfUnreachableAgent: an agent can be cordoned while the master lists it, even without offers.
func TestCordonOfUnreachableAgent(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	c.Agents.Agents[0].Active = false
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	if err := in.CordonAgent(frameworktest.Timeout(t), "agent-1", "smells"); err != nil {
		t.Fatal(err)
	}
	if a := onlyAgent(t, in); a.Cordoned != "smells" {
		t.Errorf("the agent is %+v", a)
	}
}

// writeRolesFile writes a roles file and returns its path.
func writeRolesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOperatorQuotaOverridesRolesFile: an operator's quota has precedence over the roles
// file's, also after a reload and a failover, until the operator removes it.
func TestOperatorQuotaOverridesRolesFile(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	cfg := SchedulerConfig{
		JournalPath: filepath.Join(t.TempDir(), "journal.db"),
		RolesFile:   writeRolesFile(t, "research: V100=1\nresearch/vision: {weight: 2, order: shortest, policy: spread, backfill: false}\n"),
	}
	in := startInstance(t, c, cfg)
	awaitDecline(t, c)
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 3, 1)); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, in, "train", job.Running, 1)
	want := []api.RoleStatus{
		{Name: "research", Weight: 1, Order: "fifo", Policy: "headroom", Backfill: true, Quota: map[string]int{"V100": 1},
			Allocated: map[string]float64{"V100": 1, "*": 1}, Waiting: 2,
			Deserved: map[string]int{}, Demanded: map[string]float64{"V100": 3, "*": 3}},
		{Name: "research/vision", Weight: 2, Order: "shortest", Policy: "spread", Quota: map[string]int{}, Allocated: map[string]float64{},
			Deserved: map[string]int{}, Demanded: map[string]float64{}},
	}
	wantRoles(t, in, want)

	two, none := "V100=2, *=16", ""
	got, err := in.SetQuota(ctx, "research", &two)
	want[0].Quota, want[0].QuotaSet = map[string]int{"V100": 2, "*": 16}, true
	if diff := cmp.Diff(want[0], got); diff != "" || err != nil {
		t.Errorf("the role after its quota was set: %v (-want +got):\n%s", err, diff)
	}
	c.SendOffer()
	awaitCount(t, in, "train", job.Running, 2)
	if _, err := in.SetQuota(ctx, "research/vision", &none); err != nil {
		t.Fatal(err)
	}
	if err := in.Reload(); err != nil {
		t.Fatal(err)
	}
	in.stopAndWait(t)

	in = startInstance(t, c, cfg)
	want[0].Allocated, want[0].Waiting, want[1].QuotaSet = map[string]float64{"V100": 2, "*": 2}, 1, true
	awaitCondition(t, "the scheduler knows all of the agent's GPUs", func() bool {
		agents, err := in.ListAgents(ctx)
		return err == nil && len(agents) == 1 && agents[0].GPUs == 4
	})
	wantRoles(t, in, want)
	for _, role := range []string{"research", "research/vision"} {
		if _, err := in.SetQuota(ctx, role, nil); err != nil {
			t.Fatal(err)
		}
	}
	want[0].Quota, want[0].QuotaSet, want[1].QuotaSet = map[string]int{"V100": 1}, false, false
	wantRoles(t, in, want)
	if view, err := in.GetJob(ctx, "train"); err != nil || !strings.Contains(view.WaitReason, "room in the quota of role research for 1 more; it may hold 1 V100 and holds 2") {
		t.Errorf("below what is held: %q, %v", view.WaitReason, err)
	}

	absent := "V100=2, V10O=2"
	if got, err := in.SetQuota(ctx, "research", &absent); err != nil || len(got.Warnings) != 1 ||
		!strings.Contains(got.Warnings[0], `"V10O" bounds nothing`) || got.Quota["V10O"] != 2 {
		t.Errorf("a quota of a type that is not there: %+v, %v", got, err)
	}
	bad := "V100"
	_, err = in.SetQuota(ctx, "unknown", &two)
	wantProblem(t, err, http.StatusNotFound, `role "unknown": the scheduler has jobs of research, research/vision`)
	_, err = in.SetQuota(ctx, "research", &bad)
	wantProblem(t, err, http.StatusUnprocessableEntity, `quota "V100": write TYPE=GPUS`)
}

// wantRoles waits until the scheduler reports these roles.
func wantRoles(t *testing.T, in *testInstance, want []api.RoleStatus) {
	t.Helper()
	ctx, diff := frameworktest.Timeout(t), ""
	for {
		got, err := in.ListRoles(ctx)
		if ctx.Err() != nil {
			t.Errorf("roles %v (-want +got):\n%s", err, diff)
			return
		}
		if diff = cmp.Diff(want, got); diff == "" && err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestQueueOrderAndReasons: the queue lists jobs in scheduling order with the reasons why they wait.
func TestQueueOrderAndReasons(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	awaitDecline(t, c)
	ctx := frameworktest.Timeout(t)
	if list, err := in.ListQueue(ctx); err != nil || len(list) != 0 {
		t.Errorf("of nothing: %v, %v", list, err)
	}
	urgent, part := frameworktest.JobSpec("urgent", 3, 4, "A100", "H100"), frameworktest.JobSpec("part", 1, 1, "T4")
	urgent.Priority, part.Request.Share.MemMiB = 5, 4096
	for _, s := range []job.Spec{frameworktest.JobSpec("runs", 1, 1), frameworktest.JobSpec("plain", 1, 2), part, urgent} {
		if _, err := in.SubmitJob(ctx, s); err != nil {
			t.Fatal(err)
		}
		if s.Name == "runs" {
			awaitState(t, in, "runs", job.Running)
		}
	}
	got, err := in.ListQueue(ctx)
	want := []api.QueuedJob{
		{Position: 1, Name: "urgent", Run: 1, Number: 4, Role: "*", Priority: 5, State: job.Waiting, TaskStates: map[job.State]int{job.Waiting: 3},
			Tasks: 3, Waiting: 3, GPUs: "4 x A100 or H100"},
		{Position: 2, Name: "plain", Run: 1, Number: 2, Role: "*", State: job.Waiting, TaskStates: map[job.State]int{job.Waiting: 1},
			Tasks: 1, Waiting: 1, GPUs: "2 x any type"},
		{Position: 3, Name: "part", Run: 1, Number: 3, Role: "*", State: job.Waiting, TaskStates: map[job.State]int{job.Waiting: 1},
			Tasks: 1, Waiting: 1, GPUs: "1 x (4096 MiB) of T4"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(api.QueuedJob{}, "Reason", "Submitted")); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	for _, q := range got {
		view, err := in.GetJob(ctx, q.Name)
		if err != nil || q.Reason == "" || q.Reason != view.WaitReason || !q.Submitted.Equal(view.Submitted) {
			t.Errorf("the queue has %s, since %s, for %q; the job has %s and %q, %v", q.Name, q.Submitted, q.Reason, view.Submitted, view.WaitReason, err)
		}
	}
}

// shiftedClock is the system clock, ahead by an offset that the test sets.
type shiftedClock struct{ ahead atomic.Int64 }

func (c *shiftedClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// TestDemand: the scheduler reports unmet demand once there was enough time for offers,
// and no longer reports demand that has been met.
func TestDemand(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	var k shiftedClock
	in := startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), Clock: k.now})
	awaitDecline(t, c)
	ctx := frameworktest.Timeout(t)
	pairs, linked := frameworktest.JobSpec("pairs", 2, 2), frameworktest.JobSpec("linked", 2, 4, "A100")
	linked.Request.Topology, linked.Request.MinMemMiB, linked.Gang = "nvlink", 40000, true
	for _, s := range []job.Spec{pairs, linked} {
		if _, err := in.SubmitJob(ctx, s); err != nil {
			t.Fatal(err)
		}
		awaitCount(t, in, "pairs", job.Running, 1)
	}
	if status, text := fetchText(t, in, "/v1/demand"); status != http.StatusServiceUnavailable || !strings.Contains(text, "for long enough") {
		t.Errorf("at once: %d %s", status, text)
	}
	k.ahead.Add(int64(30 * time.Second)) // the client retries until the loop has noticed
	var got []api.UnmetDemand
	awaitCondition(t, "the agent has offered what is left: nothing", func() (both bool) {
		list, err := in.GetDemand(ctx)
		got = list.Demand
		return err == nil && len(got) == 2
	})
	want := []api.UnmetDemand{
		{Type: api.AnyType, Types: []string{}, GPUs: 2, PerAgent: 2, InsufficientResources: []string{"gpus"}, Tasks: 1,
			Jobs: []string{"pairs"}, Roles: []string{"*"}, CPUs: job.DefaultCPUs + 0.1, TaskMemMiB: job.DefaultMemMiB + 32},
		{Type: "A100", Types: []string{"A100"}, GPUs: 8, PerAgent: 4, InsufficientResources: []string{"gpus"}, MemMiB: 40000,
			Topology: "nvlink", Tasks: 2, Jobs: []string{"linked"}, Roles: []string{"*"}, CPUs: job.DefaultCPUs + 0.1,
			TaskMemMiB: job.DefaultMemMiB + 32},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first := c.RunningTasks()[0]
	c.EndTask(first, mesos.TASK_FINISHED, "", "0")
	c.SendOffer()
	view := awaitCount(t, in, "pairs", job.Running, 1, first)
	if got, err := in.GetDemand(ctx); err != nil || len(got.Demand) != 1 || got.Demand[0].Jobs[0] != "linked" {
		t.Errorf("with %+v: %+v, %v", view.Tasks, got, err)
	}
}

// TestStandbyOperations: a standby answers reads like the leader, except for what only the
// leader knows. It redirects changes, which are still in effect after a failover.
func TestStandbyOperations(t *testing.T) {
	c, server := mesostest.NewCluster(t, 1), zktest.StartServer(t)
	roles := writeRolesFile(t, "research: V100=1\nprod: {weight: 2}\n")
	both := make([]*testInstance, 2)
	for i, role := range []string{api.Leader, api.Standby} {
		both[i] = startInstance(t, c, SchedulerConfig{JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", SessionTimeout: lasting, RolesFile: roles})
		awaitRole(t, both[i], role)
	}
	awaitDecline(t, c)
	leader, standby := both[0], both[1]
	ctx := longTimeout(t)
	for _, s := range []job.Spec{frameworktest.JobSpec("runs", 1, 1), frameworktest.JobSpec("first", 1, 1), frameworktest.JobSpec("second", 2, 4)} {
		if s.Name == "second" {
			s.Priority = 1
		}
		if _, err := standby.SubmitJob(ctx, s); err != nil {
			t.Fatal(err)
		}
		if s.Name == "runs" {
			awaitState(t, standby, "runs", job.Running)
		}
	}
	none := ""
	if _, err := standby.SetQuota(ctx, "prod", &none); err != nil {
		t.Fatal(err)
	}
	if err := standby.CordonAgent(ctx, "host-1", "smells"); err != nil {
		t.Fatal(err)
	}
	if use, err := standby.ListUsage(ctx, "runs"); err != nil || len(use) != 1 || use[0].Job != "runs" {
		t.Errorf("what GPUs do, by the standby: %+v, %v", use, err)
	}
	want, err := leader.ListRoles(ctx)
	if err != nil || !want[1].QuotaSet || want[0].Allocated["V100"] != 1 || want[0].Waiting != 3 {
		t.Fatalf("roles of the leader: %+v, %v", want, err)
	}
	awaitCondition(t, "the standby has the roles and the cordon", func() bool {
		got, err := standby.ListRoles(ctx)
		agents, listed := standby.ListAgents(ctx)
		return err == nil && cmp.Equal(want, got, cmpopts.IgnoreFields(api.RoleStatus{}, "Entitled")) && got[0].Entitled == nil &&
			listed == nil && agents[0].Cordoned == "smells"
	})
	queue, err := leader.ListQueue(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, err := standby.ListQueue(ctx)
	if diff := cmp.Diff(queue, got, cmpopts.IgnoreFields(api.QueuedJob{}, "Reason")); diff != "" || err != nil || len(got) != 2 || got[0].Name != "second" {
		t.Errorf("queue %v (-leader +standby):\n%s", err, diff)
	}
	wantMetrics(t, standby, []string{"mesos_gpu_scheduler_cordoned_agents 1"})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Get("http://" + standby.addr + "/v1/demand")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if to := answer.Header.Get("Location"); answer.StatusCode != http.StatusTemporaryRedirect || to != "http://"+leader.addr+"/v1/demand" {
		t.Errorf("demand: %d to %q", answer.StatusCode, to)
	}
	leader.stopAndWait(t)
	awaitRole(t, standby, api.Leader)
	wantRoles(t, standby, want)
	if a := onlyAgent(t, standby); a.Cordoned != "smells" {
		t.Errorf("after the takeover the agent is %+v", a)
	}
	if err := standby.UncordonAgent(ctx, "host-1"); err != nil {
		t.Fatal(err)
	}
	standby.stopAndWait(t)
}

// TestReclaimOverREST: GPUs that a role deserves and another one borrows are taken back; the job, the queue and the roles
// show why, with numbers.
func TestReclaimOverREST(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	in := startInstance(t, c, SchedulerConfig{
		JournalPath: filepath.Join(t.TempDir(), "journal.db"),
		RolesFile:   writeRolesFile(t, "guests: {deserved: \"*=1\"}\nprod: {deserved: V100=2}\n"),
	})
	awaitDecline(t, c)
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("borrow", 4, 1)); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, in, "borrow", job.Running, 4)
	train := frameworktest.JobSpec("train", 3, 1)
	train.Role = "prod"
	if _, err := in.SubmitJob(ctx, train); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		c.AwaitCall(t, n+1, scheduler.Call_KILL, nil)
	}
	awaitCount(t, in, "borrow", job.Waiting, 2)
	want := "2 GPUs that role prod deserves; it deserves 2 V100 and holds 0; "
	if view, err := in.GetJob(ctx, "train"); err != nil || !strings.Contains(view.WaitReason, want) {
		t.Errorf("the job waits for %q, %v; want %q", view.WaitReason, err, want)
	}
	if queue, err := in.ListQueue(ctx); err != nil || len(queue) != 2 || queue[0].Name != "train" || !strings.Contains(queue[0].Reason, want) {
		t.Errorf("queue %+v, %v", queue, err)
	}
	roles, err := in.ListRoles(ctx)
	if err != nil || len(roles) != 2 {
		t.Fatalf("roles %+v, %v", roles, err)
	}
	if roles[1].Entitled != nil || roles[1].Deserved["V100"] != 2 || roles[1].Demanded["*"] != 3 {
		t.Errorf("prod is %+v, want it without an entitlement, which nothing pursues", roles[1])
	}
	safe := frameworktest.JobSpec("safe", 3, 1)
	safe.Role, safe.Guaranteed, safe.Gang = "prod", true, true
	if _, err := in.SubmitJob(ctx, safe); err != nil {
		t.Fatal(err)
	}
	want = "3 GPUs more of what role prod deserves; role prod deserves 2 V100 and its guaranteed tasks hold 0"
	if view, err := in.GetJob(ctx, "safe"); err != nil || !view.Spec.Guaranteed || !strings.Contains(view.WaitReason, want) {
		t.Errorf("the guaranteed job waits for %q, %v; want %q", view.WaitReason, err, want)
	}
	killed := 0
	for _, call := range c.Calls() {
		if call.Type == scheduler.Call_KILL {
			killed++
		}
	}
	if killed != 2 {
		t.Errorf("%d tasks were killed, prod deserves 2", killed)
	}
}
