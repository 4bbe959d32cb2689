package clustersim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/control"
)

const (
	appID = "/web"
	// appJobs begins the names of the app's jobs.
	appJobs = "web."
	// appRevision is the variable of the app by which its user knows the definitions apart.
	appRevision = "REVISION"
)

// appUser is a user of Marathon's API with one app. Its requests follow each other.
type appUser struct {
	world *World
	// wanted is the definition of the last answered request, nil if the app is removed. most is the largest number of
	// instances of all requests.
	wanted *appDefinition
	most   int
	// revision counts the definitions. requests counts unanswered requests.
	revision int
	requests int
	capacity capacity
	// flaky is the percentage of instances that fail.
	flaky int
}

// appDefinition is the part of an app that its user changes.
type appDefinition struct {
	Instances int
	Revision  int
}

// capacity is the app's upgrade strategy.
type capacity struct{ healthy, over float64 }

func newAppUser(w *World) *appUser {
	return &appUser{
		world: w, flaky: []int{0, 0, 20}[w.random.IntN(3)],
		capacity: capacity{[]float64{0, 0.5, 1}[w.random.IntN(3)], []float64{0, 0.5, 1}[w.random.IntN(3)]},
	}
}

// schedule plans the creation of the app and its changes.
func (u *appUser) schedule() {
	w := u.world
	changes := 1 + w.random.IntN(6)
	u.requests = changes + 1
	var next func(left int)
	next = func(left int) {
		u.requests = left
		if left == 0 {
			return
		}
		w.after(w.between(0, 2*w.plan.faultTime/time.Duration(changes+1)), "user of the app", func() { u.change(func() { next(left - 1) }) })
	}
	next(u.requests)
}

// change sends a random request until it is answered.
func (u *appUser) change(done func()) {
	w := u.world
	d := appDefinition{Instances: w.random.IntN(6)}
	if u.wanted != nil && w.random.IntN(3) == 0 {
		d.Revision = u.wanted.Revision // only the number of instances changes
	} else {
		u.revision++
		d.Revision = u.revision
	}
	switch kind := w.random.IntN(8); {
	case u.wanted == nil:
		u.send("POST", "/v2/apps?force=true", u.definition(d), 409, func() { u.wanted = &d; done() })
	case kind == 0:
		u.send("DELETE", "/v2/apps"+appID+"?force=true", "", 404, func() { u.wanted = nil; done() })
	case kind == 1:
		u.send("POST", "/v2/apps"+appID+"/restart?force=true", "", 0, done)
	default:
		u.send("PUT", "/v2/apps"+appID+"?force=true", u.definition(d), 0, func() { u.wanted = &d; done() })
	}
}

func (u *appUser) definition(d appDefinition) string {
	u.most = max(u.most, d.Instances)
	command, env := "", ""
	if u.world.plan.readers {
		command, env = " "+secret("web", "command"), fmt.Sprintf(`, "TOKEN": %q`, secret("web", "env"))
	}
	return fmt.Sprintf(`{"id": %q, "cmd": "true%s", "cpus": 0.1, "mem": 32, "instances": %d, "env": {%q: "%d"%s}, "labels": {"GPU_SCHEDULING_BEHAVIOR": "unrestricted"},
		"backoffSeconds": 1, "maxLaunchDelaySeconds": 20, "upgradeStrategy": {"minimumHealthCapacity": %g, "maximumOverCapacity": %g}}`,
		appID, command, d.Instances, appRevision, d.Revision, env, u.capacity.healthy, u.capacity.over)
}

