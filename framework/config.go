// Package framework is the scheduler as a whole: one loop that takes events
// from the master and from people, has package sched decide, records the
// decision in the journal and then carries it out. It decides nothing itself.
package framework

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
)

// Defaults for what a Config leaves out.
const (
	DefaultMaster          = "http://127.0.0.1:5050"
	DefaultAPIAddr         = "127.0.0.1:8080"
	DefaultJournal         = "/var/lib/mesos-gpu/scheduler.db"
	DefaultExecutor        = "/usr/bin/mesos-gpu"
	DefaultName            = "mesos-gpu"
	DefaultUser            = "root"
	DefaultRole            = "*"
	DefaultFailoverTimeout = 7 * 24 * time.Hour
)

// SchedulerConfig says what a Scheduler is and where it finds what it needs. The zero
// value of a field takes its default.
type SchedulerConfig struct {
	// Master is zk://HOST:PORT,HOST:PORT/PATH, as the masters' --zk, or the
	// URLFor of a master, or of several with commas between; "http://" may be
	// left out. The leading master is followed.
	Master string
	// ZKAuthFile has USER:PASSWORD for the masters' ZooKeeper; "" is without.
	ZKAuthFile string
	// CredentialFile has the principal and secret by which the framework
	// authenticates, as Mesos's own --credential file; "" is without.
	CredentialFile string
	// TLS is nil where masters and agents speak plain HTTP.
	TLS *master.TLSFiles
	// Hostname and WebURL are for people who look at the master. They may be
	// "": WebURL is then where the API is reached, which has the page too.
	Hostname, WebURL string
	// ReregisterRemoved goes on under a new framework id when the master has
	// removed the framework and killed its tasks; else Run ends.
	ReregisterRemoved bool
	// APIAddr is where the REST API listens. Beyond loopback it needs Access
	// and a certificate, unless it is Open to whoever reaches it.
	APIAddr string
	API     APIConfig
	// JournalPath is the file that holds the jobs, whose folder is made, or
	// zk://HOST:PORT,HOST:PORT/PATH. With ZooKeeper several schedulers run, of
	// which one leads and the others stand by.
	JournalPath string
	// JournalAuthFile has USER:PASSWORD for ZooKeeper; "" is without.
	JournalAuthFile string
	// AdvertiseURL is where other schedulers' clients reach this one's API;
	// made of APIAddr, or of the host's name where that is any address.
	AdvertiseURL string
	// SessionTimeout is how long ZooKeeper waits for a leader that is silent,
	// before another takes over.
	SessionTimeout time.Duration
	// Extension, where set, keeps more than jobs on this scheduler.
	Extension Extension
	// ExecutorPath is the mesos-gpu binary on the agents.
	ExecutorPath string
	// Name and User are the framework's in Mesos. Tasks run as User.
	Name, User string
	// Roles are those whose offers the framework takes, that of jobs without
	// one first. RolesFile has them with weights and quotas: see LoadRoles.
	// Both may be left out where Sched.Policy says it.
	Roles     []string
	RolesFile string
	// FailoverTimeout is how long the master keeps the tasks while no
	// scheduler is connected.
	FailoverTimeout time.Duration
	// Sched says how patient the scheduler is.
	Sched sched.SchedulerSettings
	Log   logrus.FieldLogger
	// Clock is time.Now, unless a test has its own.
	Clock func() time.Time
	// WrapJournal is for tests, which fail in between.
	WrapJournal func(journal.Journal) journal.Journal
	// Ready is called once with the address on which the API listens.
	Ready func(apiAddr string)

	counters *metrics.SchedulerCounters
}

func (c *SchedulerConfig) setDefaults() {
	or := func(s *string, def string) {
		if *s == "" {
			*s = def
		}
	}
	or(&c.Master, DefaultMaster)
	or(&c.APIAddr, DefaultAPIAddr)
	or(&c.JournalPath, DefaultJournal)
	or(&c.ExecutorPath, DefaultExecutor)
	or(&c.Name, DefaultName)
	or(&c.User, DefaultUser)
	if len(c.Roles) == 0 && len(c.Sched.Policy.Roles) == 0 {
		c.Roles = []string{DefaultRole}
	}
	for _, name := range c.Roles {
		c.Sched.Policy.Roles = append(c.Sched.Policy.Roles, queue.Role{Name: name})
	}
	if c.FailoverTimeout == 0 {
		c.FailoverTimeout = DefaultFailoverTimeout
	}
	if c.SessionTimeout == 0 {
		c.SessionTimeout = zkconn.DefaultTimeout
	}
	if c.WrapJournal == nil {
		c.WrapJournal = func(j journal.Journal) journal.Journal { return j }
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.counters == nil {
		c.counters = metrics.NewSchedulerCounters()
	}
	if c.Ready == nil {
		c.Ready = func(string) {}
	}
}

// Validate says what is wrong with the Config, with what to write instead.
func (c *SchedulerConfig) Validate() error {
	var errs []error
	if c.FailoverTimeout < 0 {
		errs = append(errs, fmt.Errorf("failover timeout %s is negative", c.FailoverTimeout))
	}
	if c.ExecutorPath != "" && !filepath.IsAbs(c.ExecutorPath) {
		errs = append(errs, fmt.Errorf("executor path %q is not absolute: agents start it from another directory", c.ExecutorPath))
	}
	errs = append(errs, c.Sched.Policy.Validate())
	if c.RolesFile != "" {
		_, err := LoadRoles(c.RolesFile)
		errs = append(errs, err)
	}
	if c.isReplicated() {
		if _, err := zkconn.ParseTarget(c.JournalPath); err != nil {
			errs = append(errs, fmt.Errorf("journal: %w", err))
		}
	} else if c.JournalAuthFile != "" {
		errs = append(errs, fmt.Errorf("journal %s is a file: a password file for ZooKeeper is of no use with it", c.JournalPath))
	}
	if u, err := url.Parse(c.AdvertiseURL); c.AdvertiseURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, fmt.Errorf("advertised address %q is no URL such as http://host:8080", c.AdvertiseURL))
	}
	errs = append(errs, c.API.checkFiles(&c.Sched.Policy.Permissions))
	if c.SessionTimeout < 0 {
		errs = append(errs, fmt.Errorf("session timeout %s is negative", c.SessionTimeout))
	}
	if c.Log == nil {
		errs = append(errs, errors.New("no log given"))
	}
	return errors.Join(errs...)
}

// isReplicated reports whether several schedulers may share the journal.
func (c *SchedulerConfig) isReplicated() bool {
	return strings.HasPrefix(c.JournalPath, zkconn.URLScheme)
}

// advertisedURL is the URL of the API that listens at addr.
func (c *SchedulerConfig) advertisedURL(addr net.Addr) string {
	if c.AdvertiseURL != "" {
		return c.AdvertiseURL
	}
	if a, ok := addr.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return c.API.URLFor(net.JoinHostPort(name, strconv.Itoa(a.Port)))
		}
	}
	return c.API.URLFor(addr.String())
}

// makeJournalFolder makes the journal's folder: its file says what people run.
func (c *SchedulerConfig) makeJournalFolder() error {
	if err := os.MkdirAll(filepath.Dir(c.JournalPath), 0o700); err != nil {
		return fmt.Errorf("make the journal's folder: %w", err)
	}
	return nil
}

// loopConfig returns the leader's part of the configuration.
func (c *SchedulerConfig) loopConfig() leader.LoopConfig {
	return leader.LoopConfig{Sched: c.Sched, Counters: c.counters, Clock: c.Clock, Log: c.Log}
}
