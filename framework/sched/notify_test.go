package sched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// notifyTest is a State whose notifications a test reads.
type notifyTest struct {
	t   *testing.T
	st  *State
	now time.Time
}

func newNotifyTest(t *testing.T, past RecoveredState, roles ...queue.Role) *notifyTest {
	s := &notifyTest{t: t, now: time.Unix(1_700_000_000, 0)}
	p := Policy{
		Policy:              placement.Policy{Roles: roles},
		NotificationTargets: notification.AllowedTargets{Enabled: true, WebhookHosts: job.FetchHosts{"hooks.example.org"}, MailDomains: []string{"example.org"}},
	}
	s.st = New(SchedulerSettings{Policy: p, HoldOffers: -1}, past)
	s.step(Subscribed{FrameworkID: "f"})
	return s
}

func (s *notifyTest) step(events ...Event) {
	for _, e := range events {
		s.now = s.now.Add(time.Second)
		s.st.Step(s.now, e)
	}
}

// offer offers GPUs of an agent to a role and places tasks.
func (s *notifyTest) offer(id, role string, gpus int) {
	s.step(OffersReceived{Offers: []Offer{{ID: id, AgentID: "a", Hostname: "host-a", AgentURL: "http://a:5051", Role: role,
		Free: Amount{CPUs: 16, MemMiB: 32 << 10, DiskMiB: 32 << 10}, GPUs: gpus,
		Ports: []PortRange{{First: 31000, Last: 32000}}}}}, Cycle{})
}

func (s *notifyTest) update(id string, state job.State, message string) {
	s.step(TaskUpdate{TaskID: id, AgentID: "a", State: state, Message: message})
}

func (s *notifyTest) taskID(name string, index int) string {
	j, ok := s.st.Job(name)
	if !ok {
		s.t.Fatalf("no job %s", name)
	}
	return j.Tasks[index].ID
}

