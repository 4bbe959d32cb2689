package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// fakeService is an AppService with two agents that executes deployments at once. If frozen is set, it executes nothing, so
// that deployments do not end.
type fakeService struct {
	mu    sync.Locker
	st    *deploy.DesiredState
	bus   *EventBus
	tasks map[string][]deploy.AppInstance
	// observed are the tasks as of the last settle. The deployments and the queue see these.
	observed map[string][]deploy.AppInstance
	seconds  int // since the start of its clock
	frozen   bool
	// readiness has the results by app id.
	readiness map[string][]ReadinessResult
	leading   string
	reset     []string
	abdicated error
}

func newFakeService(t testing.TB) *fakeService {
	t.Helper()
	observed := map[string][]deploy.AppInstance{}
	st, err := deploy.LoadState(nil, func(app string) []deploy.AppInstance { return observed[app] })
	if err != nil {
		t.Fatal(err)
	}
	return &fakeService{
		mu: &sync.Mutex{}, st: st, bus: NewEventBus(), tasks: map[string][]deploy.AppInstance{}, observed: observed, readiness: map[string][]ReadinessResult{},
		leading: "http://scheduler.example:8080",
	}
}

// nextTime advances the clock by a second.
func (f *fakeService) nextTime() time.Time {
	f.seconds++
	return time.Date(2026, 3, 1, 12, 0, f.seconds, 0, time.UTC)
}

// deployChange makes a change and executes its deployment.
func (f *fakeService) deployChange(change func() (deploy.Deployment, error)) (deploy.Deployment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := change()
	if err != nil {
		return d, err
	}
	return d, f.executeActions()
}

func (f *fakeService) executeActions() error {
	for range 1000 {
		for app, list := range f.tasks {
			f.observed[app] = slices.Clone(list)
		}
		actions, events := f.st.Step(slices.Collect(maps.Keys(f.tasks))...)
		if err := f.bus.Publish(f.nextTime(), events...); err != nil {
			return err
		}
		if f.frozen || len(actions) == 0 {
			return nil
		}
		for _, a := range actions {
			f.executeAction(a)
		}
	}
	return errors.New("deployments do not end")
}

func (f *fakeService) executeAction(a deploy.Action) {
	switch a := a.(type) {
	case deploy.SubmitJob:
		f.addInstances(a.App.ID, a.App.VersionInfo.LastConfigChangeAt, a.App.Instances)
	case deploy.ScaleJob:
		f.addInstances(a.AppID, a.Version, a.Instances)
	case deploy.StopInstances:
		f.changeInstances(a.AppID, func(i deploy.AppInstance) (deploy.AppInstance, bool) {
			for _, id := range a.TaskIDs {
				if i.ID == id {
					i.State, i.KillReason = job.Killed, job.KillByScaling
				}
			}
			return i, true
		})
	case deploy.KillJob:
		f.changeInstances(a.AppID, func(i deploy.AppInstance) (deploy.AppInstance, bool) { return i, i.Version != a.Version })
	}
}

func (f *fakeService) changeInstances(app string, to func(deploy.AppInstance) (deploy.AppInstance, bool)) {
	left := []deploy.AppInstance{}
	for _, i := range f.tasks[app] {
		if i, ok := to(i); ok {
			left = append(left, i)
		}
	}
	f.tasks[app] = left
}

func (f *fakeService) addInstances(app, version string, wanted int) {
	for _, i := range f.tasks[app] {
		if i.Version == version && i.State == job.Running {
			wanted--
		}
	}
	for range wanted {
		at, well := f.nextTime(), true
		f.tasks[app] = append(f.tasks[app], deploy.AppInstance{
			Task: job.Task{
				ID: fmt.Sprintf("task.%d.1.0", f.seconds), State: job.Running, Healthy: &well, Started: at,
				Hostname: fmt.Sprintf("agent%d.example", f.seconds%2), AgentID: "S0", Ports: []int{31000 + f.seconds},
			},
			Version: version, Ready: true,
		})
	}
}

// RunExclusive holds the lock. The AppService that do gets does not lock.
func (f *fakeService) RunExclusive(_ context.Context, do func(AppService) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := *f
	in.mu = noLock{}
	err := do(&in)
	f.seconds, f.reset = in.seconds, in.reset
	return err
}

type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

func (f *fakeService) ParseSettings(context.Context, string) (marathon.ParseSettings, error) {
	return marathon.ParseSettings{Role: "*", BridgeNetwork: marathon.MesosBridge}, nil
}

