// Package usage collects the GPU usage that agents measure for running tasks and stores
// its recent history in memory. A new leader starts with an empty history. Usage is
// read from files that tasks can write, so no decision may depend on it but the number of
// tasks of their own service.
package usage

import (
	"context"
	"errors"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// sampleLifetime is how long a sample is returned without a new read;
	// maxSampleAge is the age from which its values are stale.
	sampleLifetime = 5 * time.Second
	maxSampleAge   = 30 * time.Second
	// maxConcurrentReads limits concurrent reads from agents, each of which may take
	// UsageReadTimeout; usageCollectTimeout limits a whole collection.
	maxConcurrentReads  = 32
	usageCollectTimeout = 15 * time.Second
)

// Collector reads usage files from agents and caches them, so that many clients cause
// no more reads than one.
type Collector struct {
	// model has the running tasks.
	model *readmodel.Model
	// read returns the latest usage that the task's agent has measured.
	read func(context.Context, *job.Task) (gpu.TaskUsage, error)

	// once creates collecting.
	once sync.Once
	// collecting has an element during a collection: there is one at a time.
	collecting chan struct{}
	// last are the latest samples by task id. Each collection removes those that are older
	// than sampleLifetime. Only a collection uses it.
	last map[string]usageSample
	// history stores the samples of running tasks.
	history historyStore
}

// New returns a collector for the running tasks of a read model.
func New(model *readmodel.Model, read func(context.Context, *job.Task) (gpu.TaskUsage, error)) *Collector {
	return &Collector{model: model, read: read}
}

// usageSample is the result of one read of a task's usage.
type usageSample struct {
	// at is when it was read.
	at time.Time
	// usage is the agent's measurement, unless err contains the reason why it could not be read.
	usage gpu.TaskUsage
	err   error
}

// collectUsage returns a sample for each task and reads those that are not fresh. A
// caller that arrives during a collection waits for its end and uses its results.
func (c *Collector) collectUsage(
	ctx context.Context, users []readmodel.GPUTask, read func(context.Context, *job.Task) (gpu.TaskUsage, error),
) ([]usageSample, error) {
	c.once.Do(func() { c.collecting, c.last = make(chan struct{}, 1), map[string]usageSample{} })
	select {
	case c.collecting <- struct{}{}:
		defer func() { <-c.collecting }()
	case <-ctx.Done():
		return nil, api.NewUnavailable("the request ended before the agents were asked: %v", context.Cause(ctx))
	}
	now := time.Now()
	for id, t := range c.last {
		if now.Sub(t.at) >= sampleLifetime {
			delete(c.last, id)
		}
	}
	all := make([]usageSample, len(users))
	var ask []int
	for i := range users {
		if kept, ok := c.last[users[i].ID]; ok {
			all[i] = kept
		} else {
			ask = append(ask, i)
		}
	}
	c.readConcurrently(ctx, ask, func(ctx context.Context, i int) {
		u, err := read(ctx, &users[i].Task)
		all[i] = usageSample{time.Now(), u, err}
	})
	if ctx.Err() != nil { // the reads failed because of ctx, not because of the agents
		return nil, api.NewUnavailable("the request ended before the agents had answered: %v", context.Cause(ctx))
	}
	for _, i := range ask {
		c.last[users[i].ID] = all[i]
		c.history.addSample(&users[i], all[i])
	}
	return all, nil
}

// readConcurrently calls do for each element, up to maxConcurrentReads at a time.
func (c *Collector) readConcurrently(ctx context.Context, all []int, do func(context.Context, int)) {
	ctx, cancel := context.WithTimeout(ctx, usageCollectTimeout)
	defer cancel()
	next := make(chan int)
	var readers sync.WaitGroup
	for range min(maxConcurrentReads, len(all)) {
		readers.Go(func() {
			for i := range next {
				do(ctx, i)
			}
		})
	}
	for _, i := range all {
		next <- i
	}
	close(next)
	readers.Wait()
}

// usageView returns the API's view of a sample.
func usageView(u *readmodel.GPUTask, t usageSample, now time.Time) api.TaskUsage {
	v := api.TaskUsage{Task: u.ID, Job: u.Job, Index: u.Index, Role: u.Role, Hostname: u.Hostname, Devices: t.usage.Devices, Simulated: t.usage.Simulated}
	switch {
	case errors.Is(t.err, master.ErrNoFile):
		v.Note = "the agent reports no GPU usage: mesos-gpu agent does not run there, or has not measured yet"
	case t.err != nil:
		v.Note = t.err.Error()
	default:
		age := now.Sub(t.usage.Time)
		seconds := max(age, 0).Seconds()
		v.AgeSeconds, v.Note = &seconds, staleNote(age)
	}
	if len(v.Devices) == 0 {
		v.Devices = make([]gpu.DeviceUsage, len(u.DeviceIDs))
		for i, id := range u.DeviceIDs {
			v.Devices[i].UUID = id
		}
	}
	return v
}

// staleNote returns why values of that age are stale, "" if they are not.
func staleNote(age time.Duration) string {
	switch {
	case age > maxSampleAge:
		return "stale: the agent reports nothing new"
	case age < -maxSampleAge:
		return "stale: its agent's clock is ahead"
	}
	return ""
}
