package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/testing/backendtest"
	"mesos-gpu/job"
)

// fakeCluster is a scheduler's API with fake jobs. KillJob ends a job immediately.
type fakeCluster struct {
	backendtest.Reads // the test calls only the methods below
	backendtest.Commands
	agents    []api.AgentSummary
	gpus      []api.GPUView
	schedules []api.ScheduleView
	logs      map[string]string // stdout by task
	errors    map[string]string // stderr by task
	reruns    []request.RerunQuery
	// accounting is that of each job.
	accounting api.JobAccounting
	stubborn   bool // whether jobs survive KillJob without force
	// warnings are those of the answers to submissions.
	warnings []string

	mu      sync.Mutex
	jobs    []*job.Job
	waits   map[string]string
	past    map[string][]job.Task
	changed chan struct{} // closed and replaced at each change
}

func newFakeCluster(jobs ...*job.Job) *fakeCluster {
	return &fakeCluster{jobs: jobs, changed: make(chan struct{})}
}

// fakeJob returns a job of this age with one task for each state.
func fakeJob(name string, age time.Duration, states ...job.State) *job.Job {
	j := &job.Job{Spec: &job.Spec{Name: name, Role: "*", Tasks: len(states)}, Submitted: time.Now().Add(-age)}
	for i, s := range states {
		t := job.Task{
			ID:      fmt.Sprintf("%s.%d.1.x", name, i),
			Job:     name,
			Index:   i,
			Attempt: 1,
			State:   s,
			AgentID: "a",
			Started: j.Submitted,
			Changed: j.Submitted.Add(time.Duration(i) * time.Second),
		}
		if code := 0; s == job.Finished {
			t.ExitCode = &code
		}
		j.Tasks = append(j.Tasks, t)
	}
	return j
}

// AccountJob returns the same sums for each job.
func (c *fakeCluster) AccountJob(context.Context, string, time.Duration) (api.JobAccounting, error) {
	return c.accounting, nil
}

func (c *fakeCluster) AsOf() time.Time { return time.Time{} }

func (c *fakeCluster) findJob(name string) (*job.Job, error) {
	for _, j := range slices.Backward(c.jobs) {
		if j.Spec.Name == name || j.RunID().String() == name {
			return j, nil
		}
	}
	return nil, api.UnknownJob(name)
}

func (c *fakeCluster) viewOf(j *job.Job) api.JobView {
	v := api.NewJobView(j.Clone(), c.waits[j.Spec.Name])
	v.Attempts = c.past[j.Spec.Name]
	return v
}

func (c *fakeCluster) GetJob(_ context.Context, name string) (v api.JobView, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, err := c.findJob(name)
	if err != nil {
		return v, err
	}
	return c.viewOf(j), nil
}

func (c *fakeCluster) ListJobs(_ context.Context, q request.JobQuery) (list api.JobList, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.findJob(q.RunsOf); q.RunsOf != "" && err != nil {
		return list, err
	}
	for _, j := range c.jobs {
		if newest, _ := c.findJob(j.Spec.Name); q.RunsOf == "" && newest != j || q.RunsOf != "" && q.RunsOf != j.Spec.Name {
			continue
		}
		if q.MatchesSpec(j.Spec) && q.MatchesState(j.State(), !j.IsTerminal()) {
			list.Jobs = append(list.Jobs, c.viewOf(j))
		}
	}
	if q.NewestFirst {
		slices.Reverse(list.Jobs)
	}
	return list, nil
}

// awaitJob waits until a job is submitted.
func (c *fakeCluster) awaitJob(name string) {
	for {
		c.mu.Lock()
		_, err := c.findJob(name)
		changed := c.changed
		c.mu.Unlock()
		if err == nil {
			return
		}
		<-changed
	}
}

