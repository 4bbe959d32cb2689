package daemons

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/framework"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/marathon"
)

func (a *daemonCommands) schedulerCommand() *cobra.Command {
	cfg := framework.SchedulerConfig{}
	level, encryption, settings := "", master.TLSFiles{}, marathon.ParseSettings{}
	c := &cobra.Command{
		Use: "scheduler", Short: "Run the framework against a Mesos master", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.NewLogger(level)
			if err != nil {
				return err
			}
			cfg.Log = log
			systemd := cli.NewNotifier(describeStatus(framework.Status{}))
			cfg.OnStatus = func(s framework.Status) { systemd.SetStatus(describeStatus(s)) }
			if encryption != (master.TLSFiles{}) || strings.HasPrefix(cfg.Master, "https://") {
				cfg.TLS = &encryption
			}
			cfg.Ready = func(addr string) {
				systemd.NotifyReady()
				fmt.Fprintf(a.Stdout, "mesos-gpu scheduler is up: API %s\n", cfg.API.URLFor(addr))
			}
			cfg.Extension = newMarathonExtension(a.Version, settings, log)
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
	jobs.AddMarathonFlags(f, &settings)
	f.StringVar(&cfg.User, "user", framework.DefaultUser, "user that tasks run as, on the agents")
	f.DurationVar(&cfg.FailoverTimeout, "failover-timeout", framework.DefaultFailoverTimeout, "how long the master keeps the tasks of a scheduler that is away")
	cli.AddLogLevelFlag(c, &level)
	return c
}

// addPolicyFlags adds the flags about roles and placement.
func addPolicyFlags(f *pflag.FlagSet, cfg *framework.SchedulerConfig) {
	f.StringSliceVar(&cfg.Roles, "role", nil, "roles to get offers for, that of jobs without one first (default "+framework.DefaultRole+")")
	f.StringVar(&cfg.RolesFile, "roles", "", "file of roles with weights and quotas, instead of --role; read again on SIGHUP")
	f.StringVar(&cfg.Sched.Policy.Fit.Name, "policy", fit.PolicyNames()[0], "where tasks go: "+strings.Join(fit.PolicyNames(), ", "))
}

// addAllowFlags adds the flags that permit jobs to use resources of the host.
func addAllowFlags(f *pflag.FlagSet, a *admission.HostPermissions) {
	f.StringSliceVar(&a.Volumes, "allow-volumes", nil, "paths of the agents that jobs may mount, with all below them, such as /data,/scratch; else none")
	f.BoolVar(&a.HostIPC, "allow-host-ipc", false, "let jobs share their agents' memory segments and semaphores (ipc: host)")
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
