package daemons

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/framework"
	"mesos-gpu/framework/accounting"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/marathon"
)

func (a *daemonCommands) schedulerCommand() *cobra.Command {
	cfg := framework.SchedulerConfig{}
	level, encryption, settings := "", master.TLSFiles{}, marathon.ParseSettings{}
	c := &cobra.Command{
		Use: "scheduler", Short: "Run the scheduler, a framework of Mesos", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.NewLogger(level)
			if err != nil {
				return err
			}
			cfg.Log = log
			if err := errors.Join(checkListenAddress(cfg.APIAddr), checkMaster(cfg.Master)); err != nil {
				return err
			}
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(framework.GCPercent)
			}
			if share := cfg.Sched.LimitShare; share < 1 || share > 100 {
				return fmt.Errorf("limit-share %d is not between 1 and 100", share)
			}
			if cfg.Sched.KeepRuns < 1 {
				return fmt.Errorf("keep-runs %d is not 1 or more", cfg.Sched.KeepRuns)
			}
			systemd := cli.NewNotifier(describeStatus(framework.Status{}))
			cfg.OnStatus = func(s framework.Status) { systemd.SetStatus(describeStatus(s)) }
			if encryption != (master.TLSFiles{}) || strings.HasPrefix(cfg.Master, "https://") {
				cfg.TLS = &encryption
			}
			cfg.Ready = func(addr string) {
				systemd.NotifyReady()
				fmt.Fprintf(a.Stdout, "mesos-gpu scheduler is up: API %s\n", cfg.API.URLFor(addr))
			}
			cfg.Extension = newMarathonExtension(a.Version, settings, &cfg, log)
			if !c.Flags().Changed("master") {
				log.WithField("master", cfg.Master).Warn("no --master is given: looking for one on this machine")
			}
			s, err := framework.New(cfg)
			if err != nil {
				return err
			}
			defer reloadOnHangup(s, log)()
			return systemd.RunDaemon(c.Context(), s.Run)
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Master, "master", framework.DefaultMaster,
		"zk://HOST:PORT,.../PATH as in the masters' --zk, or the URLs of one or more masters separated by commas")
	f.StringVar(&cfg.ZKAuthFile, "zk-auth-file", "", "file with USER:PASSWORD for the masters' ZooKeeper")
	f.StringVar(&cfg.CredentialFile, "credential", "", "file with the framework's principal and secret, in the format of Mesos's --credential")
	f.StringVar(&encryption.CAFile, "tls-ca", "", "certificates to trust if masters and agents use TLS")
	f.StringVar(&encryption.CertFile, "tls-cert", "", "certificate of the framework, for masters and agents that verify clients")
	f.StringVar(&encryption.KeyFile, "tls-key", "", "key of --tls-cert")
	f.StringVar(&encryption.ServerName, "tls-server-name", "", "name in the masters' and agents' certificates if it differs from their host")
	f.BoolVar(&cfg.ReregisterRemoved, "reregister-removed", false, "subscribe with a new framework id if the master has removed the framework")
	f.StringVar(&cfg.APIAddr, "listen", framework.DefaultAPIAddr, "address of the API; an address other than loopback requires --access and a certificate")
	addAPIFlags(f, &cfg.API)
	f.StringVar(&cfg.JournalPath, "journal", framework.DefaultJournal,
		"file of the journal; or zk://HOST:PORT,.../PATH for several schedulers, of which one leads")
	f.StringVar(&cfg.JournalAuthFile, "journal-auth-file", "", "file with USER:PASSWORD for a journal in ZooKeeper")
	f.StringVar(&cfg.AdvertiseURL, "advertise-url", "",
		"URL at which clients of the standbys, and agents that fetch working folders, reach this API; empty: derived from --listen")
	f.StringVar(&cfg.Workdirs, "workdirs", "",
		"folder of uploaded working folders; several schedulers share it on common storage; empty: workdirs next to the file of the journal, else "+
			framework.DefaultWorkdirs)
	addSizeFlag(f, &cfg.WorkdirsMiB, "workdirs-size", framework.DefaultWorkdirsMiB, "maximum size of --workdirs, such as 20GiB; a number without a unit is MiB")
	f.DurationVar(&cfg.KeepWorkdirs, "keep-workdirs", framework.DefaultKeepWorkdirs,
		"how long a working folder is kept after its last use; those of live jobs are kept in any case")
	f.StringVar(&cfg.Artifacts, "artifacts", "",
		"folder to which artifacts of ended tasks are copied, such as a mounted NFS, or s3://BUCKET/PREFIX; several schedulers share it; empty: jobs may have none")
	addArtifactFlags(f, &cfg, framework.DefaultOwnerArtifacts, framework.DefaultTotalArtifacts, 0)
	f.StringVar(&cfg.Accounting, "accounting", "",
		"file in which the ends of tasks are stored for mesos-gpu usage; each scheduler has its own; none: no accounting; empty: "+
			"accounting.db next to the file of the journal, else "+
			framework.DefaultAccounting)
	f.DurationVar(&cfg.KeepAccounting, "keep-accounting", accounting.DefaultKeep, "how long the accounting keeps the end of a task")
	addSizeFlag(f, &cfg.AccountingMiB, "accounting-size", accounting.DefaultMaxMiB,
		"maximum size of the accounting, such as 2GiB; a number without a unit is MiB; then the oldest ends are removed")
	f.StringVar(&cfg.ExecutorPath, "executor", framework.DefaultExecutor, "path of mesos-gpu on the agents")
	f.StringVar(&cfg.Name, "name", framework.DefaultName, "name of the framework")
	addPolicyFlags(f, &cfg)
	f.DurationVar(&cfg.Sched.HoldOffers, "hold-offers", sched.DefaultHoldOffers,
		"how long an offer that pending work can use is held; a negative value disables holding")
	addPredictFlag(f, &cfg)
	f.DurationVar(&cfg.Sched.UnreachableTimeout, "unreachable-timeout", sched.DefaultUnreachableTimeout,
		"how long an agent may be unreachable before its tasks are restarted elsewhere; a negative value means forever")
	f.IntVar(&cfg.Sched.LimitShare, "limit-share", sched.DefaultLimitShare,
		"percentage, 1 to 100, of the limits of live tasks, their texts and schedules that one role or user may use of what the others leave free")
	f.IntVar(&cfg.Sched.KeepRuns, "keep-runs", sched.DefaultKeepRuns, "how many runs of a job are kept, including the newest; roles may set another number")
	f.DurationVar(&cfg.Sched.KeepEnded, "keep-ended", 0,
		"how long the record of a job is kept after its end; 0: until --keep-runs or the limit of all ended jobs; roles may set another time")
	addAllowFlags(f, &cfg.Sched.Policy.Permissions)
	addSharedFoldersFlag(f, &cfg, nil)
	jobs.AddMarathonFlags(f, &settings)
	addServicePortsFlag(f, &settings)
	f.StringVar(&cfg.User, "user", framework.DefaultUser, "user that executors run as")
	addProcessUserFlag(f, &cfg, framework.DefaultProcessUser)
	addAutoscaleFlag(f, &cfg)
	addNotificationsFlag(f, &cfg)
	f.DurationVar(&cfg.FailoverTimeout, "failover-timeout", framework.DefaultFailoverTimeout, "how long the master keeps the tasks of a disconnected scheduler")
	cli.AddLogLevelFlag(c, &level)
	return c
}

