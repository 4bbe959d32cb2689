package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
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
	// undone are apps with an action that failed.
	undone map[string]bool

	changed  chan []string
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
		changed: make(chan []string), requests: make(chan request), ended: make(chan struct{}),
	}, nil
}

func (k *keeper) run(ctx context.Context) error {
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
	var retry <-chan time.Time
	if len(k.undone) > 0 {
		timer := time.NewTimer(again)
		defer timer.Stop()
		retry = timer.C
	}
	select {
	case names := <-k.changed:
		return k.step(ctx, k.look(names))
	case r := <-k.requests:
		err := r.do(k)
		if e := k.record(ctx); e != nil {
			r.done <- e
			return e
		}
		r.done <- err
		return k.step(ctx, nil)
	case app := <-k.tries.ready:
		return k.step(ctx, map[string][]deploy.Instance{app: k.instances(app)})
	case <-retry:
		seen := map[string][]deploy.Instance{}
		for app := range k.undone {
			seen[app] = k.instances(app)
		}
		clear(k.undone)
		return k.step(ctx, seen)
	case <-ctx.Done():
		return nil
	}
}

// listen passes on what changes.
func (k *keeper) listen(ctx context.Context) {
	for {
		names, err := k.cluster.Changed(ctx)
		if err != nil {
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
	gone := &api.Problem{Status: http.StatusServiceUnavailable, Message: "this scheduler leads no more: ask again"}
	select {
	case k.requests <- r:
	case <-k.ended:
		return gone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.done:
		return err
	case <-k.ended:
		return gone
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
			delete(k.jobs[app], name)
			affected[app] = true
		}
	}
	seen := map[string][]deploy.Instance{}
	for app := range affected {
		seen[app] = k.instances(app)
	}
	return seen
}

// instances are the tasks of all jobs of an app.
func (k *keeper) instances(app string) []deploy.Instance {
	var list []deploy.Instance
	for _, name := range sorted(k.jobs[app]) {
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
	for i := range j.Tasks {
		t := &j.Tasks[i]
		last := k.failures[app]
		if t.State != job.Waiting || t.Failures == 0 || !t.Changed.After(last.Timestamp.Time) {
			continue
		}
		f := api.TaskFailure{AppID: app, Message: t.Message, State: "TASK_FAILED", TaskID: t.ID, Timestamp: api.Time{Time: t.Changed}}
		for _, old := range k.state.Instances(app) {
			if old.Job == t.Job && old.State.Placed() && previous(old.TaskID, t.ID) {
				f.TaskID, f.Host, f.SlaveID, f.Version = old.TaskID, old.Hostname, old.AgentID, old.Version
			}
		}
		k.failures[app] = f
	}
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
		if err := k.bus.Publish(k.cfg.Clock(), events...); err != nil {
			k.cfg.Log.WithError(err).Error("publish events")
		}
		if len(actions) == 0 || ctx.Err() != nil {
			return nil
		}
		k.carryOut(ctx, actions)
		if seen = k.look(k.touched(actions)); len(seen) == 0 {
			return nil
		}
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
	return sorted(names)
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
