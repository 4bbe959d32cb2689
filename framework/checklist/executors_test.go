//go:build !mesos

package checklist

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	embedded "mesos-gpu/internal/local/agent"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// executorProxy is a fault proxy between executors and their agent.
type executorProxy struct {
	agent http.Handler

	mu     sync.Mutex
	calls  []executorCall
	refuse func(*executor.Call) bool // calls to answer with 503
	cuts   []context.CancelFunc
	more   chan struct{}
}

type executorCall struct {
	*executor.Call
	token, network string
	at             time.Time
}

func (h *executorProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/api/v1/executor") {
		h.agent.ServeHTTP(w, r)
		return
	}
	text, err := io.ReadAll(r.Body)
	call := executorCall{Call: &executor.Call{}, token: r.Header.Get("Authorization"), at: time.Now()}
	if err == nil {
		err = proto.Unmarshal(text, call.Call)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		call.network = addr.Network()
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	if h.recordCall(call, cut) {
		http.Error(w, "the agent is unavailable", http.StatusServiceUnavailable)
		return
	}
	h.agent.ServeHTTP(w, r.WithContext(ctx))
}

func (h *executorProxy) recordCall(call executorCall, cut context.CancelFunc) (refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call)
	h.cuts = append(h.cuts, cut)
	close(h.more)
	h.more = make(chan struct{})
	return h.refuse != nil && h.refuse(call.Call)
}

// rejectCalls rejects the calls that match from now on; nil ends that.
func (h *executorProxy) rejectCalls(match func(*executor.Call) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = match
}

// closeConnections breaks all current connections.
func (h *executorProxy) closeConnections() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cut := range h.cuts {
		cut()
	}
}

// awaitCall waits for the nth call that matches.
func (h *executorProxy) awaitCall(t testing.TB, n int, match func(executorCall) bool) executorCall {
	t.Helper()
	late := time.After(waitTimeout)
	for {
		h.mu.Lock()
		more, seen := h.more, 0
		for _, c := range h.calls {
			if match(c) {
				if seen++; seen == n {
					h.mu.Unlock()
					return c
				}
			}
		}
		h.mu.Unlock()
		select {
		case <-more:
		case <-late:
			t.Fatalf("no matching executor call after %s; got %d calls", waitTimeout, len(h.calls))
		}
	}
}

func isExecutorCall(kind executor.Call_Type) func(executorCall) bool {
	return func(c executorCall) bool { return c.GetType() == kind }
}

func newExecutorEnv(t *testing.T) *testEnv {
	t.Helper()
	w, _, _ := startExecutorEnv(t, func(*embedded.AgentConfig) {})
	return w
}

// startExecutorEnv returns a world with one embedded agent that runs executors as plain
// processes. stop ends the agent.
func startExecutorEnv(t *testing.T, change func(*embedded.AgentConfig)) (w *testEnv, h *executorProxy, stop func() error) {
	t.Helper()
	w = newTestEnv(t)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h = &executorProxy{more: make(chan struct{})}
	server := httptest.NewUnstartedServer(h)
	cfg := embedded.AgentConfig{
		Log: newLogger(t, "agent"), Master: w.cluster.master, WorkDir: t.TempDir(), Addr: server.Listener.Addr().String(),
		Resources: []mesos.Resource{scalar("cpus", 4), scalar("mem", 4096), scalar("disk", 1000)}, ExecutorPath: binary,
		ExecutorEnv: map[string]string{},
	}
	change(&cfg)
	a, err := embedded.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.agent = a.Handler()
	server.Start()
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	<-a.Ready()
	return w, h, stop
}

func TestMesos43_ExecutorSendsUnacknowledgedAgain(t *testing.T) {
	w, h, _ := startExecutorEnv(t, func(*embedded.AgentConfig) {})
	h.rejectCalls(func(c *executor.Call) bool { return c.GetType() == executor.Call_UPDATE })
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 0))
	lost := h.awaitCall(t, 1, isExecutorCall(executor.Call_UPDATE))
	h.closeConnections()
	again := h.awaitCall(t, 2, isExecutorCall(executor.Call_SUBSCRIBE)).Subscribe
	id := lost.Update.Status.TaskID
	if n := len(again.UnacknowledgedTasks); n != 1 || again.UnacknowledgedTasks[0].TaskID != id {
		t.Errorf("%d tasks in the second SUBSCRIBE, want %s", n, id.Value)
	}
	found := false
	for _, u := range again.UnacknowledgedUpdates {
		found = found || bytes.Equal(u.Status.UUID, lost.Update.Status.UUID)
	}
	if !found {
		t.Errorf("the second SUBSCRIBE carries %d updates, %s not among them", len(again.UnacknowledgedUpdates), lost.Update.Status.GetState())
	}
	h.rejectCalls(nil)
	in.awaitTask("train", job.Running)
	w.finishTasks("train")
	in.awaitTask("train", job.Finished)
}