// take returns the notifications as "JOB EVENT STATE tasks=N TO: REASON", sorted, and removes them as if they were delivered.
func (s *notifyTest) take() string {
	var lines []string
	for id, n := range s.st.notifications.byID {
		lines = append(lines, fmt.Sprintf("%s %s %s tasks=%d %s: %s", n.Job, n.Event, n.State, n.Tasks, n.To, n.Reason))
		defer s.step(NotificationsAttempted{Results: []notification.Result{{ID: id, Delivered: true}}})
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (s *notifyTest) want(want string) {
	s.t.Helper()
	if got := s.take(); got != want {
		s.t.Errorf("notifications:\n%s\nwant:\n%s", got, want)
	}
	if len(s.st.notifications.byID) > 0 || len(s.st.notifications.perTarget) > 0 || s.st.notifications.failed != 0 {
		s.t.Errorf("not empty: %+v", s.st.notifications)
	}
}

func notifyingSpec(name string, tasks, gpus int, on ...job.NotificationEvent) job.Spec {
	spec := job.Spec{Name: name, Tasks: tasks, Request: gpu.Request{GPUs: gpus}, CPUs: 1, MemMiB: 128, KillGrace: time.Second}
	spec.Command, spec.Notify = []string{"true"}, []job.NotificationRule{{To: "mailto:a@example.org", On: on}}
	return spec
}

// TestNotifiedEvents: each event of a job is one notification to each target, however many tasks it is about.
func TestNotifiedEvents(t *testing.T) {
	all := job.NotificationEvents()
	s := newNotifyTest(t, RecoveredState{},
		queue.Role{Name: "research", Notify: []job.NotificationRule{{To: "https://hooks.example.org/x", On: []job.NotificationEvent{job.NotifyFailure}}}},
		queue.Role{Name: "research/vision"})
	spec := notifyingSpec("gang", 2, 1, all...)
	spec.Gang, spec.Preemptible, spec.Role = true, true, "research/vision"
	s.step(SubmitJob{Spec: spec}, Cycle{})
	s.want("")
	s.offer("o1", "research/vision", 2)
	s.update(s.taskID("gang", 0), job.Running, "")
	s.want("gang start RUNNING tasks=1 mailto:a@example.org: ")
	s.update(s.taskID("gang", 1), job.Running, "")
	s.want("")

	urgent := notifyingSpec("urgent", 1, 2)
	urgent.Priority, urgent.Role = 9, "research/vision"
	s.step(SubmitJob{Spec: urgent}, Cycle{})
	s.want("gang preemption KILLING tasks=2 mailto:a@example.org: makes room for urgent")
	s.step(Cycle{}, Tick{})
	s.want("")
	s.update(s.taskID("gang", 0), job.Killed, "")
	s.update(s.taskID("gang", 1), job.Killed, "")
	s.offer("o2", "research/vision", 2)
	s.update(s.taskID("urgent", 0), job.Running, "")
	s.update(s.taskID("urgent", 0), job.Finished, "")
	s.want("urgent end FINISHED tasks=1 mailto:a@example.org: ")
	s.offer("o3", "research/vision", 2)
	s.update(s.taskID("gang", 0), job.Running, "")
	s.want("") // it has started before
	s.update(s.taskID("gang", 1), job.Running, "")
	s.update(s.taskID("gang", 1), job.Failed, "exited with status 3")
	s.update(s.taskID("gang", 0), job.Killed, "")
	s.want("gang failure FAILED tasks=1 https://hooks.example.org/x: exited with status 3\ngang failure FAILED tasks=1 mailto:a@example.org: exited with status 3")
	s.step(Tick{}, Cycle{})
	s.want("")

	idle := notifyingSpec("notebook", 1, 1, all...)
	idle.IdleTimeout, idle.Role = time.Minute, "research"
	s.step(SubmitJob{Spec: idle})
	s.offer("o4", "research", 1)
	s.update(s.taskID("notebook", 0), job.Running, "")
	s.take()
	s.now = s.now.Add(2 * time.Minute)
	s.step(Tick{}, Tick{})
	s.want("notebook idle KILLING tasks=1 mailto:a@example.org: no client was connected for 1m0s, the job's idle_timeout")
	s.update(s.taskID("notebook", 0), job.Killed, "")
	s.want("notebook end KILLED tasks=1 mailto:a@example.org: no client was connected for 1m0s, the job's idle_timeout")

	service := notifyingSpec("web", 1, 0)
	service.Service, service.Role = &job.Service{}, "research"
	service.SetDefaults()
	s.step(SubmitJob{Spec: service})
	s.offer("o5", "research", 0)
	s.update(s.taskID("web", 0), job.Running, "")
	s.update(s.taskID("web", 0), job.Failed, "exited with status 1")
	s.want("web failure FAILED tasks=1 https://hooks.example.org/x: exited with status 1\nweb failure FAILED tasks=1 mailto:a@example.org: exited with status 1")

	drained := notifyingSpec("moved", 1, 1, all...)
	drained.Role = "research"
	s.step(SubmitJob{Spec: drained})
	s.offer("o6", "research", 1)
	s.update(s.taskID("moved", 0), job.Running, "")
	s.take()
	s.step(CordonHost{Host: "host-a", Drain: true}, Tick{})
	s.want("moved preemption KILLING tasks=1 mailto:a@example.org: its agent is drained")
}

// TestQuotaIsNotifiedOnce: a job that waits for its role's quota is reported once in a run, also after a failover.
func TestQuotaIsNotifiedOnce(t *testing.T) {
	limit, err := quota.Parse("*=1")
	if err != nil {
		t.Fatal(err)
	}
	role := queue.Role{Name: "research", Quota: limit}
	s := newNotifyTest(t, RecoveredState{}, role)
	first, second := notifyingSpec("first", 1, 1, job.NotifyQuota), notifyingSpec("second", 1, 1, job.NotifyQuota)
	s.step(SubmitJob{Spec: first})
	s.offer("o1", "research", 1)
	s.update(s.taskID("first", 0), job.Running, "")
	s.want("")
	s.step(SubmitJob{Spec: second})
	for i := range 5 {
		s.offer(fmt.Sprint("p", i), "research", 1)
	}
	got := s.take()
	if !strings.HasPrefix(got, "second quota WAITING tasks=1 mailto:a@example.org: ") || strings.Contains(got, "\n") {
		t.Errorf("notifications:\n%s", got)
	}
	s = newNotifyTest(t, RecoveredState{FrameworkID: "f", Jobs: s.st.Jobs(), Documents: s.st.Documents()}, role)
	s.now = s.now.Add(time.Hour)
	s.offer("q", "research", 1)
	s.want("")
}

// TestNotificationsAreRecorded: a notification is recorded with its event, survives a failover with its id and its
// attempts, and is given up, tried again and dropped.
func TestNotificationsAreRecorded(t *testing.T) {
	s := newNotifyTest(t, RecoveredState{}, queue.Role{Name: "research"})
	s.step(SubmitJob{Spec: notifyingSpec("train", 1, 1)})
	s.offer("o1", "research", 1)
	s.update(s.taskID("train", 0), job.Running, "")
	s.st.TakeChanges()
	s.update(s.taskID("train", 0), job.Finished, "")
	c := s.st.TakeChanges()
	if len(c.Documents) != 1 || len(c.Tasks) != 1 || c.Tasks[0].State != job.Finished {
		t.Fatalf("recorded together: %+v", c)
	}
	id := ""
	for key := range c.Documents {
		id, _, _ = notification.Parse(key, nil)
	}
	next := s.now.Add(time.Minute)
	s.step(NotificationsAttempted{Results: []notification.Result{{ID: id, Error: "it answers 500", Next: next}}})
	restart := func() *notification.Notification {
		t.Helper()
		s = newNotifyTest(t, RecoveredState{FrameworkID: "f", Jobs: s.st.Jobs(), Documents: s.st.Documents()}, queue.Role{Name: "research"})
		n := s.st.notifications.byID[id]
		if n == nil || len(s.st.notifications.byID) != 1 {
			t.Fatalf("after a failover: %+v", s.st.notifications.byID)
		}
		return n
	}
	if n := restart(); n.Attempts != 1 || !n.Next.Equal(next) || n.Error != "it answers 500" || n.IsFailed() {
		t.Errorf("after a failover: %+v", n)
	}
	s.step(NotificationsAttempted{Results: []notification.Result{{ID: id, Error: "it answers 410"}}})
	if n := restart(); !n.IsFailed() || n.Attempts != 2 || s.st.notifications.failed != 1 {
		t.Errorf("given up: %+v", n)
	}
	s.step(RetryNotification{ID: id})
	if n := restart(); n.IsFailed() || n.Round != 1 || n.Attempts != 0 || !n.Next.IsZero() || s.st.notifications.failed != 0 {
		t.Errorf("tried again: %+v", n)
	}
	s.step(NotificationsAttempted{Results: []notification.Result{{ID: id, Round: 0, Error: "late"}}})
	if n := restart(); n.Attempts != 0 {
		t.Errorf("a result of an earlier round counts: %+v", n)
	}
	s.step(DropNotification{ID: id}, DropNotification{ID: id}, RetryNotification{ID: id})
	if s.st.HasNotification(id) || s.st.Document(notification.DocumentKey(id)) != nil {
		t.Error("it still exists after it was dropped")
	}
}

// TestIdleGPUsAreNotifiedOnce: targets of the job and its role are notified once of idle GPUs, also after a failover, and again
// only after a GPU was in use. Another run has its own notification.
func TestIdleGPUsAreNotifiedOnce(t *testing.T) {
	role := queue.Role{Name: "research", Notify: []job.NotificationRule{{To: "https://hooks.example.org/x", On: []job.NotificationEvent{job.NotifyGPUIdle}}}}
	s := newNotifyTest(t, RecoveredState{}, role)
	spec := notifyingSpec("train", 3, 1, job.NotifyGPUIdle)
	spec.Role = "research"
	s.step(SubmitJob{Spec: spec})
	s.offer("o1", "research", 2)
	s.update(s.taskID("train", 0), job.Running, "")
	s.update(s.taskID("train", 1), job.Running, "")
	run := job.RunID{Name: "train", Run: 1}
	idle, busy := GPUDutiesMeasured{Idle: []job.RunID{run}, Reason: "idle for 30m"}, GPUDutiesMeasured{Busy: []job.RunID{run}}
	const want = "train gpu_idle RUNNING tasks=2 https://hooks.example.org/x: idle for 30m\ntrain gpu_idle RUNNING tasks=2 mailto:a@example.org: idle for 30m"
	s.step(GPUDutiesMeasured{Idle: []job.RunID{{Name: "train", Run: 2}, {Name: "other", Run: 1}}})
	s.want("")
	s.step(busy, idle, idle)
	s.want(want)
	failover := func() {
		t.Helper()
		s = newNotifyTest(t, RecoveredState{FrameworkID: "f", Jobs: s.st.Jobs(), Documents: s.st.Documents()}, role)
	}
	failover()
	s.step(idle)
	s.want("")
	s.step(busy, busy)
	failover()
	s.step(idle, idle)
	s.want(want)
}

// TestNotificationsAreBounded: one target cannot fill the journal, and the oldest notifications that were given up are
// forgotten.
func TestNotificationsAreBounded(t *testing.T) {
	s := newNotifyTest(t, RecoveredState{})
	add := func(i int, to string) string {
		n := notification.New(to, notification.Facts{Event: job.NotifyEnd, Time: s.now.Add(time.Duration(i)), Job: "x"})
		s.st.addNotification(n)
		return n.ID
	}
	for i := range maxNotificationsPerTarget + 5 {
		add(i, "mailto:a@example.org")
	}
	if c := s.st.TakeChanges(); c.NotificationsDropped != 5 || len(s.st.notifications.byID) != maxNotificationsPerTarget {
		t.Errorf("dropped %d, kept %d", c.NotificationsDropped, len(s.st.notifications.byID))
	}
	for i := range maxFailedNotifications + 5 {
		s.step(NotificationsAttempted{Results: []notification.Result{{ID: add(i, fmt.Sprintf("mailto:%d@example.org", i)), Error: "gone"}}})
	}
	if n := s.st.notifications.failed; n != maxFailedNotifications {
		t.Errorf("%d that were given up are kept", n)
	}
}

// TestForbiddenTargetsAreRejected: a job or an edit with a target that is not allowed is rejected.
func TestForbiddenTargetsAreRejected(t *testing.T) {
	s := newNotifyTest(t, RecoveredState{})
	spec := notifyingSpec("train", 1, 1)
	spec.Notify[0].To = "http://169.254.169.254/latest"
	if err := s.st.AdmitCompleted(&spec); err == nil || !strings.Contains(err.Error(), "allows webhooks of hooks.example.org") {
		t.Errorf("admitted: %v", err)
	}
	spec.Notify = nil
	s.step(SubmitJob{Spec: spec})
	j, _ := s.st.Job("train")
	edited := *j.Spec
	edited.Notify = []job.NotificationRule{{To: "mailto:a@example.com"}}
	if err := s.st.AdmitEdit(edited.Name, &edited); err == nil || !strings.Contains(err.Error(), "allows mail to example.org") {
		t.Errorf("edited: %v", err)
	}
	edited.Notify = []job.NotificationRule{{To: "mailto:a@example.org"}}
	s.step(EditJob{Job: edited.Name, Spec: edited})
	if j, _ := s.st.Job("train"); len(j.Spec.Notify) != 1 {
		t.Errorf("not edited: %+v", j.Spec.Notify)
	}
}
