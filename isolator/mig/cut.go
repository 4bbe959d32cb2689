package mig

import (
	"errors"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/isolator/layout"
)

// trouble is why a GPU is not as it is wanted, and when that is tried again.
type trouble struct {
	err   error
	pause time.Duration
	retry time.Time
}

// A GPU that could not be cut is tried again after firstPause, then ever more
// rarely: each try takes all GPUs out of the offers for a moment.
const (
	firstPause = time.Minute
	maxPause   = time.Hour
)

// Due tells which GPUs can be cut now: those that are not as they are wanted,
// nothing of which has to end that is in use.
func (c *Cutter) Due(idle func(uuid string) bool) []string {
	var list []string
	for _, d := range c.gpus {
		if end, create, err := c.plan(d.UUID); err == nil && len(end)+len(create) > 0 && (len(end) == 0 || idle(d.UUID)) {
			list = append(list, d.UUID)
		}
	}
	return list
}

// Waiting tells whether a GPU is not as it is wanted and worth another look.
func (c *Cutter) Waiting() bool { return len(c.Due(func(string) bool { return true })) > 0 }

// errNotYet keeps one from being tried too soon after it failed.
var errNotYet = errors.New("it failed a short time ago")

// plan is what has to be ended and made of a GPU.
func (c *Cutter) plan(uuid string) (end, create []layout.Instance, err error) {
	made, wanted, _ := c.look(uuid)
	if wanted == nil {
		return nil, nil, nil
	}
	c.mu.Lock()
	later := time.Now().Before(c.trouble[uuid].retry)
	c.mu.Unlock()
	if later {
		return nil, nil, errNotYet
	}
	has, err := c.cfg.Driver.Instances(uuid)
	if err != nil {
		return nil, nil, err
	}
	return layout.Change(c.profiles[uuid], has, made, wanted)
}

// Apply cuts those GPUs that can be cut now. What goes wrong with one is logged
// and in GPUs, and is tried again later.
func (c *Cutter) Apply(idle func(uuid string) bool) {
	for _, d := range c.gpus {
		err := c.cut(d.UUID, idle)
		if errors.Is(err, errNotYet) {
			continue
		}
		c.mu.Lock()
		if err == nil {
			delete(c.trouble, d.UUID)
		} else {
			pause := min(max(2*c.trouble[d.UUID].pause, firstPause), maxPause)
			c.trouble[d.UUID] = trouble{err, pause, time.Now().Add(pause)}
		}
		c.mu.Unlock()
		if err != nil {
			c.cfg.Log.WithError(err).WithField("gpu", d.UUID).Error("GPU is not cut as was asked for")
		}
	}
}

// cut brings one GPU to what is wanted. What it is about to make is written
// down before, and what is no more after: whenever the daemon dies, the next one
// knows its own.
func (c *Cutter) cut(uuid string, idle func(uuid string) bool) error {
	c.cutting.Lock()
	defer c.cutting.Unlock()
	end, create, err := c.plan(uuid)
	if err != nil || len(end)+len(create) == 0 || len(end) > 0 && !idle(uuid) {
		return err
	}
	made, _, _ := c.look(uuid)
	if err := c.note(uuid, slices.Concat(made, create)); err != nil {
		return err
	}
	if err := errors.Join(c.turn(uuid, end, create), c.prune(uuid)); err != nil {
		return err
	}
	c.cfg.Log.WithFields(logrus.Fields{"gpu": uuid, "ended": len(end), "made": len(create)}).Info("GPU cut anew")
	return nil
}

// turn ends and makes instances, until one cannot be.
func (c *Cutter) turn(uuid string, end, create []layout.Instance) error {
	for _, i := range end {
		if err := c.cfg.Driver.Destroy(uuid, i); err != nil {
			return err
		}
	}
	for _, i := range create {
		if err := c.cfg.Driver.Create(uuid, i); err != nil {
			return err
		}
	}
	return nil
}

// prune forgets what was to be made of a GPU and is not there: whatever comes
// to its place later another has made.
func (c *Cutter) prune(uuid string) error {
	has, err := c.cfg.Driver.Instances(uuid)
	if err != nil {
		return err
	}
	made, _, _ := c.look(uuid)
	return c.note(uuid, slices.DeleteFunc(made, func(i layout.Instance) bool { return !slices.Contains(has, i) }))
}

// note writes down what is made of a GPU, or about to be.
func (c *Cutter) note(uuid string, made []layout.Instance) error {
	return c.write(func(gpus map[string]keptGPU) { gpus[uuid] = keptGPU{Asked: gpus[uuid].Asked, Made: made} })
}
