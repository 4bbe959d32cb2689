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

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// cluster is a scheduler's API with jobs that are made up. Kill ends a job.
type cluster struct {
	api.Backend // whose other methods nobody calls
	agents      []api.Agent
	gpus        []api.GPU
	schedules   []api.Schedule
	logs        map[string]string // what a task has written to stdout
	stubborn    bool              // jobs outlive that they are killed

	mu      sync.Mutex
	jobs    []*job.Job
	waits   map[string]string
	past    map[string][]job.Task
	changed chan struct{} // closed at each change
}

func newCluster(jobs ...*job.Job) *cluster { return &cluster{jobs: jobs, changed: make(chan struct{})} }

// madeUp is a job with a task for each state, submitted so long ago.
func madeUp(name string, age time.Duration, states ...job.State) *job.Job {
	j := &job.Job{Spec: job.Spec{Name: name, Role: "*", Tasks: len(states)}, Submitted: time.Now().Add(-age)}
	for i, s := range states {
		t := job.Task{ID: fmt.Sprintf("%s.%d.1.x", name, i), Job: name, Index: i, Attempt: 1, State: s, AgentID: "a", Started: j.Submitted, Changed: j.Submitted.Add(time.Duration(i) * time.Second)}
		if code := 0; s == job.Finished {
			t.ExitCode = &code
		}
		j.Tasks = append(j.Tasks, t)
	}
	return j
}

func (c *cluster) AsOf() time.Time { return time.Time{} }

func (c *cluster) find(name string) (*job.Job, error) {
	for _, j := range c.jobs {
		if j.Spec.Name == name {
			return j, nil
		}
	}
	return nil, api.Problemf(404, "there is no job %q", name)
}

func (c *cluster) view(j *job.Job) api.JobView {
	v := api.ViewOf(j.Clone(), c.waits[j.Spec.Name])
	v.Attempts = c.past[j.Spec.Name]
	return v
}

func (c *cluster) Job(_ context.Context, name string) (v api.JobView, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, err := c.find(name)
	if err != nil {
		return v, err
	}
	return c.view(j), nil
}

func (c *cluster) Jobs(_ context.Context, q api.JobQuery) (list api.JobList, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		if q.State == "" || (q.State == api.LiveJobs) == !j.Terminal() {
			list.Jobs = append(list.Jobs, c.view(j))
		}
	}
	return list, nil
}

// change sets a task's state and tells those who listen.
func (c *cluster) change(name string, index int, s job.State, exit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j, err := c.find(name)
	if err != nil {
		panic(err)
	}
	t := &j.Tasks[index]
	t.State, t.Changed = s, time.Now()
	if !s.Live() {
		t.ExitCode = &exit
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// Submit takes a job whose tasks run at once.
func (c *cluster) Submit(_ context.Context, spec job.Spec) (api.JobView, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := madeUp(spec.Name, 0, job.Running)
	c.jobs = append(c.jobs, j)
	return c.view(j), nil
}

func (c *cluster) Kill(ctx context.Context, name string, force bool) error {
	v, err := c.Job(ctx, name)
	if c.stubborn && !force {
		return err
	}
	for i := range v.Tasks {
		c.change(name, i, job.Killed, 143)
	}
	return err
}

func (c *cluster) Task(_ context.Context, id string) (job.Task, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		for _, t := range slices.Concat(j.Tasks, c.past[j.Spec.Name]) {
			if t.ID == id {
				return t, nil
			}
		}
	}
	return job.Task{}, api.Problemf(404, "there is no task %q", id)
}

func (c *cluster) ReadLog(_ context.Context, t job.Task, file string, offset, length uint64) ([]byte, uint64, error) {
	text, ok := c.logs[t.ID]
	if !ok || file != "stdout" {
		return nil, 0, api.ErrNoLog
	}
	from := min(offset, uint64(len(text)))
	return []byte(text[from:min(from+length, uint64(len(text)))]), uint64(len(text)), nil
}

func (c *cluster) Schedules(context.Context) ([]api.Schedule, error) { return c.schedules, nil }

func (c *cluster) Schedule(_ context.Context, name string) (api.Schedule, error) {
	for _, s := range c.schedules {
		if s.Spec.Name == name {
			return s, nil
		}
	}
	return api.Schedule{}, api.Problemf(404, "there is no schedule %q", name)
}

func (c *cluster) EndSchedule(ctx context.Context, name string) error {
	_, err := c.Schedule(ctx, name)
	return err
}

func (c *cluster) Agents(context.Context) ([]api.Agent, error) { return c.agents, nil }
func (c *cluster) GPUs(context.Context) ([]api.GPU, error)     { return c.gpus, nil }

// Events tells all states again at each change, which clients do not mind.
func (c *cluster) Events(ctx context.Context, q api.EventQuery) ([]api.Event, <-chan api.Event, error) {
	name := q.Job
	if _, err := c.find(name); name != "" && err != nil {
		return nil, nil, err
	}
	changes := make(chan api.Event)
	now, changed := c.states(name)
	go func() {
		defer close(changes)
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			var events []api.Event
			events, changed = c.states(name)
			for _, ev := range events {
				select {
				case changes <- ev:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return now, changes, nil
}

func (c *cluster) states(name string) (events []api.Event, changed chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.jobs {
		for _, t := range j.Tasks {
			if name == "" || name == t.Job {
				events = append(events, api.Event{Time: t.Changed, Job: t.Job, Task: t.ID, State: t.State, Message: t.Message})
			}
		}
	}
	return events, c.changed
}

// serve gives the cluster an address, for the environment of commands.
func (c *cluster) serve(t *testing.T) string { return serveBackend(t, c) }

func serveBackend(t *testing.T, b api.Backend) string {
	log := logrus.New()
	log.SetOutput(io.Discard)
	s := httptest.NewServer(api.Handler(func() api.Backend { return b }, log))
	t.Cleanup(s.Close)
	return s.URL
}

// ran is what a command line has printed, and its exit status.
type ran struct {
	out, err string
	status   int
}

// command runs a command line on the cluster.
func (c *cluster) command(t *testing.T, line string) ran {
	t.Helper()
	return commandAt(t, c.serve(t), strings.Fields(line)...)
}

func commandAt(t *testing.T, address string, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	status := run(t.Context(), args, std{strings.NewReader(""), &out, &errs, func(name string) string {
		return map[string]string{"MESOS_GPU_API": address}[name]
	}})
	return ran{out.String(), errs.String(), status}
}

// wants compares what a command printed with what it should: where err is
// empty, nothing may stand there.
func (r ran) wants(t *testing.T, out, err string, status int) {
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
