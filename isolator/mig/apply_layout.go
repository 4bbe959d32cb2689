package mig

import (
	"errors"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/isolator/layout"
)

// layoutFailure is the error of a GPU that does not have its wanted layout, and when the change
// is retried.
type layoutFailure struct {
	err   error
	pause time.Duration
	retry time.Time
}

// A failed change is retried after minRetryPause, then with doubling pauses:
// during each attempt no GPU is offered.
const (
	minRetryPause = time.Minute
	maxRetryPause = time.Hour
)

// ListDue returns the GPUs that can be changed now: those without their wanted layout for which
// no instance in use has to be destroyed.
func (p *Partitioner) ListDue(idle func(uuid string) bool) []string {
	var list []string
	for _, d := range p.gpus {
		if end, create, err := p.planChange(d.UUID); err == nil && len(end)+len(create) > 0 && (len(end) == 0 || idle(d.UUID)) {
			list = append(list, d.UUID)
		}
	}
	return list
}

// HasPending reports whether any GPU does not have its wanted layout and may be tried now.
func (p *Partitioner) HasPending() bool { return len(p.ListDue(func(string) bool { return true })) > 0 }

// errRetryLater is returned for a GPU whose last attempt failed recently.
var errRetryLater = errors.New("it failed recently")

// planChange returns the instances of a GPU to destroy and to create.
func (p *Partitioner) planChange(uuid string) (end, create []layout.GPUInstance, err error) {
	made, wanted, _ := p.lookUpState(uuid)
	if wanted == nil {
		return nil, nil, nil
	}
	p.mu.Lock()
	later := time.Now().Before(p.failures[uuid].retry)
	p.mu.Unlock()
	if later {
		return nil, nil, errRetryLater
	}
	has, err := p.cfg.Driver.ListInstances(uuid)
	if err != nil {
		return nil, nil, err
	}
	return layout.PlanChange(p.profiles[uuid], has, made, wanted)
}

// ApplyLayouts changes the GPUs that can be changed now. It logs errors, reports them in
// ListGPUs, and retries later.
func (p *Partitioner) ApplyLayouts(idle func(uuid string) bool) {
	for _, d := range p.gpus {
		err := p.applyLayout(d.UUID, idle)
		if errors.Is(err, errRetryLater) {
			continue
		}
		p.mu.Lock()
		if err == nil {
			delete(p.failures, d.UUID)
		} else {
			pause := min(max(2*p.failures[d.UUID].pause, minRetryPause), maxRetryPause)
			p.failures[d.UUID] = layoutFailure{err, pause, time.Now().Add(pause)}
		}
		p.mu.Unlock()
		if err != nil {
			p.cfg.Log.WithError(err).WithField("gpu", d.UUID).Error("cannot partition GPU as requested")
		}
	}
}

// applyLayout changes one GPU to its wanted layout. It records the instances to create before
// it creates them, and removes the records of others after. So whenever the daemon dies, the
// next one knows which instances are its own.
func (p *Partitioner) applyLayout(uuid string, idle func(uuid string) bool) error {
	p.changeLock.Lock()
	defer p.changeLock.Unlock()
	end, create, err := p.planChange(uuid)
	if err != nil || len(end)+len(create) == 0 || len(end) > 0 && !idle(uuid) {
		return err
	}
	made, _, _ := p.lookUpState(uuid)
	if err := p.recordInstances(uuid, slices.Concat(made, create)); err != nil {
		return err
	}
	if err := errors.Join(p.changeInstances(uuid, end, create), p.pruneRecords(uuid)); err != nil {
		return err
	}
	p.cfg.Log.WithFields(logrus.Fields{"gpu": uuid, "ended": len(end), "made": len(create)}).Info("GPU partitioned")
	return nil
}

// changeInstances destroys and creates instances until one fails.
func (p *Partitioner) changeInstances(uuid string, end, create []layout.GPUInstance) error {
	for _, i := range end {
		if err := p.cfg.Driver.DestroyInstance(uuid, i); err != nil {
			return err
		}
	}
	for _, i := range create {
		if err := p.cfg.Driver.CreateInstance(uuid, i); err != nil {
			return err
		}
	}
	return nil
}

// pruneRecords forgets recorded instances that do not exist: an instance that appears in such a
// place later belongs to other software.
func (p *Partitioner) pruneRecords(uuid string) error {
	has, err := p.cfg.Driver.ListInstances(uuid)
	if err != nil {
		return err
	}
	made, _, _ := p.lookUpState(uuid)
	return p.recordInstances(uuid, slices.DeleteFunc(made, func(i layout.GPUInstance) bool { return !slices.Contains(has, i) }))
}

// recordInstances saves the instances that are, or will be, created on a GPU.
func (p *Partitioner) recordInstances(uuid string, made []layout.GPUInstance) error {
	return p.updateState(func(gpus map[string]savedGPU) { gpus[uuid] = savedGPU{Requested: gpus[uuid].Requested, Made: made} })
}
