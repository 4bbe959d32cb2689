// Package master connects to a Mesos master: it uses the v1 scheduler API, by
// which the framework subscribes, launches and acknowledges, and the operator
// API, which lists agents. It finds the leading master through ZooKeeper or
// redirects, and maintains one session with it. It decides nothing about jobs:
// events go to package sched, operations come from it.
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
	"mesos-gpu/internal/backoff"
	"mesos-gpu/job"
)

// ConnectionConfig is the master to connect to and the identity of the
// framework.
type ConnectionConfig struct {
	// Master is zk://[user:password@]host:port,…/path, as the masters' --zk,
	// or a comma-separated list of masters' URLs. The client follows the
	// leader.
	Master string
	// ZKAuthFile has user:password for ZooKeeper, so that the password is not
	// visible on the command line.
	ZKAuthFile string
	// Credential is sent with each call to masters and agents. Its principal
	// is the framework's. An empty one sends none.
	Credential Credential
	// TLS is nil if masters and agents use plain HTTP.
	TLS *TLSFiles

	// Name, User and Roles are the framework's. FrameworkID is empty for the
	// first subscription.
	Name, User, FrameworkID string
	Roles                   []string
	// ProcessUser is the user of tasks without an image that name none; "" is
	// the framework's.
	ProcessUser string
	// WebURL is shown in the master's UI; it may be "".
	WebURL string
	// MinOffer is the minimum that any task needs: the master sends no offers
	// with less CPUs or memory. Zero means no minimum.
	MinOffer sched.Amount
	// FailoverTimeout is how long the master keeps the tasks of a disconnected
	// framework.
	FailoverTimeout time.Duration
	// ReregisterRemoved registers a new framework if the master has removed
	// this one with its tasks. Otherwise Run returns ErrRemoved.
	ReregisterRemoved bool
	// ExecutorPath is the path of the mesos-gpu binary on the agents.
	ExecutorPath string

	// WorkdirURL returns the URL from which agents fetch the working folder of a
	// run; it may be nil if no job has one. A task whose URL it does not return is
	// not launched and ends as REFUSED.
	WorkdirURL func(run job.RunID, workdir string) (string, error)

	// callTimeout bounds each call except the subscription; Mesos recommends
	// 75 s. A call without an answer is attempted callTries times.
	callTimeout time.Duration
	// backoffMin and backoffMax bound the pause between two subscriptions and
	// between two attempts of a call.
	backoffMin, backoffMax time.Duration
	// listInterval is the interval of WatchAgents. It is longer if lists take
	// long.
	listInterval time.Duration
	// Log reports connections, refused calls and agents that cannot be read.
	Log logrus.FieldLogger
	// Observer receives the results of calls; nil for none.
	Observer CallObserver
	// OnStatus, if set, is called by Run with each change of the connection. Calls are
	// sequential. It must not block.
	OnStatus func(ConnectionStatus)
	// Transport replaces the HTTP transport in tests. If nil, each session
	// gets its own.
	Transport http.RoundTripper
	// random returns numbers in [0,1) for jitter; nil means the shared source.
	random func() float64

	// masters and tls are set by resolveAddresses.
	masters masterAddresses
	tls     *tls.Config
}

const (
	// callTries is how often a call without an answer is attempted.
	callTries = 5
	// callRate bounds the calls of a session per second.
	callRate = 2000.0
)

// maxMissedHeartbeats is the number of missed heartbeats after which the
// connection counts as dead.
const maxMissedHeartbeats = 5

// setDefaults replaces zero and negative values of timeouts and limits.
func (c *ConnectionConfig) setDefaults() {
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&c.callTimeout, 75*time.Second)
	or(&c.backoffMin, 500*time.Millisecond)
	or(&c.backoffMax, 15*time.Second)
	or(&c.listInterval, 10*time.Second)
	if c.random == nil {
		c.random = rand.Float64
	}
}

// urlScheme returns the scheme of masters and agents that are named without one.
func (c *ConnectionConfig) urlScheme() string {
	if c.TLS != nil {
		return "https"
	}
	return "http"
}

// validate checks what must be set. Addresses are checked by resolveAddresses.
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

// resolveAddresses parses the addresses and reads the files that the
// configuration names.
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
		return fmt.Errorf("ZooKeeper's password file %s has no effect with masters named by URL", c.ZKAuthFile)
	}
	c.masters.zk.auth, err = zkconn.ReadAuthFile(c.ZKAuthFile, c.Log)
	return err
}

// backoff returns the pause before attempt tries+1. It doubles up to
// backoffMax; half of it is random, so that the frameworks of a cluster do not
// reconnect at the same moment.
func (c *ConnectionConfig) backoff(tries int) time.Duration {
	d := backoff.Delay(c.backoffMin, c.backoffMax, tries)
	return d/2 + time.Duration(c.random()*float64(d)/2)
}
