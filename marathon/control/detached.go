package control

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"mesos-gpu/marathon/api"
)

// DetachedController is a Controller whose caller decides when each step happens. The simulation of clusters uses it;
// everything else runs Controller.Run. It belongs to one goroutine. After an error it must not be used again.
type DetachedController struct {
	loop    *controlLoop
	bus     *api.EventBus
	handler http.Handler
}

// OpenDetached loads the apps in the cluster's documents.
func OpenDetached(ctx context.Context, cfg ControllerConfig, cluster ClusterBackend) (*DetachedController, error) {
	c := New(cfg)
	k, err := newControlLoop(ctx, &c.cfg, c.bus, cluster)
	if err != nil {
		return nil, err
	}
	c.exclusive, c.loop = k, k
	return &DetachedController{loop: k, bus: c.bus, handler: c.handler}, nil
}

// Step handles the changes of the cluster since the last Step, and repeats failed actions. It reports whether an action
// has failed, so that Step is to be called again after a while.
func (d *DetachedController) Step(ctx context.Context) (failed bool, err error) {
	changed := append(d.loop.readChanges(), slices.Sorted(maps.Keys(d.loop.failedActions))...)
	err = d.loop.stepDeployments(ctx, changed...)
	return len(d.loop.failedActions) > 0, err
}

// Serve answers a request of Marathon's API. The answer is valid only if Serve returns nil.
func (d *DetachedController) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	d.handler.ServeHTTP(w, r)
	if err := d.loop.recordDocuments(ctx); err != nil {
		return err
	}
	return d.loop.stepDeployments(ctx)
}

// ServeEvents answers a request for the event stream until CloseStreams. It may run in another goroutine once it has written
// the header.
func (d *DetachedController) ServeEvents(w http.ResponseWriter, r *http.Request) {
	d.handler.ServeHTTP(w, r)
}

// CloseStreams ends the event streams after the events so far.
func (d *DetachedController) CloseStreams() { d.bus.CloseStreams() }
