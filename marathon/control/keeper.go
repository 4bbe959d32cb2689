package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
	"mesos-gpu/marathon/deploy"
	"mesos-gpu/marathon/translate"
)

// documentPrefix begins the keys of deploy's documents; others are kept beside
// them.
const documentPrefix = "marathon/"

// again is how long after an action failed its app is looked at once more.
const again = time.Second

// keeper keeps the apps. One goroutine, run, owns all but the channels.
type keeper struct {
	cfg     *Config
	bus     *api.Bus
	cluster Cluster
	state   *deploy.State
	// url is where this scheduler answers; settings are those that definitions
	// are read with.
	url      string
	settings marathon.Settings
	// documents are those that are recorded.
	documents map[string][]byte

	apps     map[string]string          // by job
	jobs     map[string]map[string]bool // of each app, by name
	failures map[string]api.TaskFailure // the last of each app
	tries    *readiness
	// undone are apps with an action that failed, and retry when they are
	// looked at once more.
	undone map[string]bool
	retry  <-chan time.Time

	changed  chan []string
	deaf     chan error // has one when no changes are heard of any more
	requests chan request
	ended    chan struct{} // closed when run has ended
}

// request is something that people want.
type request struct {
	do   func(k *keeper) error
	done chan error
}

func newKeeper(ctx context.Context, cfg *Config, bus *api.Bus, cluster Cluster) (*keeper, error) {
	documents, err := cluster.Documents(ctx)
	if err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	ours := map[string][]byte{}
	for key, value := range documents {
		if strings.HasPrefix(key, documentPrefix) {
			ours[key] = value
		}
	}
	state, err := deploy.New(ours)
	if err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	url, _, role, err := cluster.Self(ctx)
	if err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	settings := cfg.Settings
	settings.Role = cmp.Or(settings.Role, role)
	return &keeper{
		url: url, settings: settings,
		cfg: cfg, bus: bus, cluster: cluster, state: state, documents: ours,
		apps: map[string]string{}, jobs: map[string]map[string]bool{}, failures: map[string]api.TaskFailure{},
		undone: map[string]bool{}, tries: newReadiness(cfg),
		changed: make(chan []string), deaf: make(chan error, 1), requests: make(chan request), ended: make(chan struct{}),
	}, nil
}

