package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/executor"
	"mesos-gpu/executor/docker"
	"mesos-gpu/executor/image"
	"mesos-gpu/framework/master"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/volumes"
	"mesos-gpu/isolator/daemon"
	"mesos-gpu/isolator/health"
	"mesos-gpu/isolator/inventory"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/volumemgr"
)

// Ways to advertise GPUs, the values of --advertise.
const (
	advertiseProvider = "provider"
	advertiseFlags    = "flags"
)

// agentFlags are the flags that the daemon and `agent flags` share, because both must
// describe the same GPUs.
type agentFlags struct {
	simulate, advertise, stock, role, stateDir string
	share                                      ShareFlags
	mig                                        migFlags
}

func (f *agentFlags) validate() error {
	if f.advertise != advertiseProvider && f.advertise != advertiseFlags {
		return fmt.Errorf("--advertise %s: it is %s or %s", f.advertise, advertiseProvider, advertiseFlags)
	}
	return nil
}

func (a *agentCommands) agentCommand() *cobra.Command {
	var common agentFlags
	c := a.daemonCommand(&common)
	p := c.PersistentFlags()
	p.StringVar(&common.simulate, "simulate", "", "simulated GPUs such as 2xV100,1xK80 instead of this machine's")
	p.StringVar(&common.advertise, "advertise", advertiseProvider,
		"how GPUs are advertised. provider: through the agent's resource provider API, which removes failed GPUs from the offers; flags: in the agent's own flags")
	p.StringVar(&common.stock, "stock", "",
		"GPUs for frameworks that request them by number, such as Marathon: minor numbers or UUIDs separated by commas, or all")
	p.StringVar(&common.role, "gpu-role", "", "role that receives offers of the other GPUs; empty: all roles")
	p.StringVar(&common.stateDir, stateDirFlag, daemon.DefaultStateDir, "directory for the resource provider id, cordons, and the GPUs that this machine has")
	common.share.Register(p)
	common.mig.register(p)
	c.AddCommand(a.agentFlagsCommand(&common), a.devicesCommand(), a.cordonCommand(), a.uncordonCommand(),
		a.shareCommand(true), a.shareCommand(false), a.migCommand())
	return c
}

