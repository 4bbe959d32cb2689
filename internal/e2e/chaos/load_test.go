//go:build mesos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// historyFile is the file to which the test and all tasks append.
type historyFile struct {
	path string
	file *os.File
}

func createHistory(t *testing.T, path string) *historyFile {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &historyFile{path, f}
}

// record appends an event with the current time.
func (h *historyFile) record(e Event) {
	e.At = uptime()
	line, err := json.Marshal(e)
	if err == nil {
		_, err = h.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err) // no check is possible without a history
	}
}

func (h *historyFile) read(t *testing.T) []Event {
	t.Helper()
	f, err := os.Open(h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := ReadHistory(f)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// uptime returns the time since the machine's start, in seconds, as tasks read it.
func uptime() float64 {
	text, err := os.ReadFile("/proc/uptime")
	var seconds float64
	if err == nil {
		_, err = fmt.Sscan(string(text), &seconds)
	}
	if err != nil {
		panic(err)
	}
	return seconds
}

// workload submits work to the schedulers, whichever leads.
type workload struct {
	t       *testing.T
	client  *client.Client
	history *historyFile
	random  *rand.Rand
	key     string // beginning of the idempotency keys

	mu       sync.Mutex
	replicas int // the accepted number of tasks of serviceName
	appTasks int // the accepted number of instances of the app
	bursts   int // jobs of submitBurst
}

const (
	serviceName = "service"
	appPath     = "/app"
	appJobs     = "app." // beginning of the names of the app's jobs
)

var scheduleNames = []string{"minutely-a", "minutely-b", "minutely-c"}

func newWorkload(t *testing.T, history *historyFile, random *rand.Rand) *workload {
	t.Helper()
	c, err := client.New(strings.Join(schedulerURLs(), ","), client.WithTimeouts(client.Timeouts{Connect: time.Second, Response: 5 * time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &workload{t: t, client: c, history: history, random: random, key: fmt.Sprintf("chaos-%x", random.Uint64()), replicas: 2}
}

// newSpec returns a job whose tasks record themselves for so many seconds.
func (w *workload) newSpec(name string, tasks, gpus, seconds int) job.Spec {
	return job.Spec{
		Name: name, Tasks: tasks, Request: gpu.Request{GPUs: gpus}, CPUs: 0.1, MemMiB: 32, Command: []string{"/bin/sh", "-c", RecordScript},
		Env: map[string]string{"HISTORY": w.history.path, "DURATION": fmt.Sprint(seconds)}, Retries: 20,
	}
}

// start submits the schedules, the service and the app.
func (w *workload) start(ctx context.Context) {
	for _, name := range scheduleNames {
		spec := w.newSpec(name, 1, 1, 2)
		spec.Schedule = &job.Schedule{Cron: "* * * * *", Overlap: job.AllowOverlap, History: job.MaxHistory}
		w.retry(ctx, "add schedule "+name, func() error {
			_, err := w.client.AddSchedule(ctx, spec)
			if client.CodeOf(err) == api.CodeScheduleExists {
				return nil // an earlier request was executed
			}
			return err
		})
		w.history.record(Event{Kind: ScheduleAccepted, Job: name})
	}
	w.history.record(Event{Kind: CountLimited, Job: serviceName, Tasks: w.replicas})
	service := w.newSpec(serviceName, w.replicas, 1, 1_000_000)
	service.Retries, service.Service = 0, &job.Service{}
	w.retry(ctx, "submit the service", func() error {
		_, err := w.client.SubmitJobWithKey(ctx, w.key+serviceName, service)
		return err
	})
	w.deploy(ctx, 0)
}

// run submits jobs, scales the service and changes the app until ctx ends. Then it waits until
// the result of each request is known, or requests ends.
func (w *workload) run(ctx, requests context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	scales := rand.New(rand.NewPCG(w.random.Uint64(), 1))
	running.Go(func() {
		for wait(ctx, 15*time.Second) {
			w.scale(requests, 1+scales.IntN(3))
		}
	})
	running.Go(func() {
		for version := 1; wait(ctx, 25*time.Second); version++ {
			w.deploy(requests, version)
		}
	})
	for n := 1; ; n++ {
		var spec job.Spec
		seconds := 2 + w.random.IntN(6)
		switch w.random.IntN(6) {
		case 0:
			spec = w.newSpec(fmt.Sprintf("gang-%d", n), 3, 1, seconds)
			spec.Gang = true
		case 1:
			spec = w.newSpec(fmt.Sprintf("array-%d", n), 4, n%2, seconds)
			spec.MaxParallel = 2
		default:
			spec = w.newSpec(fmt.Sprintf("single-%d", n), 1, 1, seconds)
		}
		running.Go(func() { w.submit(requests, spec) })
		if !wait(ctx, time.Duration(3000+w.random.IntN(3000))*time.Millisecond) {
			return
		}
	}
}

// retry repeats a request until it succeeds. A permanent refusal fails the test.
func (w *workload) retry(ctx context.Context, what string, request func() error) bool {
	for {
		err := request()
		if err == nil {
			return true
		}
		if !client.IsTemporary(err) {
			w.t.Errorf("%s: %v", what, err)
			return false
		}
		if !wait(ctx, 500*time.Millisecond) {
			w.t.Errorf("%s: not accepted until the end: %v", what, err)
			return false
		}
	}
}

func (w *workload) submit(ctx context.Context, spec job.Spec) {
	accepted := w.retry(ctx, "submit "+spec.Name, func() error {
		_, err := w.client.SubmitJobWithKey(ctx, w.key+spec.Name, spec)
		return err
	})
	if accepted {
		w.history.record(Event{Kind: JobAccepted, Job: spec.Name, Tasks: spec.Tasks, Gang: spec.Gang})
	}
}

func (w *workload) scale(ctx context.Context, tasks int) {
	w.mu.Lock()
	before := w.replicas
	w.mu.Unlock()
	// The request may be executed before its answer arrives.
	w.history.record(Event{Kind: CountLimited, Job: serviceName, Tasks: max(before, tasks)})
	if w.retry(ctx, "scale the service", func() error { return w.client.ScaleJob(ctx, serviceName, tasks) }) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.replicas = tasks
		w.history.record(Event{Kind: CountLimited, Job: serviceName, Tasks: tasks})
	}
}

// submitBurst submits a job of many tasks without GPUs, and returns once some of them are being
// launched, or ctx has ended.
func (w *workload) submitBurst(ctx context.Context, tasks int) {
	w.mu.Lock()
	w.bursts++
	spec := w.newSpec(fmt.Sprint("burst-", w.bursts), tasks, 0, 2)
	w.mu.Unlock()
	w.submit(ctx, spec)
	for wait(ctx, 20*time.Millisecond) {
		v, err := w.client.GetJob(ctx, spec.Name)
		if err == nil && (v.Terminal || slices.ContainsFunc(v.Tasks, func(t job.Task) bool { return t.State == job.Launching || t.State == job.Staging })) {
			return
		}
	}
}

// recordEnds records which tasks have ended by their jobs' records, until ctx ends.
func (w *workload) recordEnds(ctx context.Context) {
	var tracker EndTracker
	for wait(ctx, time.Second) {
		jobs, err := w.client.ListJobs(ctx)
		if err != nil {
			continue
		}
		for _, e := range tracker.FindEnds(jobs) {
			w.history.record(e)
		}
	}
}

// deploy puts a version of the Marathon app, and so starts a deployment.
func (w *workload) deploy(ctx context.Context, version int) {
	instances := 1 + version%2
	app, err := json.Marshal(map[string]any{
		"id": appPath, "cmd": RecordScript, "gpus": 1, "cpus": 0.1, "mem": 32, "instances": instances, "taskKillGracePeriodSeconds": 3,
		"env":            map[string]string{"HISTORY": w.history.path, "DURATION": "1000000", "VERSION": fmt.Sprint(version)},
		"backoffSeconds": 1, "maxLaunchDelaySeconds": 10, "upgradeStrategy": map[string]float64{"minimumHealthCapacity": 0.5, "maximumOverCapacity": 1},
	})
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	before := w.appTasks
	w.mu.Unlock()
	// The deployment may have twice as many instances.
	w.history.record(Event{Kind: CountLimited, Job: appJobs, Tasks: 2 * max(before, instances)})
	var answer struct{ DeploymentID string }
	if w.retry(ctx, "deploy the app", func() error {
		return callMarathon(ctx, http.MethodPut, "/apps"+appPath+"?force=true", string(app), &answer)
	}) {
		w.history.record(Event{Kind: DeploymentStarted, Job: answer.DeploymentID})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.appTasks = instances
	}
}

// callMarathon sends a request to the first scheduler that answers it. A standby forwards it to
// the leader.
func callMarathon(ctx context.Context, method, path, body string, into any) error {
	var last error
	for _, url := range schedulerURLs() {
		last = callScheduler(ctx, method, url+"/v2"+path, body, into)
		if last == nil || !client.IsTemporary(last) {
			return last
		}
	}
	return last
}

func callScheduler(ctx context.Context, method, url, body string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return &client.Problem{Status: resp.StatusCode, Detail: string(text)}
	}
	return json.Unmarshal(text, into)
}

// convergence is what has not reached its end.
type convergence struct {
	liveJobs, deployments []string
	serviceTasks, apps    int // running
}

// readConvergence returns the state of all work, and records the states of jobs if final is set.
func (w *workload) readConvergence(ctx context.Context, final bool) (c convergence, err error) {
	jobs, err := w.client.ListJobs(ctx)
	if err != nil {
		return c, err
	}
	for _, v := range jobs {
		running := 0
		for _, task := range v.Tasks {
			if task.State == job.Running {
				running++
			}
		}
		switch {
		case v.Spec.Name == serviceName:
			c.serviceTasks = running
		case strings.HasPrefix(v.Spec.Name, appJobs):
			c.apps += running
		default:
			if !v.Terminal {
				c.liveJobs = append(c.liveJobs, v.Spec.Name)
			}
			if final {
				w.history.record(Event{Kind: JobState, Job: v.Spec.Name, State: string(v.State)})
			}
		}
	}
	var deployments []struct{ ID string }
	err = callMarathon(ctx, http.MethodGet, "/deployments", "", &deployments)
	for _, d := range deployments {
		c.deployments = append(c.deployments, d.ID)
	}
	return c, err
}

// isComplete reports whether all jobs and deployments have ended and the services have converged.
func (w *workload) isComplete(c convergence) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(c.liveJobs)+len(c.deployments) == 0 && c.serviceTasks == w.replicas && c.apps == w.appTasks
}
