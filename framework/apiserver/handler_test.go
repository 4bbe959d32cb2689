package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// fakeBackend is a Backend with one job, "train", and the data that a test sets.
type fakeBackend struct {
	allCommands // nil: methods that no test calls
	submitted   job.Spec
	killed      string
	forced      bool
	err         error
	task        job.Task
	readLog     func(offset uint64) ([]byte, error) // reads stdout, the only file
	changes     chan api.TaskEvent
	ended       []api.TaskEvent
	query       api.JobQuery
	stream      request.EventQuery
	// statesRead counts the calls of ReadStates, which readStates answers unless it is nil.
	statesRead atomic.Int32
	readStates func(request.EventQuery, func(*request.EventBatch) error) (string, error)
	next       string
	asOf       time.Time
	did        string
	demand     []api.UnmetDemand
	whose      map[string][2]string // role and owner by job
	jobs       []api.JobView
	gpus       []api.GPUView
	now        []api.TaskEvent
	state      job.State // state of train's task; "" is Waiting
	exec       func(context.Context, api.ExecRequest, api.Terminal) (int, error)
}

func (f *fakeBackend) view() api.JobView {
	j := &job.Job{Spec: &job.Spec{Name: "train"}, Tasks: []job.Task{{ID: "train.0", Job: "train", State: cmp.Or(f.state, job.Waiting)}}}
	return api.NewJobView(j, "lacks a GPU")
}

func (f *fakeBackend) SubmitJob(_ context.Context, _ *access.Grant, s job.Spec) (api.JobView, string, error) {
	f.submitted = s
	return f.view(), s.Role, f.err
}
func (f *fakeBackend) ValidateJob(_ context.Context, _ *access.Grant, s job.Spec) (api.ValidatedJob, error) {
	return api.ValidatedJob{Spec: s}, f.err
}
func (f *fakeBackend) ValidateUpdate(ctx context.Context, _ request.Change, _ string, s job.Spec) (api.ValidatedJob, error) {
	return f.ValidateJob(ctx, nil, s)
}
func (f *fakeBackend) RerunJob(_ context.Context, by *access.Grant, name string, q request.RerunQuery) (api.JobView, error) {
	f.did = fmt.Sprintf("rerun %s failed=%t for %q by %+v", name, q.Failed, by.UserName(), q.ClientKey)
	return f.view(), f.err
}
func (f *fakeBackend) EditJob(_ context.Context, _ request.Change, name string, edit func(*job.Spec) error) (api.JobView, error) {
	v := f.view()
	if err := edit(v.Spec); err != nil {
		return v, err
	}
	f.did = fmt.Sprintf("edit %s: priority %d, timeout %s", name, v.Spec.Priority, v.Spec.Timeout)
	return v, f.err
}
func (f *fakeBackend) UpdateJob(_ context.Context, _ request.Change, _ string, s job.Spec) (api.JobView, error) {
	f.submitted = s
	return f.view(), f.err
}
func (f *fakeBackend) ListJobs(_ context.Context, q request.JobQuery) (api.JobList, error) {
	f.query = q.JobQuery
	seen := slices.DeleteFunc(slices.Clone(f.jobs), func(v api.JobView) bool { return !q.Grant.HasPermission(access.View, v.Spec.Role) })
	return api.JobList{Jobs: seen, Next: f.next}, f.err
}
func (f *fakeBackend) FindWorkdir(_ context.Context, _ *access.Grant, digest string) (api.StoredWorkdir, error) {
	return api.StoredWorkdir{Workdir: digest}, f.err
}
func (f *fakeBackend) StoreWorkdir(_ context.Context, _ *access.Grant, digest string, archive io.Reader) (api.StoredWorkdir, bool, error) {
	n, err := io.Copy(io.Discard, archive)
	return api.StoredWorkdir{Workdir: digest, Bytes: n}, true, cmp.Or(f.err, err)
}
func (f *fakeBackend) OpenWorkdir(_ context.Context, _ job.RunID, token string) (*os.File, error) {
	if token != "token" {
		return nil, request.UnknownArchive()
	}
	return os.Open(os.DevNull)
}
func (f *fakeBackend) ListArtifacts(context.Context, string) (api.ArtifactList, error) {
	return api.ArtifactList{}, f.err
}
func (f *fakeBackend) FindSandbox(context.Context, job.Task) (request.TaskSandbox, error) {
	return fakeSandbox{"model": "weights", "d/x": "1"}, f.err
}