func (f *fakeService) ListApps(context.Context) ([]AppStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []AppStatus
	for _, a := range f.st.Apps() {
		all = append(all, f.appStatus(a))
	}
	return all, nil
}

func (f *fakeService) GetApp(_ context.Context, id string) (AppStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.st.App(id)
	if !ok {
		return AppStatus{}, &deploy.NotFoundError{Kind: "app", ID: id}
	}
	return f.appStatus(a), nil
}

func (f *fakeService) appStatus(a *marathon.App) AppStatus {
	now := AppStatus{App: a, Readiness: f.readiness[a.ID]}
	if d, ok := f.st.Deployment(a.ID); ok {
		now.Deployments = []string{d.ID}
	}
	for _, i := range f.tasks[a.ID] {
		if i.State != job.Running && i.State != job.Staging {
			continue
		}
		task := AppTask{
			ID: i.ID, AppID: a.ID, Host: i.Hostname, SlaveID: i.AgentID, Ports: i.Ports, Role: a.Role,
			State: "TASK_" + string(i.State), StagedAt: Time{i.Started.Add(-time.Second)}, StartedAt: Time{i.Started}, Version: i.Version,
		}
		if len(a.HealthChecks) > 0 && i.Healthy != nil {
			task.HealthCheckResults = []HealthResult{{Alive: *i.Healthy, InstanceID: i.ID, FirstSuccess: Time{i.Started}}}
		}
		now.Tasks = append(now.Tasks, task)
	}
	return now
}

func (f *fakeService) ListVersions(_ context.Context, id string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.st.App(id); !ok {
		return nil, &deploy.NotFoundError{Kind: "app", ID: id}
	}
	return f.st.Versions(id), nil
}

func (f *fakeService) GetVersion(_ context.Context, id, version string) (*marathon.App, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.st.Version(id, version)
	if !ok {
		return nil, &deploy.NotFoundError{Kind: "version", ID: version}
	}
	return a, nil
}

func (f *fakeService) UpdateApps(_ context.Context, edit EditFunc, force bool) (d deploy.Deployment, made []*marathon.App, err error) {
	d, err = f.deployChange(func() (deploy.Deployment, error) {
		apps, err := edit(func(id string) *marathon.App { a, _ := f.st.App(id); return a })
		if err != nil {
			return deploy.Deployment{}, err
		}
		d, err := f.st.PutApps(f.nextTime(), apps, deploy.ChangeOptions{Force: force})
		for _, a := range apps {
			now, _ := f.st.App(a.ID)
			made = append(made, now)
		}
		return d, err
	})
	return d, made, err
}

func (f *fakeService) RemoveApp(_ context.Context, id string, force bool) (deploy.Deployment, error) {
	return f.deployChange(func() (deploy.Deployment, error) {
		return f.st.RemoveApps(f.nextTime(), []string{id}, deploy.ChangeOptions{Force: force})
	})
}

func (f *fakeService) RestartApp(_ context.Context, id string, force bool) (deploy.Deployment, error) {
	return f.deployChange(func() (deploy.Deployment, error) {
		return f.st.RestartApps(f.nextTime(), []string{id}, deploy.ChangeOptions{Force: force})
	})
}

// KillTasks replaces tasks as the scheduler does for a service.
func (f *fakeService) KillTasks(_ context.Context, ids []string) error {
	_, err := f.deployChange(func() (deploy.Deployment, error) {
		for app := range f.tasks {
			for _, id := range ids {
				f.changeInstances(app, func(i deploy.AppInstance) (deploy.AppInstance, bool) {
					if i.ID == id {
						i.ID += "0" // another time
					}
					return i, true
				})
			}
		}
		return deploy.Deployment{}, nil
	})
	return err
}

func (f *fakeService) KillAndScale(_ context.Context, ids []string, force bool) (deploy.Deployment, error) {
	return f.deployChange(func() (deploy.Deployment, error) {
		return f.st.RetireInstances(f.nextTime(), ids, deploy.ChangeOptions{Force: force})
	})
}

func (f *fakeService) ListDeployments(context.Context) ([]deploy.Deployment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.st.Deployments(), nil
}

func (f *fakeService) CancelDeployment(_ context.Context, id string, force bool) (deploy.Deployment, error) {
	return f.deployChange(func() (deploy.Deployment, error) {
		return f.st.CancelDeployment(f.nextTime(), id, deploy.ChangeOptions{Force: force})
	})
}

