// Package framework assembles the scheduler: one loop receives events from the
// master and requests from clients, calls package sched for decisions, commits
// them to the journal and then carries them out. It makes no scheduling
// decisions itself.
package framework

import (
	"cmp"
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

	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/notifier"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/taskoutput"
)

// Defaults of SchedulerConfig.
const (
	DefaultMaster          = "http://127.0.0.1:5050"
	DefaultAPIAddr         = "127.0.0.1:8080"
	DefaultJournal         = "/var/lib/mesos-gpu/scheduler.db"
	DefaultExecutor        = "/usr/bin/mesos-gpu"
	DefaultName            = "mesos-gpu"
	DefaultUser            = "root"
	DefaultProcessUser     = "nobody"
	DefaultRole            = "*"
	DefaultFailoverTimeout = 7 * 24 * time.Hour
	DefaultWorkdirs        = "/var/lib/mesos-gpu/scheduler/workdirs"
	DefaultWorkdirsMiB     = 20 << 10
	DefaultKeepWorkdirs    = 7 * 24 * time.Hour
	DefaultArtifactsMiB    = 10 << 10
	DefaultOwnerArtifacts  = 100 << 10
	DefaultTotalArtifacts  = 1 << 20
	DefaultOutputMiB       = 1
	DefaultAccounting      = "/var/lib/mesos-gpu/scheduler/accounting.db"
)

// NoAccounting as the file of the accounting disables it.
const NoAccounting = "none"

// GCPercent is the GOGC of a process that only runs a scheduler, which holds the jobs in memory
// for a long time: its memory may grow by half, not by the default of 100 %, before the garbage
// collector runs.
const GCPercent = 50

