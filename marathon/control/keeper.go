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

	owners   map[string]owner              // of each job
	jobs     map[string]map[string]job.Job // of each app, by name, as last looked at
	failures map[string]api.TaskFailure    // the last of each app
	staged   map[string]time.Time          // when each instance was given to its agent
	gone     map[string]bool               // instances that were lost, and may end once more
	heard    []deploy.Event                // of instances, not told yet
	tries    *readiness
	// undone are apps with an action that failed, and why; retry is when they
	// are looked at once more.
	undone map[string]error
	retry  <-chan time.Time

	changed  chan struct{}
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
		owners: map[string]owner{}, jobs: map[string]map[string]job.Job{}, failures: map[string]api.TaskFailure{},
		staged: map[string]time.Time{}, gone: map[string]bool{}, undone: map[string]error{}, tries: newReadiness(cfg),
		changed: make(chan struct{}), deaf: make(chan error, 1), requests: make(chan request), ended: make(chan struct{}),
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
	case <-k.changed:
		if err := k.step(ctx, k.look()); err != nil {
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
	case <-k.changed:
		return k.step(ctx, k.look())
	case r := <-k.requests:
		return k.answer(ctx, r)
	case app := <-k.tries.ready:
		return k.step(ctx, map[string][]deploy.Instance{app: k.instances(app)})
	case <-k.retry:
		k.retry = nil
		seen := map[string][]deploy.Instance{}
		for app := range k.undone {
			seen[app] = k.instances(app)
		}
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
		if err := k.cluster.Changed(ctx); err != nil {
			k.deaf <- fmt.Errorf("hear what has changed: %w", err)
			return
		}
		select {
		case k.changed <- struct{}{}:
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

// step has deploy say what is to be done, records that, does it, and has
// deploy look at what came of it: what it thinks is there must not be older
// than what it asked for. An app of which an action failed waits for its next
// try.
func (k *keeper) step(ctx context.Context, seen map[string][]deploy.Instance) error {
	for {
		actions, events := k.state.Step(seen)
		if err := k.record(ctx); err != nil {
			return err
		}
		k.tell(events)
		if len(actions) == 0 || ctx.Err() != nil {
			k.content(seen, nil)
			return nil
		}
		failed := k.carryOut(ctx, actions)
		k.content(seen, failed)
		seen = k.look()
		maps.DeleteFunc(seen, func(app string, _ []deploy.Instance) bool { return failed[app] != nil })
		if len(seen) == 0 {
			return nil
		}
	}
}

// content notes which of the apps looked at have nothing undone now, and what
// went wrong with the others. It is logged once, not each time that it is
// tried again.
func (k *keeper) content(seen map[string][]deploy.Instance, failed map[string]error) {
	for app := range seen {
		if failed[app] == nil {
			delete(k.undone, app)
		}
	}
	for app, err := range failed {
		if before := k.undone[app]; before == nil || before.Error() != err.Error() {
			k.cfg.Log.WithError(err).WithField("app", app).Warn("an action failed; it is tried again each second")
		}
		k.undone[app] = err
	}
}

// tell publishes what was heard of instances and then the events, and forgets
// what was known of apps that are gone.
func (k *keeper) tell(events []deploy.Event) {
	for _, ev := range events {
		if gone, ok := ev.(deploy.AppTerminated); ok {
			delete(k.failures, gone.AppID)
		}
	}
	events = append(k.heard, events...)
	k.heard = nil
	if err := k.bus.Publish(k.cfg.Clock(), events...); err != nil {
		k.cfg.Log.WithError(err).Error("publish events")
	}
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