// addPredictFlag adds the flag for predictions of run times.
func addPredictFlag(f *pflag.FlagSet, cfg *framework.SchedulerConfig) {
	f.BoolVar(&cfg.Sched.PredictRunTimes, "predict-run-times", true,
		"predict the run times of jobs that declare none from similar jobs, for backfill, the order shortest and estimated starts")
}

func addNotificationsFlag(f *pflag.FlagSet, cfg *framework.SchedulerConfig) {
	f.StringVar(&cfg.Notifications, "notifications", "",
		"file with the mail server and the hosts of webhooks that jobs may notify; read again on SIGHUP; empty: no notifications")
}

func addAutoscaleFlag(f *pflag.FlagSet, cfg *framework.SchedulerConfig) {
	f.DurationVar(&cfg.AutoscaleInterval, "autoscale-interval", leader.DefaultAutoscaleInterval,
		"time between two measurements of the load of services that are scaled by it")
}

// addPolicyFlags adds the flags about roles and placement.
func addPolicyFlags(f *pflag.FlagSet, cfg *framework.SchedulerConfig) {
	f.StringSliceVar(&cfg.Roles, "role", nil, "roles that receive offers; the first is the default role of jobs (default "+framework.DefaultRole+")")
	f.DurationVar(&cfg.Sched.HalfLife, "fair-share-half-life", 0,
		"after how long GPU time of the past counts half in the fair share of roles and of the users of a role; 0: "+
			"only what tasks hold counts")
	f.StringVar(&cfg.RolesFile, "roles", "", "file with roles, weights and quotas, instead of --role; read again on SIGHUP")
	f.StringVar((*string)(&cfg.Sched.Policy.Reclaim), "reclaim", string(placement.ReclaimDeserved),
		"what roles take back from those that hold more: deserved: what they deserve; entitled: also their part of the rest by weight")
	f.StringVar(&cfg.Sched.Policy.Fit.Name, "policy", fit.PolicyNames()[0], "placement policy: "+strings.Join(fit.PolicyNames(), ", "))
}

