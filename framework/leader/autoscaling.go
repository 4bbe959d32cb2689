package leader

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/autoscale"
	"mesos-gpu/framework/autoscale/loads"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// DefaultAutoscaleInterval is the time between two measurements of a service, as in
// Kubernetes.
const DefaultAutoscaleInterval = 15 * time.Second

// maxConcurrentServices is the number of services that are measured at the same time: slow
// tasks of some do not delay the others.
const maxConcurrentServices = 8

// Autoscaler scales services by load. Its state is in memory: a new leader measures again,
// and knows when the number of tasks changed last from the job.
type Autoscaler struct {
	leader *Leader
	// interval is the time between two measurements.
	interval time.Duration
	loads    *loads.Measurer
	// mu protects services and the status of each.
	mu sync.Mutex
	// services are the services with a load target, as of the last measurement.
	services map[job.RunID]*autoscaledService
}

// autoscaledService contains a service's state between two measurements.
type autoscaledService struct {
	// past are the recommendations in the stabilization windows, oldest first. Only scaleServiceByLoad uses it, of which
	// no two calls for one service run at a time.
	past []autoscale.Recommendation
	// status is the result of the last measurement, zero before the first.
	status api.AutoscalingStatus
}

// RunAutoscaler scales services by load until ctx ends. It returns nil then. If a round takes longer than the interval,
// the next one starts at once and the rounds between are left out.
func (a *Autoscaler) RunAutoscaler(ctx context.Context) error {
	tick := time.NewTicker(a.interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.scaleByLoad(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// scaleByLoad measures all services with a load target once, and scales them.
func (a *Autoscaler) scaleByLoad(ctx context.Context) {
	services := a.leader.Model.AutoscaledServices()
	a.keepOnly(services)
	var group sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentServices)
	for i := range services {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			a.scaleServiceByLoad(ctx, &services[i])
		})
	}
	group.Wait()
}

// keepOnly forgets all services but these, and adds those that are new.
func (a *Autoscaler) keepOnly(services []job.Job) {
	a.loads.DropOtherTasks(services)
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := make(map[job.RunID]*autoscaledService, len(services))
	for i := range services {
		id := services[i].RunID()
		if kept[id] = a.services[id]; kept[id] == nil {
			kept[id] = &autoscaledService{}
		}
	}
	a.services = kept
}

// scaleServiceByLoad measures one service and scales it if its load requires that.
func (a *Autoscaler) scaleServiceByLoad(ctx context.Context, j *job.Job) {
	a.mu.Lock()
	s := a.services[j.RunID()] // only this call uses its past
	a.mu.Unlock()
	observed := a.loads.Observe(ctx, j)
	if ctx.Err() != nil {
		return
	}
	now := a.leader.loop.clock()
	policy := &j.Spec.Service.Autoscaling
	d, past := autoscale.Decide(policy, observed, s.past, j.LastScaling(), now)
	reason := d.Reason
	if d.Tasks != observed.Wanted {
		if err := a.applyScaling(ctx, j, d); err != nil {
			reason = fmt.Sprintf("%s; not scaled to %d: %v", reason, d.Tasks, err)
			a.leader.loop.log.WithError(err).WithField("job", j.Spec.Name).Warn("service is not scaled by load")
		} else {
			a.leader.loop.log.WithField("job", j.Spec.Name).WithField("from", observed.Wanted).WithField("to", d.Tasks).WithField("reason",
				d.Reason).Info("service scaled by load")
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.past = past
	s.status = api.AutoscalingStatus{
		Time:        now,
		Metric:      policy.Target.Name(),
		Target:      policy.Target.Wanted(),
		Measured:    d.Measured,
		Recommended: d.Recommended,
		Reason:      reason,
	}
	if d.Measured > 0 {
		s.status.Load = &d.Load
	}
}

// applyScaling scales a service, unless it has changed since it was measured: a user's decision that was made meanwhile
// has precedence.
func (a *Autoscaler) applyScaling(ctx context.Context, measured *job.Job, d autoscale.Decision) error {
	name := measured.RunID().String()
	return a.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		j, ok := st.Job(name)
		if !ok || j.WantedTasks() != measured.WantedTasks() {
			return fmt.Errorf("it has changed since it was measured")
		}
		if err := st.AdmitScale(name, d.Tasks); err != nil {
			return err
		}
		apply(sched.ScaleService{Job: name, Tasks: d.Tasks, Reason: d.Reason})
		return nil
	})
}

// autoscalingStatus returns the result of the last measurement of a service, nil before the
// first and for other jobs.
func (a *Autoscaler) autoscalingStatus(id job.RunID) *api.AutoscalingStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.services[id]
	if s == nil || s.status.Time.IsZero() {
		return nil
	}
	status := s.status
	return &status
}
