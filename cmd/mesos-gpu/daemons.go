package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/executor"
	"mesos-gpu/framework"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/isolator"
	"mesos-gpu/marathon"
	"mesos-gpu/volumemgr"
)

func (a *cliApp) schedulerCommand() *cobra.Command {
	cfg := framework.SchedulerConfig{}
	level, encryption, settings := "", master.TLSFiles{}, marathon.ParseSettings{}
	c := &cobra.Command{
		Use: "scheduler", Short: "Run the framework against a Mesos master", Args: requireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.newLogger(level)
			if err != nil {
				return err
			}
			cfg.Log = log
			systemd := a.newNotifier(log, &schedulerState{})
			if encryption != (master.TLSFiles{}) || strings.HasPrefix(cfg.Master, "https://") {
				cfg.TLS = &encryption
			}
			cfg.Ready = func(addr string) {
				systemd.notifyReady()
				fmt.Fprintf(a.stdout, "mesos-gpu scheduler is up: API %s\n", cfg.API.URLFor(addr))
			}
			cfg.Extension = newMarathonExtension(settings, log)
			if !c.Flags().Changed("master") {
				log.WithField("master", cfg.Master).Warn("no --master is given: looking for one on this machine")
			}
			s, err := framework.New(cfg)
			if err != nil {
				return err
			}
			defer reloadOnHangup(s, log)()
			return systemd.runDaemon(c.Context(), s.Run)
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Master, "master", framework.DefaultMaster, "zk://HOST:PORT,.../PATH as the masters' --zk, or a master's URL, or several with commas between")
	f.StringVar(&cfg.ZKAuthFile, "zk-auth-file", "", "file with USER:PASSWORD for the masters' ZooKeeper")
	f.StringVar(&cfg.CredentialFile, "credential", "", "file with the framework's principal and secret, as Mesos's own --credential")
	f.StringVar(&encryption.CAFile, "tls-ca", "", "certificates to trust where masters and agents speak TLS")
	f.StringVar(&encryption.CertFile, "tls-cert", "", "the framework's own certificate")
	f.StringVar(&encryption.KeyFile, "tls-key", "", "its key")
	f.StringVar(&encryption.ServerName, "tls-server-name", "", "name the masters' and agents' certificates are for, where it is not their host")
	f.BoolVar(&cfg.ReregisterRemoved, "reregister-removed", false, "go on under a new framework id when the master has removed the framework")
	f.StringVar(&cfg.APIAddr, "listen", framework.DefaultAPIAddr, "address of the API; other than loopback it wants --access and a certificate")
	addAPIFlags(f, &cfg.API)
	f.StringVar(&cfg.JournalPath, "journal", framework.DefaultJournal, "file that survives a restart; or zk://HOST:PORT,.../PATH, with which several schedulers run and one leads")
	f.StringVar(&cfg.JournalAuthFile, "journal-auth-file", "", "file with USER:PASSWORD for a journal in ZooKeeper")
	f.StringVar(&cfg.AdvertiseURL, "advertise-url", "", "where the standbys' clients reach this API; made of --listen if empty")
	f.StringVar(&cfg.ExecutorPath, "executor", framework.DefaultExecutor, "path of mesos-gpu on the agents")
	f.StringVar(&cfg.Name, "name", framework.DefaultName, "the framework's name")
	addPolicyFlags(f, &cfg)
	f.DurationVar(&cfg.Sched.HoldOffers, "hold-offers", sched.DefaultHoldOffers, "how long an offer of use to waiting work stays in hand; below zero none does")
	f.DurationVar(&cfg.Sched.UnreachableTimeout, "unreachable-timeout", sched.DefaultUnreachableTimeout, "how long an agent may be away before its tasks are tried elsewhere; below zero for ever")
	addAllowFlags(f, &cfg.Sched.Policy.Permissions)
	addMarathonFlags(f, &settings)
	f.StringVar(&cfg.User, "user", framework.DefaultUser, "user that tasks run as, on the agents")
	f.DurationVar(&cfg.FailoverTimeout, "failover-timeout", framework.DefaultFailoverTimeout, "how long the master keeps the tasks of a scheduler that is away")
	addLogLevelFlag(c, &level)
	return c
}

// addPolicyFlags say whose jobs a scheduler runs, and where their tasks go.
func addPolicyFlags(f *pflag.FlagSet, cfg *framework.SchedulerConfig) {
	f.StringSliceVar(&cfg.Roles, "role", nil, "roles to get offers for, that of jobs without one first (default "+framework.DefaultRole+")")
	f.StringVar(&cfg.RolesFile, "roles", "", "file of roles with weights and quotas, instead of --role; read again on SIGHUP")
	f.StringVar(&cfg.Sched.Policy.Fit.Name, "policy", fit.PolicyNames()[0], "where tasks go: "+strings.Join(fit.PolicyNames(), ", "))
}

// addAllowFlags say what jobs may have of their agents' own.
func addAllowFlags(f *pflag.FlagSet, a *sched.HostPermissions) {
	f.StringSliceVar(&a.Volumes, "allow-volumes", nil, "paths of the agents that jobs may mount, with all below them, such as /data,/scratch; else none")
	f.BoolVar(&a.HostIPC, "allow-host-ipc", false, "let jobs share their agents' memory segments and semaphores (ipc: host)")
}

// reloadOnHangup reads roles and permissions again on SIGHUP, until the function it
// returns is called.
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

func addLogLevelFlag(c *cobra.Command, level *string) {
	c.Flags().StringVar(level, "log-level", "info", "debug, info, warn or error")
}

func (a *cliApp) executorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "executor", Short: "Run one task; Mesos agents start this", Args: requireArgs(), Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := executor.ConfigFromEnv(a.getenv)
			if err != nil {
				return err
			}
			if cfg.FrameworkID == "" {
				return errors.New("executor: MESOS_FRAMEWORK_ID is not set: a Mesos agent starts executors, people use mesos-gpu run")
			}
			cfg.ReadGrantedGPUs, cfg.WatchConditions, cfg.ReadHost = isolator.DetectDeviceAccess, watchConditions(cfg.HealthSocket), hostReader(cfg.HealthSocket)
			cfg.ReadShareLimits, cfg.ReadUsage = shareReader(cfg.HealthSocket), usageReader(cfg.HealthSocket)
			cfg.PrepareVolume = func(ctx context.Context) (string, error) {
				volume, err := volumemgr.EnsureVolume(ctx, cfg.DriverRoot, cfg.VolumesDir)
				return volume.Path, err
			}
			return executor.Run(c.Context(), cfg)
		},
	}
	c.AddCommand(a.executorExecCommand())
	return c
}

// containerInitCommand is what the embedded agent starts inside a new
// container before the container's own program.
func containerInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "container-init", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return container.Init(args) },
	}
}