// send repeats a request until it succeeds, or fails with the status that means that an earlier one has succeeded.
func (u *appUser) send(method, path, body string, repeated int, done func()) {
	w := u.world
	again := func() {
		w.after(w.between(time.Second, 10*time.Second), "app's request again", func() { u.send(method, path, body, repeated, done) })
	}
	p := w.scheduler.process
	if p == nil || p.apps == nil || p.pausedUntil > w.now {
		again()
		return
	}
	answer := httptest.NewRecorder()
	w.note("app's request", method, path, 0)
	err := p.apps.Serve(context.Background(), answer, httptest.NewRequest(method, path, strings.NewReader(body)))
	p.considerApps(err)
	switch {
	case err != nil || w.chance(w.plan.loseAnswer, "answer to user lost") || answer.Code == 503:
		again()
	case answer.Code/100 == 2 || answer.Code == repeated:
		w.AppChanges++
		done()
	default:
		w.failf("%s %s is answered %d: %s", method, path, answer.Code, answer.Body)
	}
}

// startApps starts Marathon's control in a process.
func (p *process) startApps() {
	w := p.world
	if p.dead || p.waits("start apps", p.startApps) {
		return
	}
	backend := &appBackend{p: p, changes: readmodel.NewChangeFeed()}
	p.loop.Model.WatchChanges(backend.changes)
	apps, err := control.OpenDetached(context.Background(), control.ControllerConfig{
		Settings: marathon.ParseSettings{Role: role}, Version: "test", Clock: p.clock, Log: p.node.log, Authorize: authorizeApps,
	}, backend)
	if err != nil {
		if !p.dead {
			w.failf("Marathon's control does not start: %v", err)
		}
		return
	}
	p.apps = apps
	if w.readers != nil {
		w.readers.openStreams(p)
	}
	p.wakeApps()
}

// wakeApps lets Marathon's control handle what has changed.
func (p *process) wakeApps() {
	if p.apps != nil {
		p.plan(&p.nextAppsStep, "step of apps", p.stepApps)
	}
}

func (p *process) stepApps() {
	failed, err := p.apps.Step(context.Background())
	p.considerApps(err)
	if failed && err == nil {
		p.world.after(time.Second, "failed action", p.wakeApps)
	}
}

// considerApps ends a process whose Marathon control has ended, as the scheduler does.
func (p *process) considerApps(err error) {
	if err != nil && !p.dead {
		p.world.failf("Marathon's control ended: %v", err)
	}
}

// appBackend is the scheduler as Marathon's control sees it. Its methods return when the change is recorded.
type appBackend struct {
	p       *process
	changes *readmodel.ChangeFeed
}

// apply applies a change to the state and records it.
func (b *appBackend) apply(change func(st *sched.State, apply func(sched.Event)) error) error {
	if b.p.dead {
		return errKilled
	}
	return b.p.runBatch(nil, []request{{apply: change}})[0]
}

func (b *appBackend) DescribeScheduler(context.Context) (url, frameworkID, role string, err error) {
	return "http://scheduler:8080", "", "", nil
}

func (b *appBackend) SubmitJobs(_ context.Context, specs ...job.Spec) error {
	return b.apply(func(st *sched.State, apply func(sched.Event)) error {
		for i := range specs {
			if err := st.AdmitCompleted(&specs[i]); err != nil {
				return err
			}
		}
		for _, s := range specs {
			apply(sched.SubmitJob{Spec: s})
		}
		return nil
	})
}

func (b *appBackend) CheckAdmission(context.Context, ...job.Spec) (rejected, err error) {
	return nil, nil
}

func (b *appBackend) ScaleJob(_ context.Context, name string, tasks int, by string) error {
	return b.apply(func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitScale(name, tasks); err != nil {
			return err
		}
		apply(sched.ScaleService{Job: name, Tasks: tasks, By: by})
		return nil
	})
}

func (b *appBackend) StopTasks(_ context.Context, ids []string, retire bool, by string) error {
	return b.apply(func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.StopTasks{TaskIDs: ids, Retire: retire, By: by})
		return nil
	})
}

func (b *appBackend) EndBackoff(_ context.Context, ids []string) error {
	return b.apply(func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.EndBackoff{TaskIDs: ids})
		return nil
	})
}