// fakeSandbox has the contents of files by path.
type fakeSandbox map[string]string

func (s fakeSandbox) ListFiles(_ context.Context, folder string) (list []api.SandboxFile, err error) {
	found := folder == "."
	for _, name := range slices.Sorted(maps.Keys(s)) {
		rest, below := name, folder == "."
		if !below {
			rest, below = strings.CutPrefix(name, folder+"/")
		}
		found = found || below || name == folder
		if first, _, deep := strings.Cut(rest, "/"); below && !slices.ContainsFunc(list, func(f api.SandboxFile) bool { return f.Name == first }) {
			list = append(list, api.SandboxFile{Name: first, Folder: deep, Bytes: int64(len(s[name])), Mode: "644", Modified: time.Unix(1, 0).UTC()})
		}
	}
	if !found {
		return nil, request.ErrNoFile
	}
	return list, nil
}
func (s fakeSandbox) ReadFile(_ context.Context, name string, offset, length uint64) ([]byte, uint64, error) {
	text, ok := s[name]
	if !ok {
		return nil, 0, request.ErrNoFile
	}
	offset = min(offset, uint64(len(text)))
	return []byte(text[offset:min(offset+min(length, 3), uint64(len(text)))]), uint64(len(text)), nil
}
func (f *fakeBackend) AsOf() time.Time                                     { return f.asOf }
func (f *fakeBackend) GetJob(context.Context, string) (api.JobView, error) { return f.view(), f.err }
func (f *fakeBackend) KillJob(_ context.Context, _ request.Change, name string, force bool) error {
	f.killed, f.forced = name, force
	return f.err
}

func (f *fakeBackend) ScaleJob(_ context.Context, _ request.Change, name string, tasks int) error {
	f.did = fmt.Sprintf("scale %s to %d", name, tasks)
	return f.err
}
func (f *fakeBackend) StopTask(_ context.Context, _ *access.Grant, task string, retire bool) error {
	f.did = fmt.Sprintf("stop %s, retire %t", task, retire)
	return f.err
}
func (f *fakeBackend) GetTask(context.Context, string) (job.Task, error) { return f.task, f.err }
func (f *fakeBackend) ListAgents(context.Context, bool) ([]api.AgentSummary, error) {
	return nil, f.err
}
func (f *fakeBackend) GetAgent(_ context.Context, id string) (api.AgentDetail, error) {
	return api.AgentDetail{AgentSummary: api.AgentSummary{ID: id}, Devices: []gpu.Device{{UUID: "GPU-1", NUMA: 1}}}, f.err
}
func (f *fakeBackend) OwnerOf(_ context.Context, name, _ string) (role, owner string, err error) {
	if w, ok := f.whose[name]; ok {
		return w[0], w[1], nil
	}
	return "", "", api.UnknownJob(name)
}
func (f *fakeBackend) ListGPUs(context.Context, bool) ([]api.GPUView, error) {
	return slices.Clone(f.gpus), f.err
}
func (f *fakeBackend) TrackConnection(string) func() { return func() {} }

func (f *fakeBackend) Exec(ctx context.Context, name string, task int, r api.ExecRequest, t api.Terminal) (int, error) {
	if f.exec == nil {
		return 0, f.err
	}
	return f.exec(ctx, r, t)
}
func (f *fakeBackend) GetHealth(context.Context) (api.HealthStatus, error) {
	return api.HealthStatus{Connected: true}, f.err
}
func (f *fakeBackend) CheckReady(context.Context) error { return f.err }
func (f *fakeBackend) MetricsSnapshot(context.Context) (s metrics.Snapshot, err error) {
	v := f.view()
	s.CountJob(&v.Job, false)
	return s, f.err
}
func (f *fakeBackend) ReadTaskLog(_ context.Context, _ job.Task, file string, offset, _ uint64) ([]byte, uint64, error) {
	if file != "stdout" {
		return nil, 0, request.ErrNoLog
	}
	data, err := f.readLog(offset)
	return data, offset + uint64(len(data)), err
}
func (f *fakeBackend) ListTasks(context.Context, string, time.Time, int, int) ([]job.Task, error) {
	return nil, f.err
}
func (f *fakeBackend) WatchEvents(ctx context.Context, q request.EventQuery) (<-chan request.EventBatch, error) {
	f.stream = q
	batches := make(chan request.EventBatch)
	go func() {
		defer close(batches)
		next := request.EventBatch{}
		if !f.KnowsEvent(q.After) {
			next = f.presentStates(q)
		}
		for {
			select {
			case batches <- next:
			case <-ctx.Done():
				return
			}
			select {
			case ev, ok := <-f.changes:
				if !ok {
					return
				}
				next = request.EventBatch{Events: []api.TaskEvent{ev}}
			case <-ctx.Done():
				return
			}
		}
	}()
	return batches, f.err
}

