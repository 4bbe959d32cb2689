package framework

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// Session timeouts in ZooKeeper: brief for a leader that is to lose leadership, lasting
// for all others, so that a stall of this machine or of ZooKeeper does not end their
// session.
const (
	brief   = 5 * time.Second
	lasting = zktest.MaxSession
)

// startReplica starts a scheduler whose journal is in the ZooKeeper at addr.
func startReplica(t *testing.T, c *mesostest.FakeCluster, addr string, session time.Duration, wrap func(journal.Journal) journal.Journal) *testInstance {
	t.Helper()
	return startInstance(t, c, SchedulerConfig{JournalPath: "zk://" + addr + "/mesos-gpu/test", SessionTimeout: session, WrapJournal: wrap})
}

// awaitCondition polls until right returns true. It is for conditions without an event.
func awaitCondition(t *testing.T, what string, right func() bool) {
	t.Helper()
	limit := time.After(2 * waitTimeout)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !right() {
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("not so after %s: %s", 2*waitTimeout, what)
		}
	}
}

func awaitRole(t *testing.T, in *testInstance, role string) api.HealthStatus {
	t.Helper()
	var h api.HealthStatus
	awaitCondition(t, in.addr+" is the "+role, func() bool {
		var err error
		h, err = in.GetHealth(context.Background())
		return err == nil && h.Role == role && (role == api.Standby || h.Connected)
	})
	return h
}

// longTimeout returns the context for tests with many steps or with tokens: verifying a
// token takes seconds with the race detector.
func longTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

// TestStandbyAnswersReadsAndRedirectsWrites: a standby answers reads like the leader,
// reports their age and redirects writes to the leader.
func TestStandbyAnswersReadsAndRedirectsWrites(t *testing.T) {
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	first := startReplica(t, c, server.Addr(), lasting, nil)
	awaitRole(t, first, api.Leader)
	second := startReplica(t, c, server.Addr(), lasting, nil)
	h := awaitRole(t, second, api.Standby)
	if want := "http://" + first.addr; h.LeaderURL != want || h.Connected {
		t.Errorf("health of the standby: %+v, want %s leading", h, want)
	}
	ctx := longTimeout(t)
	if _, err := second.SubmitJob(ctx, frameworktest.JobSpec("train", 2, 1, "V100")); err != nil {
		t.Fatal(err)
	}
	awaitState(t, second, "train", job.Running) // from the standby's event stream
	one, err := first.ListJobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	two, err := second.ListJobs(ctx)
	if diff := cmp.Diff(one, two); diff != "" || err != nil {
		t.Errorf("jobs of leader and standby, %v:\n%s", err, diff)
	}
	gpus, err := second.ListGPUs(ctx)
	if err != nil || gpus[0].Task != one[0].Tasks[0].ID {
		t.Errorf("GPUs of the standby: %+v, %v", gpus, err)
	}
	res, err := http.Get("http://" + second.addr + "/v1/jobs/train")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if age, err := strconv.Atoi(res.Header.Get("Age")); err != nil || age > 60 {
		t.Errorf("age %q", res.Header.Get("Age"))
	}
	command := "/v1/jobs/train/tasks/0/exec?argv=ls"
	straight := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if res, err = straight.Get("http://" + second.addr + command); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusTemporaryRedirect || to != "http://"+first.addr+command {
		t.Errorf("a command is sent on by %d to %q", res.StatusCode, to)
	}
	if err := second.KillJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	if view, err := second.WaitForJob(ctx, "train"); err != nil || view.State != job.Killed {
		t.Errorf("ended as %s, %v", view.State, err)
	}
	if _, err := second.SubmitJob(ctx, frameworktest.JobSpec("typo", 1, 1, "V1000")); err == nil {
		t.Error("the standby did not return the leader's error")
	}
	first.stopAndWait(t)
	second.stopAndWait(t)
}