// run keeps the apps until ctx ends, which is no error, or it cannot go on.
func (k *keeper) run(ctx context.Context) error {
	if err := k.keep(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

func (k *keeper) keep(ctx context.Context) error {
	defer close(k.ended)
	var listening sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer listening.Wait()
	defer k.tries.end()
	defer cancel()
	listening.Go(func() { k.listen(ctx) })
	select { // nothing is done before it is known what there is
	case names := <-k.changed:
		if err := k.step(ctx, k.look(names)); err != nil {
			return err
		}
	case err := <-k.deaf:
		return err
	case <-ctx.Done():
		return nil
	}
	for {
		if err := k.next(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// next takes in what comes next.
func (k *keeper) next(ctx context.Context) error {
	if len(k.undone) > 0 && k.retry == nil { // whatever else comes meanwhile
		k.retry = time.After(again)
	}
	select {
	case names := <-k.changed:
		return k.step(ctx, k.look(names))
	case r := <-k.requests:
		return k.answer(ctx, r)
	case app := <-k.tries.ready:
		return k.step(ctx, map[string][]deploy.Instance{app: k.instances(app)})
	case <-k.retry:
		k.retry = nil
		seen := k.sight(k.undone)
		clear(k.undone)
		return k.step(ctx, seen)
	case err := <-k.deaf:
		return err
	case <-ctx.Done():
		return nil
	}
}

// answer does what was asked for, and says so once it is recorded. Of what
// could not be, nobody knows whether another scheduler will find it.
func (k *keeper) answer(ctx context.Context, r request) error {
	err := r.do(k)
	if e := k.record(ctx); e != nil {
		r.done <- unavailable("%v: see whether it was done before you ask again", e)
		return e
	}
	r.done <- err
	return k.step(ctx, nil)
}

func unavailable(format string, args ...any) error {
	return &api.Problem{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(format, args...)}
}

// listen passes on what changes.
func (k *keeper) listen(ctx context.Context) {
	for {
		names, err := k.cluster.Changed(ctx)
		if err != nil {
			k.deaf <- fmt.Errorf("hear what has changed: %w", err)
			return
		}
		select {
		case k.changed <- names:
		case <-ctx.Done():
			return
		}
	}
}

// ask runs do in the loop, and returns when what it changed is recorded.
func (k *keeper) ask(ctx context.Context, do func(k *keeper) error) error {
	r := request{do: do, done: make(chan error, 1)}
	select {
	case k.requests <- r:
		return <-r.done // all that is taken is answered
	case <-k.ended:
		return unavailable("this scheduler leads no more: ask again")
	case <-ctx.Done():
		return unavailable("the request ended before its turn came: %v", context.Cause(ctx))
	}
}

// look finds the instances of the apps whose jobs have changed.
func (k *keeper) look(names []string) map[string][]deploy.Instance {
	affected := map[string]bool{}
	for _, name := range names {
		j, there := k.cluster.Job(name)
		app, _, ours := translate.Of(&j.Spec)
		switch {
		case there && ours:
			if k.jobs[app] == nil {
				k.jobs[app] = map[string]bool{}
			}
			k.apps[name], k.jobs[app][name] = app, true
			k.noteFailure(app, &j)
			affected[app] = true
		case k.apps[name] != "":
			app = k.apps[name]
			delete(k.apps, name)
			if delete(k.jobs[app], name); len(k.jobs[app]) == 0 {
				delete(k.jobs, app)
			}
			affected[app] = true
		}
	}
	return k.sight(affected)
}

// sight is what there is of those apps.
func (k *keeper) sight(apps map[string]bool) map[string][]deploy.Instance {
	seen := map[string][]deploy.Instance{}
	for app := range apps {
		seen[app] = k.instances(app)
	}
	return seen
}

// instances are the tasks of all jobs of an app.
func (k *keeper) instances(app string) []deploy.Instance {
	var list []deploy.Instance
	for _, name := range slices.Sorted(maps.Keys(k.jobs[app])) {
		j, ok := k.cluster.Job(name)
		if !ok {
			continue
		}
		_, version, _ := translate.Of(&j.Spec)
		for i := range j.Tasks {
			list = append(list, instance(&j.Tasks[i], version))
		}
	}
	k.tries.watch(k.state, app, list)
	return list
}

func instance(t *job.Task, version string) deploy.Instance {
	return deploy.Instance{
		TaskID: t.ID, Version: version, Job: t.Job, State: t.State,
		KillWanted: t.KillWanted, KillReason: t.KillReason, Healthy: t.Healthy,
		Started: t.Started, Changed: t.Changed, NotBefore: t.NotBefore,
		Hostname: t.Hostname, AgentID: t.AgentID, Ports: t.Ports, Message: t.Message,
	}
}

// noteFailure remembers what ended the last attempt of a task that is started
// again.
func (k *keeper) noteFailure(app string, j *job.Job) {
	var last *job.Task
	after := k.failures[app].Timestamp.Time
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State == job.Waiting && t.Failures > 0 && t.Changed.After(after) {
			last, after = t, t.Changed
		}
	}
	if last == nil {
		return
	}
	f := api.TaskFailure{AppID: app, Message: last.Message, State: "TASK_FAILED", TaskID: last.ID, Timestamp: api.Time{Time: last.Changed}}
	for _, old := range k.state.Instances(app) {
		if old.Job == last.Job && old.State.Placed() && previous(old.TaskID, last.ID) {
			f.TaskID, f.Host, f.SlaveID, f.Version = old.TaskID, old.Hostname, old.AgentID, old.Version
		}
	}
	k.failures[app] = f
}

// step has deploy say what is to be done, records that, does it, and has
// deploy look at what came of it: what it thinks is there must not be older
// than what it asked for.
func (k *keeper) step(ctx context.Context, seen map[string][]deploy.Instance) error {
	for {
		actions, events := k.state.Step(seen)
		if err := k.record(ctx); err != nil {
			return err
		}
		k.tell(events)
		if len(actions) == 0 || ctx.Err() != nil {
			return nil
		}
		k.carryOut(ctx, actions)
		if seen = k.look(k.touched(actions)); len(seen) == 0 {
			return nil
		}
	}
}

// tell publishes events, and forgets what was known of apps that are gone.
func (k *keeper) tell(events []deploy.Event) {
	for _, ev := range events {
		if gone, ok := ev.(deploy.AppTerminated); ok {
			delete(k.failures, gone.AppID)
		}
	}
	if err := k.bus.Publish(k.cfg.Clock(), events...); err != nil {
		k.cfg.Log.WithError(err).Error("publish events")
	}
}

// touched are the jobs of the apps that the actions were about. An app with
// one that failed waits for its next try.
func (k *keeper) touched(actions []deploy.Action) []string {
	names := map[string]bool{}
	for _, a := range actions {
		app := appOf(a)
		if k.undone[app] {
			continue
		}
		if s, ok := a.(deploy.Submit); ok {
			names[translate.Name(app, translate.Version(s.App))] = true
		}
		maps.Copy(names, k.jobs[app])
	}
	return slices.Sorted(maps.Keys(names))
}

// record puts what has changed into the cluster's documents. What cannot be
// recorded must not be done: the keeper ends.
func (k *keeper) record(ctx context.Context) error {
	changed := k.state.Drain()
	if len(changed) == 0 {
		return nil
	}
	if err := k.cluster.Put(ctx, changed); err != nil {
		return fmt.Errorf("record apps: %w", err)
	}
	maps.Copy(k.documents, changed)
	for key, value := range changed {
		if len(value) == 0 {
			delete(k.documents, key)
		}
	}
	return nil
}