// presentStates returns the states of all tasks in one batch.
func (f *fakeBackend) presentStates(q request.EventQuery) request.EventBatch {
	b := request.EventBatch{Events: f.now}
	if b.Events == nil && !q.LiveOnly {
		b.Events = append([]api.TaskEvent{{Job: "train", Task: "train.0", State: job.Waiting}}, f.ended...)
	}
	if n := len(b.Events); n > 0 {
		b.Position = b.Events[n-1].ID
	}
	return b
}

func (f *fakeBackend) KnowsEvent(id string) bool { return id == afterStates }

// afterStates is the ID of the event after which a stream of fakeBackend continues.
const afterStates = "e-states"

func (f *fakeBackend) ReadStates(q request.EventQuery, visit func(*request.EventBatch) error) (position string, err error) {
	f.statesRead.Add(1)
	if f.readStates != nil {
		return f.readStates(q, visit)
	}
	b := f.presentStates(q)
	return afterStates, visit(&b)
}

func discardLogger() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func serveBackend(t *testing.T, f *fakeBackend) *httptest.Server {
	s := httptest.NewServer(NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger()))
	t.Cleanup(s.Close)
	return s
}

// sendRequest sends a request and returns status, content type and body.
func sendRequest(t *testing.T, method, url, body string, header ...string) (int, string, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), string(text)
}