// TestStandbyTakesOver: after the leader dies the standby continues with its framework id
// and tasks, and a waiting client is not interrupted.
func TestStandbyTakesOver(t *testing.T) {
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	first := startReplica(t, c, proxy.Addr(), brief, nil)
	awaitRole(t, first, api.Leader)
	second := startReplica(t, c, server.Addr(), lasting, nil)
	awaitRole(t, second, api.Standby)
	ctx := longTimeout(t)
	both, err := client.New(first.addr + "," + second.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	if _, err := both.SubmitJob(ctx, frameworktest.JobSpec("runs", 1, 2)); err != nil {
		t.Fatal(err)
	}
	running := awaitState(t, first, "runs", job.Running).Tasks[0]
	if _, err := both.SubmitJob(ctx, frameworktest.JobSpec("waits", 1, 1)); err != nil {
		t.Fatal(err)
	}
	waited := make(chan api.JobView, 1)
	go func() {
		view, err := both.WaitForJob(ctx, "waits")
		if err != nil {
			t.Error(err)
		}
		waited <- view
	}()
	// Everything stops at once, as after SIGKILL: the API and the contact with ZooKeeper.
	proxy.CutNetwork()
	first.stop()
	if h := awaitRole(t, second, api.Leader); h.FrameworkID != "framework-1" {
		t.Errorf("the second leader has framework id %q", h.FrameworkID)
	}
	view, err := second.GetJob(ctx, "runs")
	if err != nil || view.Tasks[0].ID != running.ID || view.State != job.Running {
		t.Errorf("after the takeover: %+v, %v", view.Tasks, err)
	}
	c.EndTask(running.ID, mesos.TASK_FINISHED, "", "0")
	c.SendOffer()
	next := awaitState(t, second, "waits", job.Running).Tasks[0]
	c.EndTask(next.ID, mesos.TASK_FINISHED, "", "0")
	if view := <-waited; view.State != job.Finished {
		t.Errorf("the waiting job ended as %s", view.State)
	}
	proxy.HealNetwork()
	second.stopAndWait(t)
}

// journalTrace records the operations on the journals of several schedulers, in order.
type journalTrace struct {
	mu    sync.Mutex
	lines []string
}

func (c *journalTrace) addLine(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

func (c *journalTrace) indexOf(line string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Index(c.lines, line)
}

type tracedJournal struct {
	journal.Journal
	who string
	to  *journalTrace
}

func (c *journalTrace) wrapJournal(who string) func(journal.Journal) journal.Journal {
	return func(j journal.Journal) journal.Journal { return &tracedJournal{j, who, c} }
}

func (n *tracedJournal) Load(ctx context.Context) (journal.JournalContents, error) {
	n.to.addLine(n.who + " leads")
	return n.Journal.Load(ctx)
}

func (n *tracedJournal) Close() error {
	n.to.addLine(n.who + " stopped")
	return n.Journal.Close()
}

func (n *tracedJournal) Commit(ctx context.Context, c journal.Change) error {
	err := n.Journal.Commit(ctx, c)
	switch {
	case errors.Is(err, journal.ErrFenced):
		n.to.addLine(n.who + " fenced")
	case err == nil:
		n.to.addLine(n.who + " commits")
	}
	return err
}

// TestLeaderWithoutZooKeeperStops: a leader that loses contact with ZooKeeper stops before
// another one leads, and becomes a standby in the same process.
func TestLeaderWithoutZooKeeperStops(t *testing.T) {
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	book := &journalTrace{}
	first := startReplica(t, c, proxy.Addr(), brief, book.wrapJournal("first"))
	awaitRole(t, first, api.Leader)
	second := startReplica(t, c, server.Addr(), lasting, book.wrapJournal("second"))
	awaitRole(t, second, api.Standby)
	ctx := longTimeout(t)
	if _, err := first.SubmitJob(ctx, frameworktest.JobSpec("runs", 1, 2)); err != nil {
		t.Fatal(err)
	}
	running := awaitState(t, first, "runs", job.Running).Tasks[0]
	proxy.CutNetwork()
	awaitRole(t, second, api.Leader)
	if a, b := book.indexOf("first stopped"), book.indexOf("second leads"); a < 0 || b < a {
		t.Errorf("the first stopped at operation %d, the second led from operation %d", a, b)
	}
	if _, err := second.SubmitJob(ctx, frameworktest.JobSpec("waits", 1, 2)); err != nil {
		t.Fatal(err)
	}
	proxy.HealNetwork()
	if h := awaitRole(t, first, api.Standby); h.LeaderURL != "http://"+second.addr {
		t.Errorf("the first reports the leader %s", h.LeaderURL)
	}
	if view := awaitState(t, first, "waits", job.Waiting); len(view.Tasks) != 1 {
		t.Errorf("the first, as a standby, returns %+v", view)
	}
	if view, err := first.GetJob(ctx, "runs"); err != nil || view.Tasks[0].ID != running.ID || view.State != job.Running {
		t.Errorf("the running task became %+v, %v", view.Tasks, err)
	}
	// The first leads again.
	second.stopAndWait(t)
	awaitRole(t, first, api.Leader)
	c.EndTask(running.ID, mesos.TASK_FINISHED, "", "0")
	c.SendOffer()
	awaitState(t, first, "waits", job.Running)
	first.stopAndWait(t)
}

// blockedJournal blocks a commit until it is released. It simulates a leader whose
// process is paused while its session expires.
type blockedJournal struct {
	journal.Journal
	mu      sync.Mutex
	hold    chan struct{} // not nil while commits are blocked; closed to release them
	waiting chan struct{}
}

func (s *blockedJournal) Commit(ctx context.Context, c journal.Change) error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		s.waiting <- struct{}{}
		<-hold
	}
	return s.Journal.Commit(context.WithoutCancel(ctx), c)
}

