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
)

// documentPrefix begins the keys of deploy's documents; others are kept beside
// them.
const documentPrefix = "marathon/"

// retryInterval is how long after an action failed its app is looked at once more.
const retryInterval = time.Second

// controlLoop keeps the apps. One goroutine, run, owns all but the channels.
type controlLoop struct {
	cfg     *ControllerConfig
	bus     *api.EventBus
	cluster ClusterBackend
	state   *deploy.DesiredState
	// url is where this scheduler answers; settings are those that definitions
	// are read with.
	url      string
	settings marathon.ParseSettings
	// documents are those that are recorded.
	documents map[string][]byte

	owners       map[string]jobOwner           // of each job
	jobs         map[string]map[string]job.Job // of each app, by name, as last looked at
	lastFailures map[string]api.TaskFailure    // the last of each app
	staged       map[string]time.Time          // when each instance was given to its agent
	lost         map[string]bool               // instances that were lost, and may end once more
	taskEvents   []deploy.BusEvent             // of instances, not told yet
	prober       *readinessProber
	// failedActions are apps with an action that failed, and why; retry is when they
	// are looked at once more.
	failedActions map[string]error
	retry         <-chan time.Time

	changed     chan struct{}
	watchFailed chan error // has one when no changes are heard of any more
	requests    chan loopRequest
	stopped     chan struct{} // closed when run has ended
}

// loopRequest is something that people want.
type loopRequest struct {
	do   func(k *controlLoop) error
	done chan error
}

func newKeeper(ctx context.Context, cfg *ControllerConfig, bus *api.EventBus, cluster ClusterBackend) (*controlLoop, error) {
	documents, err := cluster.LoadDocuments(ctx)
	if err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	ours := map[string][]byte{}
	for key, value := range documents {
		if strings.HasPrefix(key, documentPrefix) {
			ours[key] = value
		}
	}
	state, err := deploy.LoadState(ours)
	if err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	url, _, role, err := cluster.DescribeScheduler(ctx)
	if err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	settings := cfg.Settings
	settings.Role = cmp.Or(settings.Role, role)
	return &controlLoop{
		url: url, settings: settings,
		cfg: cfg, bus: bus, cluster: cluster, state: state, documents: ours,
		owners: map[string]jobOwner{}, jobs: map[string]map[string]job.Job{}, lastFailures: map[string]api.TaskFailure{},
		staged: map[string]time.Time{}, lost: map[string]bool{}, failedActions: map[string]error{}, prober: newReadiness(cfg),
		changed: make(chan struct{}), watchFailed: make(chan error, 1), requests: make(chan loopRequest), stopped: make(chan struct{}),
	}, nil
}

