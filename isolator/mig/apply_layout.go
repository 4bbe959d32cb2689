package mig

import (
	"errors"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/isolator/layout"
)

// layoutFailure is why a PartitionedGPU is not as it is wanted, and when that is tried again.
type layoutFailure struct {
	err   error
	pause time.Duration
	retry time.Time
}

// A PartitionedGPU that could not be cut is tried again after minRetryPause, then ever more
// rarely: each try takes all ListGPUs out of the offers for a moment.
const (
	minRetryPause = time.Minute
	maxRetryPause = time.Hour
)

// ListDue tells which ListGPUs can be cut now: those that are not as they are wanted,
// nothing of which has to end that is in use.
func (c *Partitioner) ListDue(idle func(uuid string) bool) []string {
	var list []string
	for _, d := range c.gpus {
		if end, create, err := c.planChange(d.UUID); err == nil && len(end)+len(create) > 0 && (len(end) == 0 || idle(d.UUID)) {
			list = append(list, d.UUID)
		}
	}
	return list
}

// HasPending tells whether a PartitionedGPU is not as it is wanted and worth another look.
func (c *Partitioner) HasPending() bool { return len(c.ListDue(func(string) bool { return true })) > 0 }

// errRetryLater keeps one from being tried too soon after it failed.
var errRetryLater = errors.New("it failed a short time ago")

// planChange is what has to be ended and made of a PartitionedGPU.
func (c *Partitioner) planChange(uuid string) (end, create []layout.GPUInstance, err error) {
	made, wanted, _ := c.lookUpState(uuid)
	if wanted == nil {
		return nil, nil, nil
	}
	c.mu.Lock()
	later := time.Now().Before(c.failures[uuid].retry)
	c.mu.Unlock()
	if later {
		return nil, nil, errRetryLater
	}
	has, err := c.cfg.Driver.ListInstances(uuid)
	if err != nil {
		return nil, nil, err
	}
	return layout.PlanChange(c.profiles[uuid], has, made, wanted)
}

// ApplyLayouts cuts those ListGPUs that can be cut now. What goes wrong with one is logged
// and in ListGPUs, and is tried again later.
func (c *Partitioner) ApplyLayouts(idle func(uuid string) bool) {
	for _, d := range c.gpus {
		err := c.applyLayout(d.UUID, idle)
		if errors.Is(err, errRetryLater) {
			continue
		}
		c.mu.Lock()
		if err == nil {
			delete(c.failures, d.UUID)
		} else {
			pause := min(max(2*c.failures[d.UUID].pause, minRetryPause), maxRetryPause)
			c.failures[d.UUID] = layoutFailure{err, pause, time.Now().Add(pause)}
		}
		c.mu.Unlock()
		if err != nil {
			c.cfg.Log.WithError(err).WithField("gpu", d.UUID).Error("GPU is not cut as was asked for")
		}
	}
}

// applyLayout brings one PartitionedGPU to what is wanted. What it is about to make is written
// down before, and what is no more after: whenever the daemon dies, the next one
// knows its own.
func (c *Partitioner) applyLayout(uuid string, idle func(uuid string) bool) error {
	c.changeLock.Lock()
	defer c.changeLock.Unlock()
	end, create, err := c.planChange(uuid)
	if err != nil || len(end)+len(create) == 0 || len(end) > 0 && !idle(uuid) {
		return err
	}
	made, _, _ := c.lookUpState(uuid)
	if err := c.recordInstances(uuid, slices.Concat(made, create)); err != nil {
		return err
	}
	if err := errors.Join(c.changeInstances(uuid, end, create), c.pruneRecords(uuid)); err != nil {
		return err
	}
	c.cfg.Log.WithFields(logrus.Fields{"gpu": uuid, "ended": len(end), "made": len(create)}).Info("GPU cut anew")
	return nil
}

// changeInstances ends and makes instances, until one cannot be.
func (c *Partitioner) changeInstances(uuid string, end, create []layout.GPUInstance) error {
	for _, i := range end {
		if err := c.cfg.Driver.DestroyInstance(uuid, i); err != nil {
			return err
		}
	}
	for _, i := range create {
		if err := c.cfg.Driver.CreateInstance(uuid, i); err != nil {
			return err
		}
	}
	return nil
}

// pruneRecords forgets what was to be made of a PartitionedGPU and is not there: whatever comes
// to its place later another has made.
func (c *Partitioner) pruneRecords(uuid string) error {
	has, err := c.cfg.Driver.ListInstances(uuid)
	if err != nil {
		return err
	}
	made, _, _ := c.lookUpState(uuid)
	return c.recordInstances(uuid, slices.DeleteFunc(made, func(i layout.GPUInstance) bool { return !slices.Contains(has, i) }))
}

// recordInstances writes down what is made of a PartitionedGPU, or about to be.
func (c *Partitioner) recordInstances(uuid string, made []layout.GPUInstance) error {
	return c.updateState(func(gpus map[string]savedGPU) { gpus[uuid] = savedGPU{Requested: gpus[uuid].Requested, Made: made} })
}