func (f *fakeService) GetGroup(_ context.Context, id string) (*marathon.Group, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, ok := f.st.Group(id)
	if !ok {
		return nil, &deploy.NotFoundError{Kind: "group", ID: id}
	}
	return g, nil
}

func (f *fakeService) PutGroup(_ context.Context, id string, g *marathon.Group, o GroupOptions) (deploy.Deployment, error) {
	if o.DryRun {
		f.mu.Lock()
		defer f.mu.Unlock()
		tried, err := deploy.LoadState(f.documents(), func(string) []deploy.AppInstance { return nil })
		if err != nil {
			return deploy.Deployment{}, err
		}
		return tried.PutGroup(f.nextTime(), id, g, deploy.ChangeOptions{Force: o.Force})
	}
	return f.deployChange(func() (deploy.Deployment, error) {
		return f.st.PutGroup(f.nextTime(), id, g, deploy.ChangeOptions{Force: o.Force})
	})
}

// documents returns the documents of all apps, without deployments and group definitions.
func (f *fakeService) documents() map[string][]byte {
	all := map[string][]byte{}
	for _, a := range f.st.Apps() {
		text, err := json.Marshal(map[string]any{"versions": []*marathon.App{a}})
		if err != nil {
			panic(err)
		}
		all["marathon/app"+a.ID] = text
	}
	return all
}

func (f *fakeService) RemoveGroup(_ context.Context, id string, force bool) (deploy.Deployment, error) {
	return f.deployChange(func() (deploy.Deployment, error) {
		return f.st.RemoveGroup(f.nextTime(), id, deploy.ChangeOptions{Force: force})
	})
}

func (f *fakeService) ListQueue(context.Context) ([]deploy.QueuedApp, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.st.QueuedApps(), nil
}

func (f *fakeService) ResetDelay(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.st.QueuedApps() {
		if q.App.ID == id {
			f.reset = append(f.reset, id)
			return nil
		}
	}
	return &deploy.NotFoundError{Kind: "app", ID: id}
}

func (f *fakeService) LeaderURL(context.Context) (string, error) { return f.leading, nil }
func (f *fakeService) AbdicateLeadership(context.Context) error  { return f.abdicated }
func (f *fakeService) GetInfo(context.Context) (SchedulerInfo, error) {
	return SchedulerInfo{
		Name: "mesos-gpu", Version: ServedVersion, BuildRef: "1.2.3", Elected: true, Leader: "scheduler.example:8080", FrameworkID: "F-1",
		Marathon: MarathonConfig{FrameworkName: "mesos-gpu", MesosLeaderUIURL: "http://master.example:5050/"}, HTTP: HTTPConfig{HTTPPort: 8080},
	}, nil
}

// testClient sends requests to a server with a fake service.
type testClient struct {
	*fakeService
	t       *testing.T
	handler http.Handler
}

func newTestClient(t *testing.T) *testClient {
	f := newFakeService(t)
	log := logrus.New()
	log.SetOutput(t.Output())
	s := &apiServer{service: f, bus: f.bus, log: log, now: func() time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.nextTime()
	}}
	return &testClient{fakeService: f, t: t, handler: http.HandlerFunc(s.serveRequest)}
}

// send sends a request and returns the answer, which must have the status.
func (a *testClient) send(method, path, body string, status int) *httptest.ResponseRecorder {
	a.t.Helper()
	r := httptest.NewRequest(method, path, bytes.NewReader([]byte(body)))
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	if w.Code != status {
		a.t.Fatalf("%s %s: got status %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	return w
}

// mustSend sends a request that has to succeed and decodes the answer.
func (a *testClient) mustSend(method, path, body string, into any) {
	a.t.Helper()
	text, err := io.ReadAll(a.send(method, path, body, http.StatusOK).Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		a.t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
}

// readApp reads one app.
func (a *testClient) readApp(id string) (app struct {
	marathon.App
	Tasks       []struct{ ID, State string }
	Running     int `json:"tasksRunning"`
	Deployments []objectID
}) {
	a.t.Helper()
	var raw map[string]json.RawMessage
	a.mustSend(http.MethodGet, "/v2/apps"+id, "", &raw)
	if err := json.Unmarshal(raw["app"], &app); err != nil {
		a.t.Fatal(err)
	}
	return app
}