func (a *agentCommands) daemonCommand(common *agentFlags) *cobra.Command {
	cfg := daemon.DaemonConfig{Version: a.Version}
	var url, level, credential, driverRoot, volumesDir string
	var ignored []uint
	encryption := master.TLSFiles{}
	c := &cobra.Command{
		Use: "agent", Short: "Run the GPU daemon of this machine's Mesos agent", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.NewLogger(level)
			if err != nil {
				return err
			}
			systemd := cli.NewNotifier(describeStatus(daemon.Status{}, ""))
			if err := common.validate(); err != nil {
				return err
			}
			cfg.Log, cfg.AgentURL, cfg.StateDir = log, agentURL(url), common.stateDir
			cfg.OnStatus = func(s daemon.Status) { systemd.SetStatus(describeStatus(s, cfg.AgentURL)) }
			cfg.Provider, cfg.Stock, cfg.Role = common.advertise == advertiseProvider, common.stock, common.role
			cfg.MIG, cfg.MIGLayout = common.mig.list, common.mig.layout
			cfg.SharedDevices, cfg.ShareLimit, cfg.Scaling = common.share.List, common.share.Limit, common.share.Scaling
			var known atomic.Pointer[gpu.Host] // set before the first request
			driver := func() string { return known.Load().Driver }
			if cfg.Limiters, err = common.share.NewLimiters(cfg.RuntimeDir, common.simulate != "", driver, log); err != nil {
				return err
			}
			cfg.OnDiscovered = func(h gpu.Host) { known.Store(&h) }
			cfg.OpenHardware = func() (daemon.Hardware, error) { return a.openHardware(common.simulate, common.stateDir, log) }
			cfg.FaultPolicy.Ignored = convertNumbers[uint64](ignored)
			cfg.NeedsDriver = func(labels, env map[string]string) (bool, error) { return imageNeedsDriver(labels, env, *known.Load()) }
			cfg.CheckImage = func(labels, env map[string]string, devices []string) error {
				return checkImage(labels, env, devices, *known.Load())
			}
			var leftOut sync.Map // paths
			search := func() volumemgr.DriverSearch {
				return volumemgr.DriverSearch{Root: driverRoot, Warn: func(path string, reason error) {
					if _, known := leftOut.LoadOrStore(path, true); !known {
						log.WithError(reason).WithField("path", path).Warn("a file of the driver is left out of its volume")
					}
				}}
			}
			cfg.RepairVolume = func(ctx context.Context) ([]string, error) {
				return volumes.RepairDriverVolume(ctx, search(), volumesDir)
			}
			cfg.DriverVolume = func(ctx context.Context) (string, error) {
				volume, err := volumemgr.EnsureVolume(ctx, search(), volumemgr.Store{Dir: volumesDir})
				return volume.Path, err
			}
			cfg.RemoveOrphans = func(ctx context.Context) error { return removeOrphans(ctx, volumesDir, log) }
			cfg.ListDocker = func(ctx context.Context) ([]gpu.ContainerDevices, error) {
				return docker.ListContainers(ctx, cli.NewDockerClient, executor.ContainerLocksDirFor(volumesDir), *known.Load())
			}
			cfg.OnListening = func(listen string) {
				fmt.Fprintf(a.Stdout, "mesos-gpu agent is up: %s, metrics http://%s/metrics\n", cfg.Socket, listen)
			}
			if err := loadAgentCredential(&cfg, credential, encryption, log); err != nil {
				return err
			}
			d, err := daemon.New(cfg)
			if err != nil {
				return err
			}
			return systemd.RunDaemon(c.Context(), d.Run)
		},
	}
	f := c.Flags()
	f.StringVar(&url, "agent", daemon.DefaultAgent, "URL of the Mesos agent")
	f.StringVar(&credential, "credential", "", "file with principal and secret, for an agent that requires authentication")
	f.StringVar(&encryption.CAFile, "tls-ca", "", "certificates to trust if the agent uses TLS")
	f.StringVar(&encryption.CertFile, "tls-cert", "", "certificate of the daemon, for an agent that verifies clients")
	f.StringVar(&encryption.KeyFile, "tls-key", "", "key of --tls-cert")
	f.StringVar(&encryption.ServerName, "tls-server-name", "", "name in the agent's certificate if it differs from its host")
	f.StringVar(&cfg.RuntimeDir, "runtime-dir", daemon.DefaultRuntimeDir, "folder for the state of running containers; a reboot may delete it")
	f.StringVar(&cfg.Socket, "socket", daemon.DefaultSocket, "Unix socket for the agent's module and for mesos-gpu agent's commands")
	f.StringVar(&cfg.Listen, "listen", daemon.DefaultListen,
		"address of /metrics and the read-only API; an address other than loopback is open to every client that can reach it; empty disables it")
	f.StringVar(&cfg.CgroupsRoot, "cgroups-root", daemon.DefaultCgroupsRoot, "the Mesos agent's --cgroups_root")
	f.StringVar(&cfg.CgroupVersion, "cgroups", "", "cgroup version that enforces device rules, v1 or v2; empty: detect it")
	f.StringVar(&driverRoot, "driver-root", "/", "root of the file system with the driver")
	f.StringVar(&volumesDir, "volumes", "/var/lib/mesos-gpu/volumes", "directory of the driver volumes")
	f.UintSliceVar(&ignored, "ignore-xid", convertNumbers[uint](health.DefaultIgnoredXIDs()), "XIDs that do not affect a GPU's health")
	f.BoolVar(&cfg.FaultPolicy.IgnoreFabric, "ignore-fabric", false, "offer GPUs that are not registered with the NVLink fabric, on machines where CUDA works without it")
	cli.AddLogLevelFlag(c, &level)
	return c
}

// removeOrphans removes Docker containers whose executor was killed.
func removeOrphans(ctx context.Context, volumes string, log logrus.FieldLogger) error {
	return docker.RemoveOrphans(ctx, cli.NewDockerClient, executor.ContainerLocksDirFor(volumes), log)
}

// openHardware opens this machine's GPUs, or simulates the GPUs that simulate describes.
func (a *agentCommands) openHardware(simulate, stateDir string, log logrus.FieldLogger) (daemon.Hardware, error) {
	if simulate == "" {
		known, err := inventory.ReadDevices(stateDir)
		if err != nil {
			log.WithError(err).Warn("GPUs that this machine had before are not known")
		}
		hardware, err := daemon.OpenNVML(nvml.LibraryConfig{Known: known, Log: log})
		return hardware, cli.AdviseSimulation(err)
	}
	h, err := cli.DiscoverHost(simulate)
	return daemon.SimulatedHardware(h), err
}

// loadAgentCredential reads the credential and the TLS files with which the daemon
// authenticates to the Mesos agent.
func loadAgentCredential(cfg *daemon.DaemonConfig, credential string, encryption master.TLSFiles, log logrus.FieldLogger) (err error) {
	if credential != "" {
		c, warning, err := master.LoadCredential(credential)
		if err != nil {
			return err
		}
		if warning != "" {
			log.Warn(warning)
		}
		cfg.Authorization = c.AuthorizationHeader()
	}
	if encryption != (master.TLSFiles{}) {
		cfg.TLS, err = encryption.ClientConfig()
	}
	return err
}

