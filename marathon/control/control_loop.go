package control

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
	"mesos-gpu/marathon/deploy"
)

// retryInterval is when an app is evaluated again after an action failed.
const retryInterval = time.Second

// controlLoop runs the apps. The goroutine of run owns all fields except the channels. Jobs
// and their tasks are not among them: they are read from the cluster when they are needed.
type controlLoop struct {
	cfg *ControllerConfig
	bus *api.EventBus
	// cluster runs the jobs and stores the documents.
	cluster ClusterBackend
	// state is loaded from the documents when the loop is created. Requests and
	// stepDeployments change it.
	state *deploy.DesiredState
	// url is the base URL of this scheduler. settings are the defaults of
	// definitions. Neither changes while the loop runs.
	url      string
	settings marathon.ParseSettings

	// lastFailures are the last failures by app. They are forgotten when the app is
	// removed, or another scheduler leads.
	lastFailures map[string]api.TaskFailure
	// staged are the times at which live instances were sent to their agents, by task
	// id. Instances from before a failover are missing.
	staged map[string]time.Time
	// health has the reported results of the health checks of live instances, by task id.
	health map[string]*healthHistory
	// lost are the ids of lost instances, which may still report their end.
	lost map[string]bool
	// taskEvents are events of instances. The next publishEvents publishes and removes them.
	taskEvents []deploy.BusEvent
	// prober probes the running instances that are not ready.
	prober *readinessProber
	// failedActions are the errors of failed actions by app, until the app is
	// evaluated without an error. retry fires when these apps are evaluated again.
	failedActions map[string]error
	retry         <-chan time.Time
	// pause fires when changes of the cluster are handled again. It is set after changes were handled, to a multiple of
	// the time that took, so that changes of many instances are handled together and the loop answers requests meanwhile.
	pause <-chan time.Time

	changed     chan struct{}    // signals that the cluster has changes
	watchFailed chan error       // gets the error if changes cannot be watched any more
	requests    chan loopRequest // of runInLoop
	stopped     chan struct{}    // closed when run has ended
}

// loopRequest is a function to be run in the loop.
type loopRequest struct {
	do   func(k *controlLoop) error
	done chan error
}

func newControlLoop(ctx context.Context, cfg *ControllerConfig, bus *api.EventBus, cluster ClusterBackend) (*controlLoop, error) {
	documents, err := cluster.LoadDocuments(ctx)
	if err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	url, _, role, err := cluster.DescribeScheduler(ctx)
	if err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	settings := cfg.Settings
	settings.Role = cmp.Or(settings.Role, role)
	k := &controlLoop{
		url: url, settings: settings, cfg: cfg, bus: bus, cluster: cluster, lastFailures: map[string]api.TaskFailure{},
		staged: map[string]time.Time{}, health: map[string]*healthHistory{}, lost: map[string]bool{}, failedActions: map[string]error{}, prober: newReadiness(cfg),
		changed: make(chan struct{}), watchFailed: make(chan error, 1), requests: make(chan loopRequest), stopped: make(chan struct{}),
	}
	if k.state, err = k.loadState(documents); err != nil {
		return nil, fmt.Errorf("load apps: %w", err)
	}
	return k, nil
}

func (l *controlLoop) loadState(documents map[string][]byte) (*deploy.DesiredState, error) {
	state, err := deploy.LoadState(documents, l.instancesOf)
	if err == nil {
		state.ServicePorts = cmp.Or(l.settings.ServicePorts, marathon.DefaultServicePorts)
	}
	return state, err
}