func TestRequests(t *testing.T) {
	const good = `{"name":"train","command":["true"],"request":{"gpus":1}}`
	tests := map[string]struct {
		method, path, body string
		err                error
		header             []string
		status             int
		contains           string
	}{
		"submit":                {method: "POST", path: "/v1/jobs", body: good, status: 201, contains: `"waits":"lacks a GPU"`},
		"submit, no type given": {method: "POST", path: "/v1/jobs", body: good, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 201},
		"unknown key":           {method: "POST", path: "/v1/jobs", body: `{"name":"train","gpuz":1}`, status: 400, contains: `unknown field \"gpuz\"`},
		"no JSON":               {method: "POST", path: "/v1/jobs", body: "name: train", status: 400, contains: "parse body"},
		"two values":            {method: "POST", path: "/v1/jobs", body: good + good, status: 400, contains: "more follows"},
		"too large":             {method: "POST", path: "/v1/jobs", body: `{"name":"` + strings.Repeat("x", maxBody) + `"}`, status: 413, contains: "1048576 bytes"},
		"invalid":               {method: "POST", path: "/v1/jobs", body: `{"name":"a b"}`, status: 422, contains: "use 1 to 63 letters"},
		"taken":                 {method: "POST", path: "/v1/jobs", body: good, err: api.NewProblemf(409, "taken"), status: 409, contains: `"detail":"taken"`},
		"broken":                {method: "GET", path: "/v1/jobs", err: errors.New("disk"), status: 500, contains: "disk"},
		"jobs":                  {method: "GET", path: "/v1/jobs", status: 200, contains: `{"jobs":[]}`},
		"job":                   {method: "GET", path: "/v1/jobs/train", status: 200, contains: `"state":"WAITING"`},
		"kill":                  {method: "DELETE", path: "/v1/jobs/train", status: 202},
		"kill, how?":            {method: "DELETE", path: "/v1/jobs/train?force=hard", status: 400, contains: `force \"hard\" is neither true nor false`},
		"scale":                 {method: "POST", path: "/v1/jobs/train/scale", body: `{"tasks":0}`, status: 202},
		"rerun":                 {method: "POST", path: "/v1/jobs/train@2/rerun", body: `{"failed":true}`, status: 201, contains: `"train.0"`},
		"rerun, unknown key":    {method: "POST", path: "/v1/jobs/train/rerun", body: `{"fail":true}`, status: 400, contains: "fail"},
		"rerun, refused":        {method: "POST", path: "/v1/jobs/train/rerun", body: `{}`, err: api.NewProblemf(409, "it runs"), status: 409, contains: "it runs"},
		"update": {method: "PUT", path: "/v1/jobs/train",
			body: `{"name":"train","command":["true"],"service":{}}`, status: 200, contains: `"train.0"`},
		"update, other name": {method: "PUT", path: "/v1/jobs/train", body: `{"name":"other","command":["true"],"service":{}}`, status: 422, contains: "is not"},
		"update, refused": {method: "PUT", path: "/v1/jobs/train", body: `{"name":"train","command":["true"]}`,
			err: api.NewProblemf(422, "no service"), status: 422, contains: "no service"},
		"scale, to nothing": {method: "POST", path: "/v1/jobs/train/scale", body: `{}`, status: 422, contains: "a number is required"},
		"scale, refused": {method: "POST", path: "/v1/jobs/train/scale", body: `{"tasks":2}`,
			err: api.NewProblemf(422, "no service"), status: 422, contains: "no service"},
		"stop":                 {method: "POST", path: "/v1/tasks/train.0/stop", body: `{"retire":true}`, status: 202},
		"stop, misspelt":       {method: "POST", path: "/v1/tasks/train.0/stop", body: `{"retired":true}`, status: 400, contains: "unknown field"},
		"agents":               {method: "GET", path: "/v1/agents", status: 200, contains: `{"agents":[]}`},
		"agent":                {method: "GET", path: "/v1/agents/S1", status: 200, contains: `"devices":[{"uuid":"GPU-1"`},
		"agent, unknown":       {method: "GET", path: "/v1/agents/S1", err: api.NewProblemf(404, "no agent"), status: 404, contains: "no agent"},
		"jobs, bound to a tag": {method: "GET", path: "/v1/jobs", header: []string{"If-Match", `"x"`}, status: 400, contains: "GET /v1/jobs takes no If-Match"},
		"job, bound to a tag":  {method: "GET", path: "/v1/jobs/train", header: []string{"If-Match", "*"}, status: 400, contains: "takes no If-Match"},
		"gpus":                 {method: "GET", path: "/v1/gpus", status: 200, contains: `{"gpus":[]}`},
		"health":               {method: "GET", path: "/healthz", status: 200, contains: `"connected":true`},
		"metrics":              {method: "GET", path: "/metrics", status: 200, contains: `mesos_gpu_scheduler_jobs{state="WAITING"} 1`},
		"metrics, as Marathon": {method: "GET", path: "/metrics/prometheus", status: 200, contains: `mesos_gpu_scheduler_jobs{state="WAITING"} 1`},
		"metrics, not yet":     {method: "GET", path: "/metrics", err: api.NewUnavailable("starting"), status: 503, contains: "starting"},
		"wrong method":         {method: "PUT", path: "/v1/jobs", status: 405, contains: "GET or POST"},
		"nothing there":        {method: "GET", path: "/v2/jobs", status: 404, contains: "/v2/jobs"},
		"another site's page": {method: "POST", path: "/v1/jobs", body: good, header: []string{"Sec-Fetch-Site", "cross-site"},
			status: 403, contains: "another site"},
		"bad stream":      {method: "GET", path: "/v1/tasks/t/log?stream=x", status: 400, contains: "neither stdout nor stderr"},
		"bad tail":        {method: "GET", path: "/v1/tasks/t/log?tail=-1", status: 400, contains: "not a number of bytes"},
		"tail and offset": {method: "GET", path: "/v1/tasks/t/log?tail=1&offset=1", status: 400, contains: "an offset too"},
		"bad order":       {method: "GET", path: "/v1/jobs?order=best", status: 400, contains: "oldest first"},
		"bad offset":      {method: "GET", path: "/v1/tasks/t/log?offset=-1", status: 400, contains: "not a number of bytes"},
		"bad follow":      {method: "GET", path: "/v1/tasks/t/log?follow=maybe", status: 400, contains: "neither true nor false"},
		"no task":         {method: "GET", path: "/v1/tasks/t/log", err: api.NewProblemf(404, "no task"), status: 404, contains: "no task"},
		"bad limit":       {method: "GET", path: "/v1/jobs?limit=0", status: 400, contains: "not a number from 1 to 10000: leave it out for all"},
		"bad state": {method: "GET", path: "/v1/jobs?state=RUNNING,dead", status: 400,
			contains: `state \"dead\" is neither live, ended nor a state of jobs such as RUNNING`},
		"bad name":  {method: "GET", path: "/v1/jobs?name=[a", status: 400, contains: "a bracket is not closed"},
		"no events": {method: "GET", path: "/v1/events?job=x", err: api.NewProblemf(404, "no job"), status: 404, contains: "no job"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &fakeBackend{err: tt.err}
			status, kind, body := sendRequest(t, tt.method, serveBackend(t, f).URL+tt.path, tt.body, tt.header...)
			if status != tt.status || !strings.Contains(body, tt.contains) {
				t.Errorf("got %d %s, want %d with %s", status, body, tt.status, tt.contains)
			}
			if status < 400 {
				return
			}
			var p api.Problem
			if err := json.Unmarshal([]byte(body), &p); err != nil || kind != apihttp.ProblemMediaType || p.Status != status || p.Title == "" {
				t.Errorf("%s is no problem: %s, %v", kind, body, err)
			}
		})
	}
}

