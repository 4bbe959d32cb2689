package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/e2e/chaos"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// killStorm runs many short jobs on a cluster whose processes are killed, and records what their
// tasks and the jobs' records say.
type killStorm struct {
	t      *testing.T
	random *rand.Rand
	// start starts the cluster again, in the same work directory.
	start   func() *cluster
	cluster *cluster
	client  *client.Client
	work    string // the cluster's work directory
	history string // file to which the test and the tasks append
	ends    chaos.EndTracker
	jobs    int
	// killed has the executors that were killed, by pid.
	killed map[int]bool
	// losesWorkDir means that the agent of a killed cluster loses its work directory: the next one
	// has another id.
	losesWorkDir bool
}

// record appends an event with the current time to the history.
func (s *killStorm) record(e chaos.Event) {
	s.t.Helper()
	uptime, err := os.ReadFile("/proc/uptime")
	if err == nil {
		_, err = fmt.Sscan(string(uptime), &e.At)
	}
	line, encoding := json.Marshal(e)
	f, opening := os.OpenFile(s.history, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	for _, err := range []error{err, encoding, opening} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	defer f.Close()
	if _, err := f.Write(append(line, '\n')); err != nil {
		s.t.Fatal(err)
	}
}

// readHistory returns all events so far.
func (s *killStorm) readHistory() []chaos.Event {
	s.t.Helper()
	text, err := os.ReadFile(s.history)
	if err != nil {
		s.t.Fatal(err)
	}
	events, err := chaos.ReadHistory(bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

// restart starts the cluster and connects to it.
func (s *killStorm) restart() {
	s.t.Helper()
	s.cluster = s.start()
	c, err := client.New(s.cluster.api)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	s.client = c
}

// submit submits a job of up to three tasks that take up to two seconds.
func (s *killStorm) submit() {
	s.t.Helper()
	spec := job.Spec{
		Name: fmt.Sprint("job-", s.jobs), Tasks: 1 + s.random.IntN(3), Request: gpu.Request{GPUs: 1}, CPUs: 0.1, MemMiB: 64,
		Command: []string{"/bin/sh", "-c", chaos.RecordScript}, Retries: job.MaxRetries, KillGrace: time.Second,
		Env: map[string]string{"HISTORY": s.history, "DURATION": fmt.Sprint(s.random.IntN(3))},
	}
	s.jobs++
	if _, err := s.client.SubmitJob(s.t.Context(), spec); err != nil {
		s.t.Fatal(err)
	}
	s.record(chaos.Event{Kind: chaos.JobAccepted, Job: spec.Name, Tasks: spec.Tasks})
}

// await waits until a condition holds, and records the tasks that have ended meanwhile. It
// returns false if all jobs have ended before.
func (s *killStorm) await(what string, done func() bool) bool {
	s.t.Helper()
	timeout := waitTimeout
	if s.losesWorkDir {
		timeout = lostAgentTimeout
	}
	for late := time.Now().Add(timeout); ; time.Sleep(50 * time.Millisecond) {
		if done() {
			return true
		}
		jobs, err := s.client.ListJobs(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range s.ends.FindEnds(jobs) {
			s.record(e)
		}
		live := 0
		for _, v := range jobs {
			if !v.Terminal {
				live++
			}
		}
		switch {
		case live == 0 && len(jobs) == s.jobs:
			return false
		case time.Now().After(late):
			s.t.Fatalf("waited %s for %s:\n%s", timeout, what, s.cluster.mustRun("ps"))
		}
	}
}

// listExecutors returns the pids of the executors that were not killed, by task. Without begun
// it returns only those whose task has recorded nothing.
func (s *killStorm) listExecutors(begun bool) map[string]int {
	s.t.Helper()
	recorded := map[string]bool{}
	for _, e := range s.readHistory() {
		recorded[e.Task] = recorded[e.Task] || e.Kind == chaos.TaskBegan
	}
	executors := findExecutors(s.t, filepath.Dir(s.history), func(task string) bool { return begun || !recorded[task] })
	for task, pid := range executors {
		if s.killed[pid] {
			delete(executors, task)
		}
	}
	return executors
}

// countTasks returns how many tasks have recorded an event of a kind.
func (s *killStorm) countTasks(kind chaos.EventKind) int {
	s.t.Helper()
	n := 0
	for _, e := range s.readHistory() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// strike waits for a moment that the seed chooses, and kills the cluster, executors or both.
func (s *killStorm) strike() {
	s.t.Helper()
	moment := s.random.IntN(4)
	victims := s.random.IntN(3)
	before := s.countTasks(chaos.TaskBegan)
	var executors map[string]int
	s.await("the moment of a kill", func() bool {
		switch executors = s.listExecutors(moment >= 2); moment {
		case 0:
			return true
		case 1: // between a launch and the first status
			return len(executors) > 0
		case 2:
			return s.countTasks(chaos.TaskBegan) > before
		}
		return len(executors) > 1
	})
	kill := func(what string, pid int) {
		s.record(chaos.Event{Kind: chaos.FaultInjected, Detail: what})
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	if victims > 0 {
		tasks := []string{}
		for task := range executors {
			tasks = append(tasks, task)
		}
		slices.Sort(tasks)
		for _, task := range tasks[:min(len(tasks), 1+s.random.IntN(3))] {
			s.killed[executors[task]] = true
			kill("executor of "+task, executors[task])
		}
	}
	if victims < 2 {
		kill("cluster", s.cluster.cmd.Process.Pid)
		<-s.cluster.ended
		if s.losesWorkDir {
			s.record(chaos.Event{Kind: chaos.FaultInjected, Detail: "agent's work directory"})
			if err := os.RemoveAll(filepath.Join(s.work, "agent")); err != nil {
				s.t.Fatal(err)
			}
		}
		s.restart()
	}
}

// TestKillStorm kills a cluster and its executors with SIGKILL, again and again, at moments that a
// seed chooses, also between the launch of a task and its first status: 150 times with make
// test-long. By the tasks' own records no GPU has two holders at a time, no task runs that its
// job's record calls ended, and no two attempts of a task run at a time. MESOS_GPU_TEST_SEED
// repeats the choices of a run.
func TestKillStorm(t *testing.T) {
	t.Parallel()
	runKillStorm(t, "127.2", false)
}

// TestKillStormWithoutAgentState is TestKillStorm with an agent that loses its work directory at
// each kill of the cluster. The GPUs of the lost agent's tasks are held for three minutes after each, so that it takes longer
// and strikes six times.
func TestKillStormWithoutAgentState(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("takes too long for every run: make test-long runs it")
	}
	t.Parallel()
	runKillStorm(t, "127.3", true)
}

// lostAgentTimeout is how long a storm waits whose agents lose their work directories.
const lostAgentTimeout = 5 * time.Minute

// runKillStorm runs a storm on a cluster whose agent listens in a part of the loopback network.
func runKillStorm(t *testing.T, network string, losesWorkDir bool) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	makeReadable(t, dir)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("MESOS_GPU_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("MESOS_GPU_TEST_SEED=%d", seed)
	work := filepath.Join(dir, "work")
	program := buildReleased(t)
	agent := fmt.Sprintf("%s.%d.%d:5051", network, os.Getpid()>>8&0xff, os.Getpid()&0xff)
	s := &killStorm{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), work: work, history: filepath.Join(dir, "history"), killed: map[int]bool{}, losesWorkDir: losesWorkDir,
		start: func() *cluster {
			return startDaemon(t, program, "local", "--free-ports", "--agent", agent, "--process-user=", "--work-dir", work, "--gpus", "4xV100")
		},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("history:\n%s", formatHistory(s.readHistory()))
		}
	})
	s.record(chaos.Event{Kind: chaos.RunStarted, Wall: float64(time.Now().UnixNano()) / 1e9})
	s.restart()
	strikes := 6
	if testneeds.IsLongRun() && !losesWorkDir {
		strikes = 150
	}
	for range strikes {
		for range 2 {
			s.submit()
		}
		s.strike()
	}
	s.await("the ends of all jobs", func() bool { return false })
	jobs, err := s.client.ListJobs(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range jobs {
		s.record(chaos.Event{Kind: chaos.JobState, Job: v.Spec.Name, State: string(v.State)})
		if v.State != job.Finished {
			t.Errorf("%s is %s: %s", v.Spec.Name, v.State, v.Tasks[0].Message)
		}
	}
	events := s.readHistory()
	for _, v := range chaos.Check(events, chaos.Limits{}) {
		t.Errorf("%s at %.2f: %s", v.Rule, v.At, v.Detail)
	}
	if t.Failed() {
		t.Log(s.cluster.mustRun("events"))
	}
	s.cluster.mustRun("run", "--gpus", "4", "--", "echo", "all four")
	s.cluster.stop()
	requireNothingLeft(t, work)
}

// formatHistory returns one line for each event.
func formatHistory(events []chaos.Event) string {
	var text strings.Builder
	for _, e := range events {
		fmt.Fprintf(&text, "%.2f %s %s %s %s %s%s\n", e.At, e.Kind, e.Job, e.Task, e.Devices, e.State, e.Detail)
	}
	return text.String()
}