// addProcessUserFlag adds the flag for tasks that are processes in the agent's file system.
func addProcessUserFlag(f *pflag.FlagSet, cfg *framework.SchedulerConfig, user string) {
	f.StringVar(&cfg.ProcessUser, "process-user", user, "user of tasks without an image that name none; it must exist on the agents, which must run as root")
}

// addServicePortsFlag adds the flag for what running apps are allotted.
func addServicePortsFlag(f *pflag.FlagSet, s *marathon.ParseSettings) {
	s.ServicePorts = marathon.DefaultServicePorts
	f.Var(&s.ServicePorts, "marathon-service-ports", "service ports for Marathon apps that set 0; no two apps get the same one")
}

// addAllowFlags adds the flags that permit jobs to use resources of the host.
func addAllowFlags(f *pflag.FlagSet, a *admission.HostPermissions) {
	f.StringSliceVar(&a.Volumes, "allow-volumes", nil, "paths on agents that jobs may mount, including subfolders, such as /data,/scratch; empty: none")
	f.StringSliceVar(&a.Devices, "allow-devices", nil,
		"device nodes on agents, or folders of them, that docker tasks may open if their agent allows it too, such as /dev/infiniband; empty: none")
	f.BoolVar(&a.HostIPC, "allow-host-ipc", false, "allow jobs to share the agent's memory segments and semaphores (ipc: host)")
}

// addSharedFoldersFlag adds the flag for the folders in which tasks may start.
func addSharedFoldersFlag(f *pflag.FlagSet, cfg *framework.SchedulerConfig, folders []string) {
	f.StringSliceVar(&cfg.SharedFolders, "shared-folders", folders,
		"folders that are the same on all machines, such as /home,/data; ~ is the home of a job's owner: tasks that run as their owner may start below (chdir)")
}

// reloadOnHangup reloads roles and permissions on SIGHUP until the returned function is
// called.
func reloadOnHangup(s *framework.Scheduler, log logrus.FieldLogger) func() {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range hangups {
			if err := s.Reload(); err != nil {
				log.WithError(err).Error("roles or permissions stay as they are")
			} else {
				log.Info("roles and permissions read again")
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(hangups)
		<-ended
	}
}

// ContainerInitCommand returns the command that the embedded agent starts inside a new
// container before the container's own program.
func ContainerInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "container-init", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return container.Init(args) },
	}
}
