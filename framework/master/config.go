// Package master speaks to a Mesos master: the v1 scheduler API, by which the
// framework subscribes, launches and acknowledges, and the operator API for
// what agents there are. It decides nothing about jobs: events go to, and
// operations come from, package sched.
package master

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"
)

// Config says which master to speak to, and as whom.
type Config struct {
	// Masters are base URLs, http://host:5050, tried in turn. The leader is
	// found by asking one of them.
	Masters []string
	// Name, User and Role are the framework's. FrameworkID is empty on the
	// first subscription ever.
	Name, User, Role, FrameworkID string
	// FailoverTimeout is how long the master keeps the tasks of a framework
	// that is away.
	FailoverTimeout time.Duration
	// ExecutorPath is the mesos-gpu binary on the agents.
	ExecutorPath string
	// CallTimeout bounds each call but the subscription.
	CallTimeout time.Duration
	// BackoffMin and BackoffMax bound the wait between two subscriptions.
	BackoffMin, BackoffMax time.Duration
	Log                    logrus.FieldLogger
	// Transport is for tests; nil is a transport of its own each connection.
	Transport http.RoundTripper
	// Random gives numbers in [0,1) for jitter; nil is the shared source.
	Random func() float64
}

// missedHeartbeats is after how many the connection counts as dead.
const missedHeartbeats = 5

func (c *Config) setDefaults() {
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&c.CallTimeout, 30*time.Second)
	or(&c.BackoffMin, 500*time.Millisecond)
	or(&c.BackoffMax, 15*time.Second)
	if c.Random == nil {
		c.Random = rand.Float64
	}
}

func (c *Config) validate() error {
	if len(c.Masters) == 0 {
		return errors.New("no master given: name one, for example http://127.0.0.1:5050")
	}
	for _, m := range c.Masters {
		u, err := url.Parse(m)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("master %q is no URL such as http://127.0.0.1:5050", m)
		}
	}
	if !strings.HasPrefix(c.ExecutorPath, "/") {
		return fmt.Errorf("executor path %q is not absolute: agents start it from another directory", c.ExecutorPath)
	}
	if c.Log == nil {
		return errors.New("no log given")
	}
	return nil
}

// framework is what SUBSCRIBE says of us.
func (c *Config) framework(id string) *mesos.FrameworkInfo {
	timeout, checkpoint := c.FailoverTimeout.Seconds(), true
	info := &mesos.FrameworkInfo{
		User: c.User, Name: c.Name, Roles: []string{c.Role},
		FailoverTimeout: &timeout, Checkpoint: &checkpoint,
		Capabilities: []mesos.FrameworkInfo_Capability{
			{Type: mesos.FrameworkInfo_Capability_GPU_RESOURCES},
			{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE},
			{Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE},
			{Type: mesos.FrameworkInfo_Capability_TASK_KILLING_STATE},
			{Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT},
		},
	}
	if id != "" {
		info.ID = &mesos.FrameworkID{Value: id}
	}
	return info
}

// wait is the time before subscription number tries+1: it doubles up to
// BackoffMax, half of it by chance, so that a cluster's frameworks do not
// come back in step.
func (c *Config) wait(tries int) time.Duration {
	d := c.BackoffMin
	for range tries {
		if d *= 2; d >= c.BackoffMax {
			d = c.BackoffMax
			break
		}
	}
	return d/2 + time.Duration(c.Random()*float64(d)/2)
}
