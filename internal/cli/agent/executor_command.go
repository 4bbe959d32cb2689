package agent

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"mesos-gpu/executor"
	"mesos-gpu/internal/cli"
	"mesos-gpu/isolator"
	"mesos-gpu/volumemgr"
)

func (a *agentCommands) executorCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "executor", Short: "Run one task; Mesos agents start this", Args: cli.RequireArgs(), Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := executorConfig(a.Getenv)
			if err != nil {
				return err
			}
			if cfg.FrameworkID == "" {
				return errors.New("executor: MESOS_FRAMEWORK_ID is not set: a Mesos agent starts executors, people use mesos-gpu run")
			}
			return executor.Run(c.Context(), cfg)
		},
	}
	c.AddCommand(a.executorExecCommand(), a.executorRelayCommand())
	return c
}

// executorConfig returns the settings of the environment, with the functions that use the daemon and the machine.
func executorConfig(getenv func(string) string) (executor.ExecutorConfig, error) {
	cfg, err := executor.ConfigFromEnv(getenv)
	cfg.ReadGrantedGPUs, cfg.WatchConditions, cfg.ReadHost = isolator.DetectDeviceAccess, watchConditions(cfg.HealthSocket), hostReader(cfg.HealthSocket)
	cfg.ClaimDevices = deviceClaimer(cfg.HealthSocket)
	cfg.ReadShareLimits, cfg.ReadUsage = shareReader(cfg.HealthSocket), usageReader(cfg.HealthSocket)
	cfg.PrepareVolume = func(ctx context.Context) (string, error) {
		volume, err := volumemgr.EnsureVolume(ctx, volumemgr.DriverSearch{Root: cfg.DriverRoot}, volumemgr.Store{Dir: cfg.VolumesDir})
		return volume.Path, err
	}
	return cfg, err
}