// SchedulerConfig configures a Scheduler. A field with its zero value gets its
// default.
type SchedulerConfig struct {
	// Master is zk://HOST:PORT,HOST:PORT/PATH, as in the masters' --zk, or the
	// URLs of one or more masters, separated by commas; "http://" is optional.
	// The client connects to the leading master.
	Master string
	// ZKAuthFile holds USER:PASSWORD for the masters' ZooKeeper; "" disables authentication.
	ZKAuthFile string
	// CredentialFile holds the principal and secret with which the framework
	// authenticates, in the format of Mesos's --credential; "" disables authentication.
	CredentialFile string
	// TLS is nil if masters and agents use plain HTTP.
	TLS *master.TLSFiles
	// ReregisterRemoved makes the scheduler register under a new framework id
	// after the master has removed the framework and killed its tasks. If it is
	// false, Run fails.
	ReregisterRemoved bool
	// APIAddr is the HOST:PORT on which the REST API listens. An address other
	// than loopback requires API.AccessFile and a certificate, or API.Open.
	APIAddr string
	API     APIConfig
	// JournalPath is the journal's file, whose folder is created, or
	// zk://HOST:PORT,HOST:PORT/PATH. With ZooKeeper several schedulers can run:
	// one is the leader, the others are standbys.
	JournalPath string
	// ExpectNewJournal omits the warning that the journal is new.
	ExpectNewJournal bool
	// JournalAuthFile holds USER:PASSWORD for the journal's ZooKeeper; "" disables authentication.
	JournalAuthFile string
	// Workdirs is the folder of the uploaded working folders. Several schedulers
	// share it on common storage, or jobs that wait lose their folder in a failover.
	// "" is workdirs beside the journal's file, else DefaultWorkdirs.
	Workdirs string
	// WorkdirsMiB bounds the folder's size, and KeepWorkdirs is how long it keeps an
	// archive after the last job that uses it.
	WorkdirsMiB  int64
	KeepWorkdirs time.Duration
	// Artifacts is the folder, or s3://BUCKET/PREFIX, to which artifacts of ended tasks are copied; "" disables
	// them. ArtifactsMiB bounds those of one task, OwnerArtifactsMiB those of one owner and TotalArtifactsMiB all; 0 is
	// the default. KeepArtifacts is how long they are kept; 0 keeps them until the operator removes them.
	Artifacts         string
	ArtifactsMiB      int64
	OwnerArtifactsMiB int64
	TotalArtifactsMiB int64
	KeepArtifacts     time.Duration
	// OutputMiB bounds the end of each task's output that is stored with the artifacts as long as the job's record; 0 stores
	// none.
	OutputMiB int64
	// Accounting is the file in which the ends of attempts are stored, NoAccounting for none.
	// Each scheduler has its own. "" is accounting.db beside the journal's file, else
	// DefaultAccounting. KeepAccounting is how long records are kept, AccountingMiB the
	// largest size of the file.
	Accounting     string
	KeepAccounting time.Duration
	AccountingMiB  int64
	// AdvertiseURL is the URL at which clients of other schedulers reach this
	// API, and agents the working folders. It defaults to APIAddr, with the host's name if that is an
	// unspecified address.
	AdvertiseURL string
	// SessionTimeout is how long ZooKeeper waits for a silent leader before
	// another scheduler takes over.
	SessionTimeout time.Duration
	// Extension is an optional part that manages more than jobs; nil without an extension.
	Extension Extension
	// ExecutorPath is the path of the mesos-gpu binary on the agents.
	ExecutorPath string
	// Name and User are the framework's name and user in Mesos. Executors run as User.
	Name, User string
	// ProcessUser is the user of tasks without an image that name none: they are processes in
	// the agent's own file system. "" is User.
	ProcessUser string
	// Roles are the roles to which the framework subscribes. The first is the
	// default role of jobs. RolesFile holds roles with weights and quotas: see
	// LoadRoles. Both may be empty if Sched.Policy has roles.
	Roles     []string
	RolesFile string
	// SharedFolders is leader.Config.SharedFolders: absolute paths, and leader.OwnerHome.
	SharedFolders []string
	// Notifications is the file that configures notifications, as of notifier.LoadSettings; "" disables them.
	Notifications string
	// AutoscaleInterval is the time between two measurements of the load of services that
	// are scaled by it. 0 stands for leader.DefaultAutoscaleInterval.
	AutoscaleInterval time.Duration
	// FailoverTimeout is how long the master keeps the tasks running while no
	// scheduler is connected.
	FailoverTimeout time.Duration
	// Sched holds the scheduling policy, timeouts and limits.
	Sched sched.SchedulerSettings
	Log   logrus.FieldLogger
	// Clock defaults to time.Now; tests replace it.
	Clock func() time.Time
	// WrapJournal wraps the journal in tests, to inject failures.
	WrapJournal func(journal.Journal) journal.Journal
	// Ready is called once with the address on which the API listens.
	Ready func(apiAddr string)
	// OnStatus, if set, is called with each new status. It must not block.
	OnStatus func(Status)

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
	if c.WorkdirsMiB == 0 {
		c.WorkdirsMiB = DefaultWorkdirsMiB
	}
	if c.ArtifactsMiB == 0 {
		c.ArtifactsMiB = DefaultArtifactsMiB
	}
	c.OwnerArtifactsMiB = cmp.Or(c.OwnerArtifactsMiB, DefaultOwnerArtifacts)
	c.TotalArtifactsMiB = cmp.Or(c.TotalArtifactsMiB, DefaultTotalArtifacts)
	if c.KeepWorkdirs == 0 {
		c.KeepWorkdirs = DefaultKeepWorkdirs
	}
	switch {
	case c.Workdirs != "":
	case c.isReplicated():
		c.Workdirs = DefaultWorkdirs
	default:
		c.Workdirs = filepath.Join(filepath.Dir(c.JournalPath), "workdirs")
	}
	switch {
	case c.Accounting != "":
	case c.isReplicated():
		c.Accounting = DefaultAccounting
	default:
		c.Accounting = filepath.Join(filepath.Dir(c.JournalPath), "accounting.db")
	}
	if c.WrapJournal == nil {
		c.WrapJournal = func(j journal.Journal) journal.Journal { return j }
	}
	if c.OnStatus == nil {
		c.OnStatus = func(Status) {}
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

// artifactLimits returns the bounds of the store of artifacts.
func (c *SchedulerConfig) artifactLimits() artifacts.Limits {
	return artifacts.Limits{
		Task:  c.ArtifactsMiB << 20,
		Owner: c.OwnerArtifactsMiB << 20,
		Total: c.TotalArtifactsMiB << 20,
		Keep:  c.KeepArtifacts,
	}
}

// Validate returns all errors in the configuration, each with its remedy.
func (c *SchedulerConfig) Validate() error {
	var errs []error
	if c.AutoscaleInterval < 0 {
		errs = append(errs, fmt.Errorf("autoscale interval %s is negative", c.AutoscaleInterval))
	}
	if err := queue.ValidateHalfLife(c.Sched.HalfLife); err != nil {
		errs = append(errs, fmt.Errorf("fair-share %w", err))
	}
	if c.FailoverTimeout < 0 {
		errs = append(errs, fmt.Errorf("failover timeout %s is negative", c.FailoverTimeout))
	}
	if c.ExecutorPath != "" && !filepath.IsAbs(c.ExecutorPath) {
		errs = append(errs, fmt.Errorf("executor path %q is not absolute: agents start it from another directory", c.ExecutorPath))
	}
	errs = append(errs, c.Sched.Policy.Validate(), queue.ValidateRetention(c.Sched.KeepRuns, c.Sched.KeepEnded))
	if c.isReplicated() {
		if _, err := zkconn.ParseTarget(c.JournalPath); err != nil {
			errs = append(errs, fmt.Errorf("journal: %w", err))
		}
	} else if c.JournalAuthFile != "" {
		errs = append(errs, fmt.Errorf("journal %s is a file: a password file for ZooKeeper has no effect", c.JournalPath))
	}
	if u, err := url.Parse(c.AdvertiseURL); c.AdvertiseURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, fmt.Errorf("advertised address %q is not a URL such as http://host:8080", c.AdvertiseURL))
	}
	errs = append(errs, c.API.checkFiles(&c.Sched.Policy.Permissions), c.API.checkLimits())
	for of, mib := range map[string]int64{"a task": c.ArtifactsMiB, "an owner": c.OwnerArtifactsMiB, "all owners": c.TotalArtifactsMiB} {
		if mib < 0 {
			errs = append(errs, fmt.Errorf("artifacts of %s: %d MiB is negative", of, mib))
		}
	}
	if c.KeepArtifacts < 0 {
		errs = append(errs, fmt.Errorf("artifacts are kept for %s, which is negative", c.KeepArtifacts))
	}
	if c.OutputMiB < 0 || c.OutputMiB > taskoutput.MaxTailBytes>>20 {
		errs = append(errs, fmt.Errorf("stored output of a task: %d MiB is not 0 to %d MiB", c.OutputMiB, taskoutput.MaxTailBytes>>20))
	}
	if c.WorkdirsMiB < 0 || c.KeepWorkdirs < 0 {
		errs = append(errs, fmt.Errorf("working folders: %d MiB for %s is negative", c.WorkdirsMiB, c.KeepWorkdirs))
	}
	for _, folder := range c.SharedFolders {
		if folder != leader.OwnerHome && !filepath.IsAbs(folder) {
			errs = append(errs, fmt.Errorf("shared folder %q is neither an absolute path such as /data nor %s, the home of a job's owner", folder, leader.OwnerHome))
		}
	}
	if c.KeepAccounting < 0 || c.AccountingMiB < 0 {
		errs = append(errs, fmt.Errorf("accounting: %d MiB for %s is negative", c.AccountingMiB, c.KeepAccounting))
	}
	if c.Notifications != "" {
		_, err := notifier.LoadSettings(c.Notifications)
		errs = append(errs, err)
	}
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

// advertisedURL returns the URL of the API that listens at addr.
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

// makeJournalFolder creates the journal's folder, readable by its owner only: the
// journal holds the commands of all jobs.
func (c *SchedulerConfig) makeJournalFolder() error {
	if err := os.MkdirAll(filepath.Dir(c.JournalPath), 0o700); err != nil {
		return fmt.Errorf("make the journal's folder: %w", err)
	}
	return nil
}