// changeTask sets a task's state and notifies the event streams.
func (c *fakeCluster) changeTask(name string, index int, s job.State, exit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, err := c.findJob(name)
	if err != nil {
		panic(err)
	}
	t := &j.Tasks[index]
	t.State, t.Changed = s, time.Now()
	if !s.IsLive() {
		t.ExitCode = &exit
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// SubmitJob adds a job whose tasks run immediately.
func (c *fakeCluster) SubmitJob(_ context.Context, _ *access.Grant, spec job.Spec) (api.JobView, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := fakeJob(spec.Name, 0, slices.Repeat([]job.State{job.Running}, max(spec.Tasks, 1))...)
	j.Spec, j.Run = new(spec), 1
	if old, err := c.findJob(spec.Name); err == nil {
		j.Run = old.RunID().Run + 1
	}
	c.jobs = append(c.jobs, j)
	close(c.changed)
	c.changed = make(chan struct{})
	v := c.viewOf(j)
	v.Warnings = c.warnings
	return v, "", nil
}

// UpdateJob changes the specification of a job at once.
func (c *fakeCluster) UpdateJob(ctx context.Context, _ request.Change, _ string, spec job.Spec) (v api.JobView, err error) {
	c.mu.Lock()
	j, err := c.findJob(spec.Name)
	if err == nil {
		j.Spec = new(spec)
		j.Version++
	}
	c.mu.Unlock()
	if err != nil {
		return v, err
	}
	return c.GetJob(ctx, spec.Name)
}

// RerunJob adds a run whose tasks run immediately.
func (c *fakeCluster) RerunJob(ctx context.Context, _ *access.Grant, name string, q request.RerunQuery) (v api.JobView, err error) {
	old, err := c.GetJob(ctx, name)
	if err != nil {
		return v, err
	}
	c.reruns = append(c.reruns, q)
	v, _, err = c.SubmitJob(ctx, nil, old.SubmittableSpec())
	return v, err
}

func (c *fakeCluster) KillJob(ctx context.Context, _ request.Change, name string, force bool) error {
	v, err := c.GetJob(ctx, name)
	if c.stubborn && !force {
		return err
	}
	for i := range v.Tasks {
		c.changeTask(name, i, job.Killed, 143)
	}
	return err
}

func (c *fakeCluster) GetTask(_ context.Context, id string) (job.Task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		for _, t := range slices.Concat(j.Tasks, c.past[j.Spec.Name]) {
			if t.ID == id {
				return t, nil
			}
		}
	}
	return job.Task{}, api.UnknownTask(id)
}

func (c *fakeCluster) ReadTaskLog(_ context.Context, t job.Task, file string, offset, length uint64) ([]byte, uint64, error) {
	c.mu.Lock()
	text, ok := map[string]map[string]string{"stdout": c.logs, "stderr": c.errors}[file][t.ID]
	c.mu.Unlock()
	if !ok {
		return nil, 0, request.ErrNoLog
	}
	from := min(offset, uint64(len(text)))
	return []byte(text[from:min(from+length, uint64(len(text)))]), uint64(len(text)), nil
}

func (c *fakeCluster) ListSchedules(context.Context) ([]api.ScheduleView, error) {
	return c.schedules, nil
}

func (c *fakeCluster) GetSchedule(_ context.Context, _ *access.Grant, name string) (api.ScheduleView, error) {
	for _, s := range c.schedules {
		if s.Spec.Name == name {
			return s, nil
		}
	}
	return api.ScheduleView{}, api.UnknownSchedule(name)
}

func (c *fakeCluster) AddSchedule(_ context.Context, _ *access.Grant, spec job.Spec) (api.ScheduleView, string, error) {
	if spec.Schedule.Cron == "0 0 * * *" {
		return api.ScheduleView{}, "", api.NewProblemf(422, "not at midnight")
	}
	c.schedules = append(c.schedules, api.ScheduleView{Spec: spec})
	return c.schedules[len(c.schedules)-1], "", nil
}

func (c *fakeCluster) EndSchedule(ctx context.Context, _ request.Change, name string) error {
	_, err := c.GetSchedule(ctx, nil, name)
	c.schedules = slices.DeleteFunc(c.schedules, func(s api.ScheduleView) bool { return s.Spec.Name == name })
	return err
}

func (c *fakeCluster) ListAgents(context.Context, bool) ([]api.AgentSummary, error) {
	return c.agents, nil
}
func (c *fakeCluster) ListGPUs(context.Context, bool) ([]api.GPUView, error) { return c.gpus, nil }

func (c *fakeCluster) ListTasks(context.Context, string, time.Time, int, int) ([]job.Task, error) {
	return nil, nil // GetJob omits none
}

// WatchEvents repeats all states at each change; clients ignore duplicates.
func (c *fakeCluster) WatchEvents(ctx context.Context, q request.EventQuery) (<-chan request.EventBatch, error) {
	name := q.Job
	if _, err := c.findJob(name); name != "" && err != nil {
		return nil, err
	}
	batches := make(chan request.EventBatch)
	go func() {
		defer close(batches)
		for {
			events, changed := c.states(name)
			select {
			case batches <- request.EventBatch{Events: events}:
			case <-ctx.Done():
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return batches, nil
}

// KnowsEvent has the stream itself begin with the states.
func (*fakeCluster) KnowsEvent(string) bool { return true }

func (c *fakeCluster) states(name string) (events []api.TaskEvent, changed chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		for _, t := range j.Tasks {
			if name == "" || name == t.Job {
				events = append(events, api.TaskEvent{Time: t.Changed, Job: t.Job, Task: t.ID, State: t.State, Message: t.Message})
			}
		}
	}
	return events, c.changed
}

// serve starts a server for the cluster and returns its URL.
func (c *fakeCluster) serve(t *testing.T) string { return serveBackend(t, c) }

// newServer returns a server for the cluster, which the caller starts.
func (c *fakeCluster) newServer(t *testing.T) *httptest.Server {
	log := logrus.New()
	log.SetOutput(io.Discard)
	s := httptest.NewUnstartedServer(apiserver.NewHandler(func() apiserver.Backend { return backendtest.NewLeader(c) }, log))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func serveBackend(t *testing.T, b interface {
	backendtest.Reads
	backendtest.Commands
}) string {
	log := logrus.New()
	log.SetOutput(io.Discard)
	s := httptest.NewServer(apiserver.NewHandler(func() apiserver.Backend { return backendtest.NewLeader(b) }, log))
	t.Cleanup(s.Close)
	return s.URL
}

// commandRun is the output and the exit status of a command line.
type commandRun struct {
	out, err string
	status   int
}

// command runs a command line against the cluster.
func (c *fakeCluster) command(t *testing.T, line string) commandRun {
	t.Helper()
	return commandAt(t, c.serve(t), strings.Fields(line)...)
}

// commandWithInput is command with standard input.
func (c *fakeCluster) commandWithInput(t *testing.T, line, input string) commandRun {
	t.Helper()
	return commandWith(t, c.serve(t), input, strings.Fields(line)...)
}

func commandAt(t *testing.T, address string, args ...string) commandRun {
	t.Helper()
	return commandWith(t, address, "", args...)
}

func commandWith(t *testing.T, address, input string, args ...string) commandRun {
	t.Helper()
	return commandIn(t, map[string]string{"MESOS_GPU_API": address}, input, args...)
}

// commandIn runs a command line with these environment variables.
func commandIn(t *testing.T, environment map[string]string, input string, args ...string) commandRun {
	t.Helper()
	var out, errs bytes.Buffer
	status := runCommandLine(t.Context(), args, cli.ProcessIO{Stdin: strings.NewReader(input), Stdout: &out, Stderr: &errs, Getenv: func(name string) string {
		return environment[name]
	}})
	return commandRun{out.String(), errs.String(), status}
}

// expect compares the output and the status. If err is empty, standard error must be empty.
func (r commandRun) expect(t *testing.T, out, err string, status int) {
	t.Helper()
	if r.out != out {
		t.Errorf("printed:\n%s\nwant:\n%s", r.out, out)
	}
	if !strings.Contains(r.err, err) || err == "" && r.err != "" {
		t.Errorf("standard error is %q, want %q", r.err, cmp.Or(err, "nothing"))
	}
	if r.status != status {
		t.Errorf("the status is %d, want %d", r.status, status)
	}
}