func TestMesos44_ExecutorExitsAfterRecoveryTimeout(t *testing.T) {
	const backoff = 200 * time.Millisecond
	for _, tc := range []struct {
		name       string
		checkpoint bool
		recovery   time.Duration // the recovery timeout, which an executor without checkpointing ignores
	}{{"checkpoint", true, 3 * time.Second}, {"none", false, time.Hour}} {
		t.Run(tc.name, func(t *testing.T) {
			w, h, _ := startExecutorEnv(t, func(c *embedded.AgentConfig) { c.RecoveryTimeout, c.SubscriptionBackoff = tc.recovery, backoff })
			w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_SUBSCRIBE), rewriteCall(func(c *scheduler.Call) {
				c.Subscribe.FrameworkInfo.Checkpoint = &tc.checkpoint
			}))
			in := w.startScheduler(nil)
			in.submit(w.newSpec("train", 0))
			in.awaitTask("train", job.Running)
			lost := time.Now()
			h.rejectCalls(func(*executor.Call) bool { return true })
			h.closeConnections()
			ended := in.awaitTask("train", job.Failed)
			if took := time.Since(lost); tc.checkpoint && took < tc.recovery {
				t.Errorf("the executor ended %s after the agent disconnected (%s), recovery timeout %s", took, ended.Message, tc.recovery)
			}
			h.checkResubscription(t, tc.checkpoint, lost, backoff)
		})
	}
}

// checkResubscription checks how an executor tried to reconnect to its agent.
func (h *executorProxy) checkResubscription(t *testing.T, some bool, since time.Time, most time.Duration) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var attempts []time.Time
	for _, c := range h.calls {
		if c.GetType() == executor.Call_SUBSCRIBE && c.at.After(since) {
			attempts = append(attempts, c.at)
		}
	}
	if (len(attempts) > 5) != some {
		t.Errorf("%d attempts to subscribe again", len(attempts))
	}
	var gaps []time.Duration
	for n := 1; n < len(attempts); n++ {
		gaps = append(gaps, attempts[n].Sub(attempts[n-1]))
	}
	slices.Sort(gaps)
	const slack = 300 * time.Millisecond // for a busy machine, which may delay a few attempts even longer
	if n := len(gaps); n > 0 && gaps[n/2] > most+slack {
		t.Errorf("most attempts came after %s, want %s at most: %s", gaps[n/2], most, gaps)
	}
}

func TestMesos45_ExecutorShutdownTokenAndSocket(t *testing.T) {
	t.Run("shutdown", func(t *testing.T) {
		w, _, stop := startExecutorEnv(t, func(*embedded.AgentConfig) {})
		in := w.startScheduler(nil)
		polite, stubborn := w.newSpec("polite", 0), w.newSpec("stubborn", 0)
		polite.Command = []string{"sh", "-c", `trap 'echo bye > $0/bye; exit' TERM; echo $$ > $0/polite; while :; do sleep 0.05; done`, w.dir}
		stubborn.Command = []string{"sh", "-c", `trap '' TERM; echo $$ > $0/stubborn; while :; do sleep 0.05; done`, w.dir}
		polite.KillGrace, stubborn.KillGrace = time.Second, time.Second
		in.submit(polite, stubborn)
		in.awaitTask("polite", job.Running)
		in.awaitTask("stubborn", job.Running)
		awaitFiles(t, w.dir, "polite", "stubborn")
		start := time.Now()
		if err := stop(); err != nil { // sends SHUTDOWN and waits
			t.Error(err)
		}
		if took := time.Since(start); took > waitTimeout {
			t.Errorf("the executors took %s to end, with a second of grace", took)
		}
		if _, err := os.Stat(w.dir + "/bye"); err != nil {
			t.Errorf("the probe did not reach the task to end: %v", err)
		}
		for _, name := range []string{"polite", "stubborn"} {
			if pid := pidIn(t, w.dir, name); syscall.Kill(pid, 0) == nil {
				t.Errorf("process %d of %s still exists", pid, name)
			}
		}
	})
	t.Run("token", func(t *testing.T) {
		w, h, _ := startExecutorEnv(t, func(c *embedded.AgentConfig) { c.ExecutorEnv["MESOS_EXECUTOR_AUTHENTICATION_TOKEN"] = "secret" })
		w.runJob(w.startScheduler(nil), "train", 0)
		for _, kind := range []executor.Call_Type{executor.Call_SUBSCRIBE, executor.Call_UPDATE} {
			if got := h.awaitCall(t, 1, isExecutorCall(kind)).token; got != "Bearer secret" {
				t.Errorf("%s has the token %q", kind, got)
			}
		}
	})
	t.Run("socket", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "mesos") // short: a socket's path is limited to 107 bytes
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		socket := filepath.Join(dir, "agent")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		w, h, _ := startExecutorEnv(t, func(c *embedded.AgentConfig) { c.ExecutorEnv["MESOS_DOMAIN_SOCKET"] = socket })
		server := &http.Server{Handler: h}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close() })
		w.runJob(w.startScheduler(nil), "train", 0)
		for _, kind := range []executor.Call_Type{executor.Call_SUBSCRIBE, executor.Call_UPDATE} {
			if got := h.awaitCall(t, 1, isExecutorCall(kind)).network; got != "unix" {
				t.Errorf("%s came by %s", kind, got)
			}
		}
	})
}

// awaitFiles polls for files that tasks write: tasks have no other way to report.
func awaitFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	late := time.After(waitTimeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, name := range names {
		for {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil && bytes.HasSuffix(text, []byte("\n")) {
				break
			}
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("no file %s after %s", name, waitTimeout)
			}
		}
	}
}

func pidIn(t *testing.T, dir, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