func TestSubmitAppliesDefaults(t *testing.T) {
	f := &fakeBackend{}
	sendRequest(t, "POST", serveBackend(t, f).URL+"/v1/jobs", `{"name":"train","image":"debian:12"}`)
	if f.submitted.Tasks != 1 || f.submitted.Containerizer != job.Docker || f.submitted.CPUs != job.DefaultCPUs {
		t.Errorf("submitted %+v", f.submitted)
	}
}

func TestEventStream(t *testing.T) {
	f := &fakeBackend{changes: make(chan api.TaskEvent, 1)}
	f.changes <- api.TaskEvent{Job: "train", Task: "train.0", State: job.Running}
	close(f.changes)
	status, kind, body := sendRequest(t, "GET", serveBackend(t, f).URL+"/v1/events?job=train", "")
	if status != 200 || kind != "text/event-stream" {
		t.Errorf("got %d %s", status, kind)
	}
	var states []string
	for chunk := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		text, ok := strings.CutPrefix(chunk, "data: ")
		var ev api.TaskEvent
		if err := json.Unmarshal([]byte(text), &ev); !ok || err != nil {
			t.Fatalf("no event: %q, %v", chunk, err)
		}
		states = append(states, string(ev.State))
	}
	if diff := gocmp.Diff([]string{"WAITING", "RUNNING"}, states); diff != "" {
		t.Error(diff)
	}
}

func TestLogIsReadToItsEnd(t *testing.T) {
	text := strings.Repeat("line\n", 100)
	f := &fakeBackend{task: job.Task{ID: "t", AgentID: "a", State: job.Finished}}
	f.readLog = func(offset uint64) ([]byte, error) { return []byte(text[offset:]), nil }
	res, err := http.Get(serveBackend(t, f).URL + "/v1/tasks/t/log?follow=true&offset=5")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || string(got) != text[5:] {
		t.Errorf("read %d bytes of %d, %v", len(got), len(text)-5, err)
	}
	if next := res.Trailer.Get(api.NextOffset); next != fmt.Sprint(len(text)) {
		t.Errorf("next offset %q", next)
	}
}

// TestTruncatedLogIsAborted checks that after an agent's failure the client gets an aborted
// response, not a short one.
func TestTruncatedLogIsAborted(t *testing.T) {
	task := job.Task{ID: "t", AgentID: "a", State: job.Finished}
	for _, fault := range []error{errors.New("agent is gone"), fmt.Errorf("sandbox was collected: %w", request.ErrNoLog)} {
		for failing := range 8 { // number of reads of the file before it fails
			read, aborted := 0, false
			f := &fakeBackend{task: task, readLog: func(offset uint64) ([]byte, error) {
				if read++; read > failing {
					aborted = true
					return nil, fault
				}
				return []byte("half"[offset:]), nil
			}}
			res, err := http.Get(serveBackend(t, f).URL + "/v1/tasks/t/log")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err == nil && res.StatusCode == http.StatusOK && aborted && string(got) != "half" {
				t.Errorf("%v after %d reads: read %q as if it were all", fault, failing, got)
			}
		}
	}
	gone := &fakeBackend{task: task, readLog: func(uint64) ([]byte, error) { return nil, errors.New("agent is gone") }}
	if status, _, body := sendRequest(t, "GET", serveBackend(t, gone).URL+"/v1/tasks/t/log", ""); status != 502 || !strings.Contains(body, "agent is gone") {
		t.Errorf("from the start: %d %s", status, body)
	}
}

