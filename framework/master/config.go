// Package master speaks to a Mesos master: the v1 scheduler API, by which the
// framework subscribes, launches and acknowledges, and the operator API for
// what agents there are. It finds the leading master, by ZooKeeper or by
// asking, and keeps one session with it. It decides nothing about jobs:
// events go to, and operations come from, package sched.
package master

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/sched"
)

// ConnectionConfig says which master to speak to, and as whom.
type ConnectionConfig struct {
	// Master is zk://[user:password@]host:port,…/path, as the masters' --zk,
	// or masters' URLs with commas between; the leading one is followed.
	Master string
	// ZKAuthFile has user:password for ZooKeeper, which the command line
	// would show to everybody.
	ZKAuthFile string
	// Credential is sent with each call to masters and agents; its principal
	// is the framework's. Empty sends none.
	Credential Credential
	// TLSFiles is nil where masters and agents speak plain HTTP.
	TLS *TLSFiles

	// Name, User and Roles are the framework's. FrameworkID is empty on the
	// first subscription ever.
	Name, User, FrameworkID string
	Roles                   []string
	// Hostname and WebURL are for people who look at the master; may be "".
	Hostname, WebURL string
	// MinOffer is the least that any task takes: the master offers nothing
	// with less CPUs or less memory. Zero sets no bound.
	MinOffer sched.Amount
	// FailoverTimeout is how long the master keeps the tasks of a framework
	// that is away.
	FailoverTimeout time.Duration
	// ReregisterRemoved registers under a new id when the master has removed
	// the framework, whose tasks are then gone; else Run ends with ErrRemoved.
	ReregisterRemoved bool
	// ExecutorPath is the mesos-gpu binary on the agents.
	ExecutorPath string

	// CallTimeout bounds each call but the subscription; 75 s is what Mesos
	// recommends. A call that finds no answer is tried CallTries times.
	CallTimeout time.Duration
	CallTries   int
	// CallRate bounds the calls of a session, per second.
	CallRate float64
	// BackoffMin and BackoffMax bound the wait between two subscriptions, and
	// between two tries of a call.
	BackoffMin, BackoffMax time.Duration
	// ListInterval is how often WatchAgents asks at least; more seldom where
	// the answer is a burden.
	ListInterval time.Duration
	Log          logrus.FieldLogger
	// Observer is told how the calls go; nil where nobody wants to know.
	Observer CallObserver
	// Transport is for tests; nil is a transport of its own each connection.
	Transport http.RoundTripper
	// Random gives numbers in [0,1) for jitter; nil is the shared source.
	Random func() float64

	masters masterAddresses
	tls     *tls.Config
}

// maxMissedHeartbeats is after how many the connection counts as dead.
const maxMissedHeartbeats = 5

func (c *ConnectionConfig) setDefaults() {
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&c.CallTimeout, 75*time.Second)
	or(&c.BackoffMin, 500*time.Millisecond)
	or(&c.BackoffMax, 15*time.Second)
	or(&c.ListInterval, 10*time.Second)
	if c.CallTries <= 0 {
		c.CallTries = 5
	}
	if c.CallRate <= 0 {
		c.CallRate = 500
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
}

func (c *ConnectionConfig) urlScheme() string {
	if c.TLS != nil {
		return "https"
	}
	return "http"
}

func (c *ConnectionConfig) validate() error {
	if !strings.HasPrefix(c.ExecutorPath, "/") {
		return fmt.Errorf("executor path %q is not absolute: agents start it from another directory", c.ExecutorPath)
	}
	if c.Log == nil {
		return errors.New("no log given")
	}
	if c.Credential != (Credential{}) {
		return c.Credential.validate()
	}
	return nil
}

// resolveAddresses reads what the configuration points to.
func (c *ConnectionConfig) resolveAddresses() (err error) {
	if c.masters, err = parseMasters(c.Master, c.urlScheme()); err != nil {
		return err
	}
	if c.TLS != nil {
		if c.tls, err = c.TLS.ClientConfig(); err != nil {
			return err
		}
	}
	if c.ZKAuthFile == "" {
		return nil
	}
	if c.masters.zk == nil {
		return fmt.Errorf("ZooKeeper's password file %s is of no use with masters named by URL", c.ZKAuthFile)
	}
	c.masters.zk.auth, err = zkconn.ReadAuthFile(c.ZKAuthFile, c.Log)
	return err
}

// backoff is the time before try number tries+1: it doubles up to BackoffMax,
// half of it by chance, so that a cluster's frameworks do not come back in
// step.
func (c *ConnectionConfig) backoff(tries int) time.Duration {
	d := c.BackoffMin
	for range tries {
		if d *= 2; d >= c.BackoffMax {
			d = c.BackoffMax
			break
		}
	}
	return d/2 + time.Duration(c.Random()*float64(d)/2)
}