// run runs until ctx ends, then it returns nil, or until it fails.
func (l *controlLoop) run(ctx context.Context) error {
	if err := l.runLoop(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

func (l *controlLoop) runLoop(ctx context.Context) error {
	defer close(l.stopped)
	var listening sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer listening.Wait()
	defer l.prober.stopAll()
	defer cancel()
	listening.Go(func() { l.watchChanges(ctx) })
	select { // no action before the instances are known
	case <-l.changed:
		if err := l.stepDeployments(ctx, l.readChanges()...); err != nil {
			return err
		}
	case err := <-l.watchFailed:
		return err
	case <-ctx.Done():
		return nil
	}
	for {
		if err := l.handleNext(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// pauseFactor is how long the loop handles no changes after it has, as a multiple of the time that took.
const pauseFactor = 2

// handleNext waits for the next change or request and handles it.
func (l *controlLoop) handleNext(ctx context.Context) error {
	if len(l.failedActions) > 0 && l.retry == nil { // not postponed by other events
		l.retry = time.After(retryInterval)
	}
	changed := l.changed
	if l.pause != nil {
		changed = nil
	}
	select {
	case <-changed:
		began := time.Now()
		err := l.stepDeployments(ctx, l.readChanges()...)
		l.pause = time.After(pauseFactor * time.Since(began))
		return err
	case <-l.pause:
		l.pause = nil
		return nil
	case r := <-l.requests:
		return l.handleRequest(ctx, r)
	case app := <-l.prober.ready:
		return l.stepDeployments(ctx, app)
	case <-l.retry:
		l.retry = nil
		return l.stepDeployments(ctx, slices.Collect(maps.Keys(l.failedActions))...)
	case err := <-l.watchFailed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// handleRequest runs a request and answers once its changes are recorded. If recording
// fails, the changes may or may not be recorded, and the loop ends.
func (l *controlLoop) handleRequest(ctx context.Context, r loopRequest) error {
	err := r.do(l)
	if e := l.recordDocuments(ctx); e != nil {
		r.done <- unavailableError("%v: check whether it was done before you ask again", e)
		return e
	}
	r.done <- err
	return l.stepDeployments(ctx)
}

func unavailableError(format string, args ...any) error {
	return &api.ErrorResponse{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf(format, args...)}
}

// watchChanges signals changes of the cluster to the loop.
func (l *controlLoop) watchChanges(ctx context.Context) {
	for {
		if err := l.cluster.WaitForChange(ctx); err != nil {
			l.watchFailed <- fmt.Errorf("watch changes: %w", err)
			return
		}
		select {
		case l.changed <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// runInLoop runs do in the loop and returns when its changes are recorded.
func (l *controlLoop) runInLoop(ctx context.Context, do func(k *controlLoop) error) error {
	r := loopRequest{do: do, done: make(chan error, 1)}
	select {
	case l.requests <- r:
		return <-r.done // the loop answers every request that it has accepted
	case <-l.stopped:
		return unavailableError("this scheduler no longer leads: ask again")
	case <-ctx.Done():
		return unavailableError("the request ended before it was handled: %v", context.Cause(ctx))
	}
}

// stepDeployments calls deploy, records the changes, executes the actions, and repeats that
// for the apps that the actions have changed. An app with a failed action waits for
// retryInterval.
func (l *controlLoop) stepDeployments(ctx context.Context, changed ...string) error {
	for {
		actions, events := l.state.Step(changed...)
		if err := l.recordDocuments(ctx); err != nil {
			return err
		}
		l.publishEvents(events)
		if len(actions) == 0 || ctx.Err() != nil {
			l.noteResults(changed, nil)
			return nil
		}
		failed := l.executeActions(ctx, actions)
		l.noteResults(changed, failed)
		changed = slices.DeleteFunc(l.readChanges(), func(app string) bool { return failed[app] != nil })
		if len(changed) == 0 {
			return nil
		}
	}
}

// noteResults updates failedActions after the apps were evaluated. An error is logged once,
// not at each retry.
func (l *controlLoop) noteResults(apps []string, failed map[string]error) {
	for _, app := range apps {
		if failed[app] == nil {
			delete(l.failedActions, app)
		}
	}
	for app, err := range failed {
		if before := l.failedActions[app]; before == nil || before.Error() != err.Error() {
			l.cfg.Log.WithError(err).WithField("app", app).Warn("an action failed; it is tried again each second")
		}
		l.failedActions[app] = err
	}
}

// publishEvents publishes the events of instances and then the given events. It forgets the
// failures of removed apps.
func (l *controlLoop) publishEvents(events []deploy.BusEvent) {
	for _, ev := range events {
		if gone, ok := ev.(deploy.AppTerminated); ok {
			delete(l.lastFailures, gone.AppID)
		}
	}
	events = append(l.taskEvents, events...)
	l.taskEvents = nil
	if err := l.bus.Publish(l.cfg.Clock(), events...); err != nil {
		l.cfg.Log.WithError(err).Error("publish events")
	}
}

// recordDocuments writes the changed documents to the cluster. If that fails the loop must
// end, because actions are only executed after their changes are recorded.
func (l *controlLoop) recordDocuments(ctx context.Context) error {
	changed := l.state.TakeChangedDocuments()
	if len(changed) == 0 {
		return nil
	}
	if err := l.cluster.PutDocuments(ctx, changed); err != nil {
		return fmt.Errorf("record apps: %w", err)
	}
	return nil
}