func TestLogOfWaitingTask(t *testing.T) {
	f := &fakeBackend{task: job.Task{ID: "t", State: job.Waiting}}
	if status, _, body := sendRequest(t, "GET", serveBackend(t, f).URL+"/v1/tasks/t/log", ""); status != 404 ||
		!strings.Contains(body, "t is WAITING and has no stdout yet") {
		t.Errorf("got %d %s", status, body)
	}
}

// TestLogOfStartingTask checks that there is no log until the task starts: before that the
// sandbox has the executor's output, which the task's own may replace.
func TestLogOfStartingTask(t *testing.T) {
	get := func(state job.State) (status int, body string) {
		f := &fakeBackend{task: job.Task{ID: "t", AgentID: "a", State: state}, readLog: func(uint64) ([]byte, error) { return nil, nil }}
		status, _, body = sendRequest(t, "GET", serveBackend(t, f).URL+"/v1/tasks/t/log", "")
		return status, body
	}
	if status, body := get(job.Starting); status != 404 || !strings.Contains(body, "t is STARTING and has no stdout yet") {
		t.Errorf("got %d %s", status, body)
	}
	// If the task failed before it started, the file has the executor's output about it.
	if status, body := get(job.Failed); status != 200 {
		t.Errorf("got %d %s", status, body)
	}
}

func TestServeEndsStreamsOnShutdown(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(l.Addr().String()); err == nil || !strings.Contains(err.Error(), "has the port") {
		t.Errorf("second listener: %v", err)
	}
	if _, err := Listen("nowhere:x"); err == nil {
		t.Error("listened nowhere")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, NewHandler(func() Backend { return newLeaderBackend(&fakeBackend{}) }, discardLogger()), discardLogger())
	}()
	res, err := http.Get("http://" + l.Addr().String() + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Serve waits for a stream")
	}
	broken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Serve(context.Background(), broken, http.NotFoundHandler(), discardLogger()); err == nil {
		t.Error("served on a closed listener")
	}
}

func TestListPagination(t *testing.T) {
	f := &fakeBackend{next: "cursor"}
	status, _, body := sendRequest(t, "GET",
		serveBackend(t, f).URL+"/v1/jobs?limit=2&after=a%2Fb&state=FAILED,LOST&role=web&owner=ada&name=t*&label=team%3Dvision&label=tier,x",
		"")
	if status != 200 || !strings.Contains(body, `"next":"cursor"`) {
		t.Errorf("got %d %s", status, body)
	}
	if want := (api.JobQuery{
		PageRequest: api.PageRequest{Limit: 2, After: "a/b"},
		State:       "FAILED,LOST",
		Role:        "web",
		Owner:       "ada",
		Name:        "t*",
		Labels:      "team=vision,tier,x",
	}); f.query != want {
		t.Errorf("the backend got the query %+v", f.query)
	}
}

// TestStandbyRedirects checks that a standby redirects writes to the leader with method and
// body, and returns the age of its data.
func TestStandbyRedirects(t *testing.T) {
	leader := &fakeBackend{}
	at := serveBackend(t, leader).URL
	standby := &fakeBackend{err: api.RedirectToLeader(at + "/"), asOf: time.Now().Add(-90 * time.Second)}
	url := serveBackend(t, standby).URL
	status, _, body := sendRequest(t, "POST", url+"/v1/jobs", `{"name":"train","command":["true"]}`)
	if status != 201 || leader.submitted.Name != "train" {
		t.Errorf("through the redirect: %d %s", status, body)
	}
	if status, _, body := sendRequest(t, "DELETE", url+"/v1/jobs/train?force=true", ""); status != 202 || leader.killed != "train" || !leader.forced {
		t.Errorf("through the redirect: %d %s", status, body)
	}
	once := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/v1/jobs/train?force=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := once.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Location"); res.StatusCode != 307 || got != at+"/v1/jobs/train?force=true" {
		t.Errorf("got %d to %s", res.StatusCode, got)
	}
	if age, err := strconv.Atoi(res.Header.Get("Age")); err != nil || age < 91 || age > 150 {
		t.Errorf("age %q, want a little more than 90 s, rounded up", res.Header.Get("Age"))
	}
}

func TestUnavailableWithoutLeader(t *testing.T) {
	f := &fakeBackend{err: api.NewUnavailable("no scheduler leads")}
	res, err := http.Get(serveBackend(t, f).URL + "/v1/jobs/x")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var p api.Problem
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || !p.Retryable || res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %+v, %v", res.StatusCode, p, err)
	}
	if res.Header.Get("Age") != "" {
		t.Error("what is no copy has an age")
	}
}
