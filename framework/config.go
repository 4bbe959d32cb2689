// Package framework is the scheduler as a whole: one loop that takes events
// from the master and from people, has package sched decide, records the
// decision in the journal and then carries it out. It decides nothing itself.
package framework

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/sched"
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

// Config says what a Scheduler is and where it finds what it needs. The zero
// value of a field takes its default.
type Config struct {
	// Master is the URL of a master, or of several with commas between.
	// "http://" may be left out.
	Master string
	// APIAddr is where the REST API listens. It knows no passwords: other
	// addresses than loopback open the cluster to whoever reaches them.
	APIAddr string
	// JournalPath is the file that holds the jobs. Its folder is made.
	JournalPath string
	// ExecutorPath is the mesos-gpu binary on the agents.
	ExecutorPath string
	// Name, User and Role are the framework's in Mesos. Tasks run as User.
	Name, User, Role string
	// FailoverTimeout is how long the master keeps the tasks while no
	// scheduler is connected.
	FailoverTimeout time.Duration
	// Sched says how patient the scheduler is.
	Sched sched.Config
	Log   logrus.FieldLogger
	// Clock is time.Now, unless a test has its own.
	Clock func() time.Time
	// Ready is called once with the address on which the API listens.
	Ready func(apiAddr string)
}

func (c *Config) setDefaults() {
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
	or(&c.Role, DefaultRole)
	if c.FailoverTimeout == 0 {
		c.FailoverTimeout = DefaultFailoverTimeout
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Ready == nil {
		c.Ready = func(string) {}
	}
}

// Validate says what is wrong with the Config, with what to write instead.
func (c *Config) Validate() error {
	var errs []error
	if c.FailoverTimeout < 0 {
		errs = append(errs, fmt.Errorf("failover timeout %s is negative", c.FailoverTimeout))
	}
	if c.ExecutorPath != "" && !filepath.IsAbs(c.ExecutorPath) {
		errs = append(errs, fmt.Errorf("executor path %q is not absolute: agents start it from another directory", c.ExecutorPath))
	}
	if strings.ContainsAny(c.Role, " \t/") && c.Role != "*" || strings.HasPrefix(c.Role, "-") {
		errs = append(errs, fmt.Errorf("role %q: use a word without slashes or spaces", c.Role))
	}
	if c.Log == nil {
		errs = append(errs, errors.New("no log given"))
	}
	return errors.Join(errs...)
}

// masters splits the list of URLs.
func (c *Config) masters() []string {
	var urls []string
	for m := range strings.SplitSeq(c.Master, ",") {
		m = strings.TrimSpace(m)
		if m == "" {
			continue
		}
		if !strings.Contains(m, "://") {
			m = "http://" + m
		}
		urls = append(urls, strings.TrimRight(m, "/"))
	}
	return urls
}

// makeFolder makes the journal's folder: its file says what people run.
func (c *Config) makeFolder() error {
	if err := os.MkdirAll(filepath.Dir(c.JournalPath), 0o700); err != nil {
		return fmt.Errorf("make the journal's folder: %w", err)
	}
	return nil
}