// run keeps the apps until ctx ends, which is no error, or it cannot go on.
func (k *controlLoop) run(ctx context.Context) error {
	if err := k.runLoop(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

func (k *controlLoop) runLoop(ctx context.Context) error {
	defer close(k.stopped)
	var listening sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer listening.Wait()
	defer k.prober.stopAll()
	defer cancel()
	listening.Go(func() { k.watchChanges(ctx) })
	select { // nothing is done before it is known what there is
	case <-k.changed:
		if err := k.stepDeployments(ctx, k.readChanges()); err != nil {
			return err
		}
	case err := <-k.watchFailed:
		return err
	case <-ctx.Done():
		return nil
	}
	for {
		if err := k.handleNext(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// handleNext takes in what comes next.
func (k *controlLoop) handleNext(ctx context.Context) error {
	if len(k.failedActions) > 0 && k.retry == nil { // whatever else comes meanwhile
		k.retry = time.After(retryInterval)
	}
	select {
	case <-k.changed:
		return k.stepDeployments(ctx, k.readChanges())
	case r := <-k.requests:
		return k.handleRequest(ctx, r)
	case app := <-k.prober.ready:
		return k.stepDeployments(ctx, map[string][]deploy.AppInstance{app: k.instancesOf(app)})
	case <-k.retry:
		k.retry = nil
		seen := map[string][]deploy.AppInstance{}
		for app := range k.failedActions {
			seen[app] = k.instancesOf(app)
		}
		return k.stepDeployments(ctx, seen)
	case err := <-k.watchFailed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// handleRequest does what was asked for, and says so once it is recorded. Of what
// could not be, nobody knows whether another scheduler will find it.
func (k *controlLoop) handleRequest(ctx context.Context, r loopRequest) error {
	err := r.do(k)
	if e := k.recordDocuments(ctx); e != nil {
		r.done <- unavailableError("%v: see whether it was done before you ask again", e)
		return e
	}
	r.done <- err
	return k.stepDeployments(ctx, nil)
}

func unavailableError(format string, args ...any) error {
	return &api.Problem{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(format, args...)}
}

// watchChanges passes on what changes.
func (k *controlLoop) watchChanges(ctx context.Context) {
	for {
		if err := k.cluster.WaitForChange(ctx); err != nil {
			k.watchFailed <- fmt.Errorf("hear what has changed: %w", err)
			return
		}
		select {
		case k.changed <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// runInLoop runs do in the loop, and returns when what it changed is recorded.
func (k *controlLoop) runInLoop(ctx context.Context, do func(k *controlLoop) error) error {
	r := loopRequest{do: do, done: make(chan error, 1)}
	select {
	case k.requests <- r:
		return <-r.done // all that is taken is answered
	case <-k.stopped:
		return unavailableError("this scheduler leads no more: ask again")
	case <-ctx.Done():
		return unavailableError("the request ended before its turn came: %v", context.Cause(ctx))
	}
}

// stepDeployments has deploy say what is to be done, records that, does it, and has
// deploy look at what came of it: what it thinks is there must not be older
// than what it asked for. An app of which an action failed waits for its next
// try.
func (k *controlLoop) stepDeployments(ctx context.Context, seen map[string][]deploy.AppInstance) error {
	for {
		actions, events := k.state.Step(seen)
		if err := k.recordDocuments(ctx); err != nil {
			return err
		}
		k.publishEvents(events)
		if len(actions) == 0 || ctx.Err() != nil {
			k.noteResults(seen, nil)
			return nil
		}
		failed := k.executeActions(ctx, actions)
		k.noteResults(seen, failed)
		seen = k.readChanges()
		maps.DeleteFunc(seen, func(app string, _ []deploy.AppInstance) bool { return failed[app] != nil })
		if len(seen) == 0 {
			return nil
		}
	}
}

// noteResults notes which of the apps looked at have nothing undone now, and what
// went wrong with the others. It is logged once, not each time that it is
// tried again.
func (k *controlLoop) noteResults(seen map[string][]deploy.AppInstance, failed map[string]error) {
	for app := range seen {
		if failed[app] == nil {
			delete(k.failedActions, app)
		}
	}
	for app, err := range failed {
		if before := k.failedActions[app]; before == nil || before.Error() != err.Error() {
			k.cfg.Log.WithError(err).WithField("app", app).Warn("an action failed; it is tried again each second")
		}
		k.failedActions[app] = err
	}
}

// publishEvents publishes what was heard of instances and then the events, and forgets
// what was known of apps that are gone.
func (k *controlLoop) publishEvents(events []deploy.BusEvent) {
	for _, ev := range events {
		if gone, ok := ev.(deploy.AppTerminated); ok {
			delete(k.lastFailures, gone.AppID)
		}
	}
	events = append(k.taskEvents, events...)
	k.taskEvents = nil
	if err := k.bus.Publish(k.cfg.Clock(), events...); err != nil {
		k.cfg.Log.WithError(err).Error("publish events")
	}
}

// recordDocuments puts what has changed into the cluster's documents. What cannot be
// recorded must not be done: the keeper ends.
func (k *controlLoop) recordDocuments(ctx context.Context) error {
	changed := k.state.TakeChangedDocuments()
	if len(changed) == 0 {
		return nil
	}
	if err := k.cluster.PutDocuments(ctx, changed); err != nil {
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