// TestPausedLeaderIsFenced: a leader that has not noticed its replacement cannot record
// anything and therefore carries out nothing more.
func TestPausedLeaderIsFenced(t *testing.T) {
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	book := &journalTrace{}
	asleep := &blockedJournal{waiting: make(chan struct{}, 1)}
	first := startReplica(t, c, proxy.Addr(), brief, func(j journal.Journal) journal.Journal {
		asleep.Journal = book.wrapJournal("first")(j)
		return asleep
	})
	awaitRole(t, first, api.Leader)
	second := startReplica(t, c, server.Addr(), lasting, nil)
	awaitRole(t, second, api.Standby)
	ctx := longTimeout(t)
	hold := make(chan struct{})
	asleep.mu.Lock()
	asleep.hold = hold
	asleep.mu.Unlock()
	submitted := make(chan error, 1)
	go func() {
		_, err := first.SubmitJob(ctx, frameworktest.JobSpec("lost", 1, 1))
		submitted <- err
	}()
	<-asleep.waiting
	proxy.CutNetwork()
	awaitRole(t, second, api.Leader)
	asleep.mu.Lock()
	asleep.hold = nil
	asleep.mu.Unlock()
	proxy.HealNetwork()
	close(hold)
	// The client retries, and the new leader accepts the job.
	if err := <-submitted; err != nil {
		t.Errorf("submit: %v", err)
	}
	awaitState(t, second, "lost", job.Running)
	if n := len(c.RunningTasks()); n != 1 {
		t.Errorf("%d tasks run", n)
	}
	first.stopAndWait(t)
	second.stopAndWait(t)
}

