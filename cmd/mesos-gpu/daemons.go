package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/executor"
	"mesos-gpu/framework"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/volumemgr"
)

func (a *app) schedulerCommand() *cobra.Command {
	cfg := framework.Config{}
	level := ""
	c := &cobra.Command{
		Use: "scheduler", Short: "Run the framework against a Mesos master", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.logger(level)
			if err != nil {
				return err
			}
			cfg.Log = log
			cfg.Ready = func(addr string) { fmt.Fprintf(a.out, "mesos-gpu scheduler is up: API http://%s\n", addr) }
			s, err := framework.New(cfg)
			if err != nil {
				return err
			}
			return s.Run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Master, "master", framework.DefaultMaster, "the master's URL, or several with commas between")
	f.StringVar(&cfg.APIAddr, "listen", framework.DefaultAPIAddr, "address of the API; other than loopback it is open to whoever reaches it")
	f.StringVar(&cfg.JournalPath, "journal", framework.DefaultJournal, "file that survives a restart")
	f.StringVar(&cfg.ExecutorPath, "executor", framework.DefaultExecutor, "path of mesos-gpu on the agents")
	f.StringVar(&cfg.Name, "name", framework.DefaultName, "the framework's name")
	f.StringVar(&cfg.Role, "role", framework.DefaultRole, "the role to get offers for")
	f.StringVar(&cfg.User, "user", framework.DefaultUser, "user that tasks run as, on the agents")
	f.DurationVar(&cfg.FailoverTimeout, "failover-timeout", framework.DefaultFailoverTimeout, "how long the master keeps the tasks of a scheduler that is away")
	logLevel(c, &level)
	return c
}

func logLevel(c *cobra.Command, level *string) {
	c.Flags().StringVar(level, "log-level", "info", "debug, info, warn or error")
}

func (a *app) agentCommand() *cobra.Command {
	var url, state, simulate, level string
	c := &cobra.Command{
		Use: "agent", Short: "Advertise this machine's GPUs to its Mesos agent", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.logger(level)
			if err != nil {
				return err
			}
			d, err := isolator.NewDaemon(isolator.DaemonConfig{
				AgentURL: agentURL(url), StateDir: state, Log: log,
				Discover: func() (gpu.Host, error) { return a.host(simulate) },
			})
			if err != nil {
				return err
			}
			return d.Run(c.Context())
		},
	}
	c.Flags().StringVar(&url, "agent", "http://127.0.0.1:5051", "the Mesos agent's URL")
	c.Flags().StringVar(&state, "state-dir", "/var/lib/mesos-gpu/agent", "folder for the provider id and its lock")
	logLevel(c, &level)
	flags := &cobra.Command{
		Use: "flags", Short: "Print --resources and --attributes for the Mesos agent's command line", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			host, err := a.host(simulate)
			if err != nil {
				return err
			}
			resources, attributes := advertise.Flags(host)
			fmt.Fprintf(a.out, "--resources=%s\n--attributes=%s\n", resources, attributes)
			return nil
		},
	}
	c.PersistentFlags().StringVar(&simulate, "simulate", "", "made-up GPUs such as 2xV100,1xK80 instead of this machine's")
	c.AddCommand(flags)
	return c
}

// agentURL completes http://HOST:PORT by the agent's libprocess name.
func agentURL(url string) string {
	if strings.Count(strings.TrimSuffix(url, "/"), "/") > 2 {
		return url
	}
	return strings.TrimSuffix(url, "/") + "/slave(1)"
}

func (a *app) executorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "executor", Short: "Run one task; Mesos agents start this", Args: args(), Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := executor.ConfigFromEnv(a.getenv)
			if err != nil {
				return err
			}
			if cfg.FrameworkID == "" {
				return errors.New("executor: MESOS_FRAMEWORK_ID is not set: a Mesos agent starts executors, people use mesos-gpu run")
			}
			cfg.Granted = isolator.Granted
			cfg.Volume = func(ctx context.Context) (string, error) {
				volume, err := volumemgr.Ensure(ctx, cfg.DriverRoot, cfg.VolumesDir)
				return volume.Path, err
			}
			return executor.Run(c.Context(), cfg)
		},
	}
}

// containerInitCommand is what the embedded agent starts inside a new
// container before the container's own program.
func containerInitCommand() *cobra.Command {
	return &cobra.Command{
		Use: "container-init", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error { return container.Init(args) },
	}
}