func (b *appBackend) KillJobs(_ context.Context, by string, names ...string) error {
	return b.apply(func(_ *sched.State, apply func(sched.Event)) error {
		for _, name := range names {
			apply(sched.KillJob{Job: name, By: by})
		}
		return nil
	})
}

func (b *appBackend) PutDocuments(_ context.Context, documents map[string][]byte) error {
	return b.apply(func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitDocuments(documents); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(documents)) {
			apply(sched.PutDocument{Key: key, Value: documents[key]})
		}
		return nil
	})
}

func (b *appBackend) LoadDocuments(context.Context) (all map[string][]byte, err error) {
	err = b.apply(func(st *sched.State, _ func(sched.Event)) error {
		all = st.Documents()
		maps.DeleteFunc(all, func(key string, _ []byte) bool { return sched.IsReservedDocument(key) })
		return nil
	})
	return all, err
}

func (b *appBackend) MasterURL() string { return "" }
func (b *appBackend) ExplainWaiting(context.Context, ...string) (map[string]job.WaitReason, error) {
	return nil, nil
}
func (b *appBackend) AbdicateLeadership()                 {}
func (b *appBackend) FindJob(name string) (job.Job, bool) { return b.p.loop.Model.CopyJob(name) }
func (b *appBackend) ListGroupJobs(group string) []job.Job {
	return b.p.loop.Model.ListGroupJobs(group)
}
func (b *appBackend) WaitForChange(ctx context.Context) error { return b.changes.AwaitChange(ctx) }
func (b *appBackend) AgentFields(string) map[string]string    { return nil }
func (b *appBackend) TakeChanges() (map[string]*job.Spec, []job.Task) {
	return b.changes.TakeChanges()
}

// missing returns what of the app has not converged, "" for nothing. It adds the app's running instances to running.
func (u *appUser) missing(st *sched.State, p *process, running map[string]bool) string {
	if u.requests > 0 {
		return fmt.Sprintf("%d requests for the app are not answered", u.requests)
	}
	count := 0
	for _, j := range st.Jobs() {
		if j.Spec.Group != appID {
			continue
		}
		for i := range j.Tasks {
			t := &j.Tasks[i]
			switch {
			case !t.State.IsLive():
			case u.wanted == nil || j.Spec.Env[appRevision] != fmt.Sprint(u.wanted.Revision):
				return fmt.Sprintf("%s of another version is %s", t.ID, t.State)
			case t.State != job.Running || !t.KillRequested.IsZero():
				return fmt.Sprintf("%s is %s", t.ID, t.State)
			default:
				running[t.ID] = true
				count++
			}
		}
	}
	if u.wanted != nil && count != u.wanted.Instances {
		return fmt.Sprintf("%d instances of the app run, %d are wanted", count, u.wanted.Instances)
	}
	answer := httptest.NewRecorder()
	if err := p.apps.Serve(context.Background(), answer, httptest.NewRequest("GET", "/v2/deployments", nil)); err != nil {
		return err.Error()
	}
	var deployments []any
	if err := json.Unmarshal(answer.Body.Bytes(), &deployments); err != nil || len(deployments) > 0 {
		return fmt.Sprintf("deployments are left: %s (%v)", answer.Body, err)
	}
	return ""
}

// checkAppInstances checks that no more instances run than the upgrade strategy allows.
func (inv *invariants) checkAppInstances() {
	u := inv.world.apps
	placed := 0
	for run, tasks := range inv.tasks {
		if !strings.HasPrefix(run.Name, appJobs) {
			continue
		}
		for _, t := range tasks {
			if t.State.IsPlaced() && t.State != job.Unreachable && t.KillRequested.IsZero() {
				placed++
			}
		}
	}
	most := u.most + int(float64(u.most)*u.capacity.over)
	if int(math.Ceil(float64(u.most)*u.capacity.healthy)) == most { // otherwise nothing could be replaced
		most++
	}
	if placed > most {
		inv.world.failf("%d instances of the app have places, its user wanted at most %d, with %g of over-capacity", placed, u.most, u.capacity.over)
	}
}