// imageNeedsDriver calls image.Examine with an environment without duplicate names.
func imageNeedsDriver(labels, env map[string]string, h gpu.Host) (bool, error) {
	var entries []string
	for name, value := range env {
		entries = append(entries, name+"="+value)
	}
	ask, err := image.Examine(labels, entries, nil, image.HostDriver{Driver: h.Driver, CUDA: h.CUDA})
	return ask.NeedsDriver(), err
}

// convertNumbers converts a list between the integer types of flags and policies.
func convertNumbers[To, From uint | uint64](list []From) []To {
	numbers := make([]To, len(list))
	for i, n := range list {
		numbers[i] = To(n)
	}
	return numbers
}

// agentURL appends the agent's libprocess name to http://HOST:PORT.
func agentURL(url string) string {
	if strings.Count(strings.TrimSuffix(url, "/"), "/") > 2 {
		return url
	}
	return strings.TrimSuffix(url, "/") + "/slave(1)"
}

func (a *agentCommands) agentFlagsCommand(common *agentFlags) *cobra.Command {
	return &cobra.Command{
		Use: "flags", Short: "Print --resources and --attributes for the Mesos agent's command line", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := common.validate(); err != nil {
				return err
			}
			log, err := a.NewLogger("warn")
			if err != nil {
				return err
			}
			flags, err := common.describeFlags(c, log)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "--resources=%s\n--attributes=%s\n", flags.Resources, flags.Attributes)
			return nil
		},
	}
}

// stateDirFlag is the only flag that does not change what the agent's flags describe.
const stateDirFlag = "state-dir"

// describeFlags returns the Mesos agent's flags for this machine. While its hardware stays the same,
// they stay as they were first printed since the boot.
func (f *agentFlags) describeFlags(c *cobra.Command, log logrus.FieldLogger) (inventory.AgentFlags, error) {
	known, err := inventory.ReadDevices(f.stateDir)
	if err != nil {
		return inventory.AgentFlags{}, err
	}
	host, err := cli.DiscoverHost(f.simulate, known...)
	if err != nil {
		return inventory.AgentFlags{}, err
	}
	host = host.WithLost()
	machine, err := f.describeMachine(c.Context(), host, log)
	if err != nil {
		return inventory.AgentFlags{}, err
	}
	var flags inventory.AgentFlags
	flags.Resources, flags.Attributes = machine.AgentFlags(f.advertise == advertiseProvider)
	if f.simulate != "" {
		return flags, nil
	}
	if err = inventory.SaveDevices(f.stateDir, host.Devices); err == nil {
		var options []string
		c.Flags().Visit(func(flag *pflag.Flag) {
			if flag.Name != stateDirFlag {
				options = append(options, "--"+flag.Name+"="+flag.Value.String())
			}
		})
		hardware := inventory.Hardware{Boot: daemon.ReadBootID(), Driver: host.Driver, CUDA: host.CUDA, UUIDs: f.hardwareUUIDs(host)}
		flags, err = inventory.KeepFlags(f.stateDir, strings.Join(options, " "), hardware, flags)
	}
	if err != nil {
		log.WithError(err).Warn("the flags are not saved: they will differ after a fault of a GPU, and the Mesos agent will not start with them")
	}
	return flags, nil
}

// hardwareUUIDs returns the host's devices. MIG devices that the daemon may replace are represented by
// their GPU.
func (f *agentFlags) hardwareUUIDs(host gpu.Host) []string {
	var uuids []string
	for _, d := range host.Devices {
		uuid := d.UUID
		if d.MIG != nil && mig.IsSelected(f.mig.list, gpu.Device{UUID: d.MIG.Parent, Minor: d.Minor}) {
			uuid = d.MIG.Parent
		}
		if !slices.Contains(uuids, uuid) {
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}

// errNoSuchDevice means that no device has the minor number or the UUID.
var errNoSuchDevice = errors.New("no such device")

// fullUUIDLength is the length of "GPU-" and a UUID.
const fullUUIDLength = 40

// resolveDevice returns the UUID of the device with a minor number or with a UUID
// prefix. It returns a full UUID unchecked, because only the daemon knows them all:
// the device may be a GPU that is partitioned by MIG, or be absent now.
func resolveDevice(devices []gpu.Device, name string) (string, error) {
	if len(name) >= fullUUIDLength {
		return name, nil
	}
	var found []string
	for _, d := range devices {
		if fmt.Sprint(d.Minor) == name || strings.HasPrefix(d.UUID, name) {
			found = append(found, d.UUID)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return "", fmt.Errorf("%w: %q is neither the minor number nor the UUID of one of %d devices", errNoSuchDevice, name, len(devices))
	default:
		slices.Sort(found)
		return "", fmt.Errorf("%w: %q may be each of %s", errNoSuchDevice, name, strings.Join(found, ", "))
	}
}
