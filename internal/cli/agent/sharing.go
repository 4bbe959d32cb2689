package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/executor"
	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/daemon"
	"mesos-gpu/isolator/mps"
	"mesos-gpu/isolator/preload"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// ShareFlags select the GPUs to share and the enforcement of shares.
type ShareFlags struct {
	List, Limit, library string
	Scaling              share.ShareScaling
	exclusive            bool
}

func (f *ShareFlags) Register(p *pflag.FlagSet) {
	p.StringVar(&f.List, "share", share.NoDevices, "GPUs that several tasks may share: comma-separated minor numbers or UUIDs, all, or none")
	p.StringVar(&f.Limit, "share-limit", share.AutoMethod,
		"how tasks are limited to their shares: mig, mps, preload or none; auto chooses the first that is available")
	p.Float64Var(&f.Scaling.Memory, "gpu-memory-scaling", 1,
		"factor for the offered memory of a shared GPU; above 1, the requests of all tasks together may exceed its memory")
	p.Float64Var(&f.Scaling.Cores, "gpu-cores-scaling", 1, "factor for the offered compute of a shared GPU")
	p.StringVar(&f.library, "share-library", preload.DefaultLibrary, "library that --share-limit preload loads into tasks")
	p.BoolVar(&f.exclusive, "mps-exclusive", false, "with MPS: keep processes that do not use MPS from a shared GPU, by compute mode EXCLUSIVE_PROCESS")
}

// NewLimiters returns the enforcement methods of shares, without the one that enforces nothing. driver
// returns the version of the host's driver.
func (f *ShareFlags) NewLimiters(runtimeDir string, simulated bool, driver func() string, log logrus.FieldLogger) ([]share.Limiter, error) {
	byMPS, err := mps.New(mps.ControlConfig{Dir: filepath.Join(runtimeDir, "mps"), Simulated: simulated, Driver: driver, Exclusive: f.exclusive, Log: log})
	byPreload := preload.New(preload.LibraryLimiterConfig{
		Dir: filepath.Join(runtimeDir, "limits"), Library: f.library, Oversubscribe: f.Scaling.Memory > 1, Driver: driver,
		Simulated: simulated && f.Limit == share.AutoMethod, // with an explicit method the driver may be simulated too
	})
	return []share.Limiter{share.NewMIGLimiter(), byMPS, byPreload}, err
}

// addSharing adds the shared GPUs and the enforcement method to m. If live is set,
// devices may become shared later, so the method is chosen even without shared GPUs.
func (f *ShareFlags) addSharing(ctx context.Context, m *advertise.MachineGPUs, simulated, live bool, log logrus.FieldLogger) error {
	if err := f.Scaling.Validate(); err != nil {
		return err
	}
	listed, err := share.ParseSharedList(m.Host, f.List)
	if err != nil {
		return err
	}
	for _, d := range m.Host.Devices {
		if listed[d.UUID] {
			m.Shared = append(m.Shared, f.Scaling.ScaledShare(d))
		}
	}
	if len(m.Shared) == 0 && f.Limit == share.AutoMethod && !live {
		return nil
	}
	all, err := f.NewLimiters(daemon.DefaultRuntimeDir, simulated, func() string { return m.Host.Driver }, log)
	if err != nil {
		return err
	}
	limiter, err := daemon.ChooseLimiter(ctx, f.Limit, all, m.Host.Devices, func(uuid string) bool { return listed[uuid] })
	if err != nil {
		return err
	}
	if len(m.Shared) > 0 || f.Limit != share.AutoMethod || limiter.Method() != gpu.NotEnforced {
		m.ShareLimit = limiter.Method()
	}
	return nil
}

func (a *agentCommands) shareCommand(shared bool) *cobra.Command {
	var path string
	use, short, done := "share", "Let several tasks share a GPU, once it is idle", "shared"
	if !shared {
		use, short, done = "unshare", "Stop sharing a GPU, once it is idle", "whole"
	}
	c := &cobra.Command{
		Use: use + " DEVICE", Short: short, Args: cli.RequireArgs("DEVICE"),
		RunE: func(c *cobra.Command, names []string) error {
			return a.changeDevice(c.Context(), path, names[0], func(client *socket.DaemonClient, uuid string) (string, error) {
				waits, err := client.SetShared(c.Context(), uuid, shared)
				if waits {
					return done + " once it is idle", err
				}
				return done, err
			})
		},
	}
	socketFlag(c, &path)
	return c
}

// formatShares formats a device's shares, such as "12288/32510 MiB, 60/100 % (mps)".
func formatShares(d socket.DeviceInfo) string {
	s := d.Share
	if s == nil {
		return "-"
	}
	words := "whole"
	if s.Shared {
		var mem int64
		cores := 0
		for _, p := range s.Containers {
			mem, cores = mem+p.MemMiB, cores+p.Cores
		}
		words = fmt.Sprintf("%d/%d MiB, %d/%d %% (%s)", mem, s.MemMiB, cores, s.Cores, s.Limit)
	}
	if s.Pending {
		words += ", changes once idle"
	}
	return words
}

// shareReader returns a function that requests from the daemon at the socket path how
// it enforces the shares of a container.
func shareReader(path string) func(context.Context, string) (executor.ShareEnforcement, error) {
	return func(ctx context.Context, container string) (executor.ShareEnforcement, error) {
		client := socket.NewDaemonClient(path)
		defer client.Close()
		said, err := client.ContainerShare(ctx, container)
		if err != nil {
			return executor.ShareEnforcement{}, err
		}
		if len(said.Shares) == 0 {
			return executor.ShareEnforcement{}, errors.New("the agent daemon knows of no part that this container has: see its log")
		}
		answer := executor.ShareEnforcement{Warning: said.Warning, Limit: task.ShareLimit{Env: said.Environment}}
		for _, m := range said.Mounts {
			answer.Limit.Mounts = append(answer.Limit.Mounts, task.HostMount(m))
		}
		list, err := client.ListDevices(ctx)
		for _, d := range list {
			answer.Limit.Devices = append(answer.Limit.Devices, d.Device)
		}
		return answer, err
	}
}