// TestFencedLeaderBecomesStandby: another process has opened the journal although this
// scheduler is elected and healthy. It records nothing more, reports that, and joins the
// election again. The next leader accepts the rejected request.
func TestFencedLeaderBecomesStandby(t *testing.T) {
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	book := &journalTrace{}
	in := startReplica(t, c, server.Addr(), lasting, book.wrapJournal("first"))
	awaitRole(t, in, api.Leader)
	session, err := zkconn.Dial(longTimeout(t), zkconn.TargetFolder{Hosts: []string{server.Addr()}, Path: "/mesos-gpu/test"}, 0, frameworktest.DiscardLog())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	other, err := journal.OpenZooKeeper(longTimeout(t), journal.ZooKeeperConfig{
		Session: session,
		Path:    "/mesos-gpu/test/journal",
		Log:     frameworktest.DiscardLog(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.SubmitJob(longTimeout(t), frameworktest.JobSpec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "train", job.Running)
	fenced := book.indexOf("first fenced")
	if fenced < 0 {
		t.Fatalf("the leader was not fenced: %v", book.lines)
	}
	if got := strings.Join(book.lines[fenced:min(fenced+4, len(book.lines))], "; "); got != "first fenced; first stopped; first leads; first commits" {
		t.Errorf("the fenced leader executed: %s", got)
	}
	if err := other.Commit(longTimeout(t), journal.Change{FrameworkID: "f2"}); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the other client got %v", err)
	}
	if n := len(c.RunningTasks()); n != 1 {
		t.Errorf("%d tasks run", n)
	}
	in.stopAndWait(t)
}

// TestReplacedLeaderBecomesStandby: a scheduler outside the election has taken over the
// framework.
func TestReplacedLeaderBecomesStandby(t *testing.T) {
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	book := &journalTrace{}
	in := startReplica(t, c, server.Addr(), lasting, book.wrapJournal("first"))
	awaitRole(t, in, api.Leader)
	c.SendEvents(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework failed over"}})
	c.AwaitCall(t, 2, scheduler.Call_SUBSCRIBE, nil)
	awaitRole(t, in, api.Leader)
	if i := book.indexOf("first stopped"); i < 0 || !slices.Contains(book.lines[i:], "first leads") {
		t.Errorf("operations of the replaced leader: %v", book.lines)
	}
	in.stopAndWait(t)
}

// TestCorruptJournalStopsScheduler: neither a leader nor a standby continues with a
// journal that it cannot read.
func TestCorruptJournalStopsScheduler(t *testing.T) {
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	in := startReplica(t, c, server.Addr(), lasting, nil)
	awaitRole(t, in, api.Leader)
	session, err := zkconn.Dial(longTimeout(t), zkconn.TargetFolder{Hosts: []string{server.Addr()}, Path: "/x"}, 0, frameworktest.DiscardLog())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	in.stopAndWait(t)
	if _, err := session.Conn.Set("/mesos-gpu/test/journal/head", []byte(`{"schema":99,"next":1}`), -1); err != nil {
		t.Fatal(err)
	}
	s, err := New(SchedulerConfig{JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", APIAddr: "127.0.0.1:0", Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(longTimeout(t)); !errors.Is(err, journal.ErrNewer) {
		t.Errorf("Run returned %v", err)
	}
}

// TestZooKeeperRestartsUnderLoad: ZooKeeper is killed and restarted while jobs are
// submitted. Each accepted job runs once and ends.
func TestZooKeeperRestartsUnderLoad(t *testing.T) {
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	react := c.OnCall
	c.OnCall = func(call *scheduler.Call) {
		react(call)
		for _, op := range call.GetAccept().GetOperations() {
			for _, task := range op.GetLaunch().GetTaskInfos() {
				c.EndTask(task.TaskID.Value, mesos.TASK_FINISHED, "", "0")
			}
		}
		if call.GetType() == scheduler.Call_ACCEPT {
			c.SendOffer()
		}
	}
	one, two := startReplica(t, c, server.Addr(), brief, nil), startReplica(t, c, server.Addr(), brief, nil)
	both, err := client.New(one.addr + "," + two.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	ctx := longTimeout(t)
	var taken []string
	var mu sync.Mutex
	stop := make(chan struct{})
	var submitters sync.WaitGroup
	for w := range 4 {
		submitters.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("job-%d-%d", w, i)
				_, err := both.SubmitJob(ctx, frameworktest.JobSpec(name, 1, 0))
				if err != nil { // the job may have been accepted
					if _, unknown := both.GetJob(ctx, name); unknown != nil {
						continue
					}
				}
				mu.Lock()
				taken = append(taken, name)
				mu.Unlock()
			}
		})
	}
	for range 3 {
		mu.Lock()
		goal := len(taken) + 30
		mu.Unlock()
		awaitCondition(t, "jobs are taken", func() bool { mu.Lock(); defer mu.Unlock(); return len(taken) >= goal })
		server.Kill()
		server.Restart()
	}
	close(stop)
	submitters.Wait()
	for _, name := range taken {
		if view, err := both.WaitForJob(ctx, name); err != nil || view.State != job.Finished {
			t.Fatalf("%s ended as %s, %v", name, view.State, err)
		}
	}
	launched := map[string]int{}
	for _, call := range c.Calls() {
		for _, op := range call.GetAccept().GetOperations() {
			for _, task := range op.GetLaunch().GetTaskInfos() {
				launched[task.Name]++
			}
		}
	}
	for name, n := range launched {
		if n > 1 {
			t.Errorf("%s was launched %d times", name, n)
		}
	}
	if len(launched) < len(taken) {
		t.Errorf("%d jobs were launched, %d taken", len(launched), len(taken))
	}
	t.Logf("%d jobs through 3 restarts", len(taken))
}
