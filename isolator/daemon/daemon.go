// Package daemon is the program that runs with a Mesos agent, one for each agent. It connects
// the isolator's packages: it watches the hardware, advertises healthy devices, answers the
// module's calls, and serves the API and metrics. It makes no decisions about devices itself.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/unixsocket"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/health"
	"mesos-gpu/isolator/internal/daemonlock"
	"mesos-gpu/isolator/mesosagent"
	"mesos-gpu/isolator/metrics"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
	"mesos-gpu/isolator/stock"
	"mesos-gpu/isolator/watch"
)

// Defaults of DaemonConfig.
const (
	DefaultAgent       = "http://127.0.0.1:5051"
	DefaultStateDir    = "/var/lib/mesos-gpu/agent"
	DefaultRuntimeDir  = "/run/mesos-gpu"
	DefaultSocket      = DefaultRuntimeDir + "/agent.sock"
	DefaultListen      = "127.0.0.1:9407"
	DefaultCgroupsRoot = "mesos"
)

// DaemonConfig configures a Daemon.
type DaemonConfig struct {
	// AgentURL is the URL of the Mesos agent, "http://127.0.0.1:5051/slave(1)".
	AgentURL string
	// Authorization and TLS are for agents that require them.
	Authorization string
	TLS           *tls.Config
	// StateDir contains what survives a reboot: the provider id, cordons, and the lock that
	// lets one daemon serve an agent. RuntimeDir contains what does not: the allocations.
	StateDir, RuntimeDir string
	// OpenHardware opens the GPUs: OpenNVML or SimulatedHardware.
	OpenHardware func() (Hardware, error)
	// FaultPolicy defines what counts as a fault of a device.
	FaultPolicy health.FaultPolicy

	// Provider advertises the GPUs through the agent's resource provider API; without it they
	// are in the agent's flags. Role is the only role that gets them, empty for all roles.
	// Stock lists the devices for frameworks that request GPUs by number, in the syntax of
	// package stock.
	Provider    bool
	Role, Stock string
	// SharedDevices names the devices that are shared, in the syntax of share.ParseSharedList.
	// Scaling multiplies the capacity that each of them advertises; its zero value means 1.
	// ShareLimit is the method, one of those of Limiters, that limits tasks to their shares;
	// empty means share.AutoMethod.
	SharedDevices, ShareLimit string
	Scaling                   share.ShareScaling
	Limiters                  []share.Limiter
	// MIG lists the GPUs in MIG mode that the daemon may partition. MIGLayout is the layout of
	// those for which none was requested. mig.PartitionerConfig describes both.
	MIG, MIGLayout string
	// OnDiscovered, if set, is called with the GPUs, also the lost ones that are known, at start and
	// whenever they have changed.
	OnDiscovered func(gpu.Host)
	// OnAdvertised, if set, is called each time the agent has accepted the GPUs.
	OnAdvertised func()
	// OnStatus, if set, is called with each new status. It must not block.
	OnStatus func(Status)

	// Socket is the unix socket of the API; without it the daemon manages no containers. Listen
	// is the TCP address of the API's GET calls and of the metrics; empty for none.
	// OnListening, if set, is called with the TCP address.
	Socket, Listen string
	OnListening    func(listen string)
	// Unmanaged is set if other software manages the containers, for example Mesos's gpu/nvidia
	// isolator. The API then serves devices, shares and claims only.
	Unmanaged bool
	// CgroupsRoot is the agent's --cgroups_root. CgroupVersion is as in isolator.HostConfig.
	CgroupsRoot, CgroupVersion string
	// DriverVolume makes the driver volume. NeedsDriver reports whether an image requests it.
	// CheckImage, if set, returns an error if the image cannot run on one of the devices.
	// While DriverVolume fails, no GPU is offered; nil if nothing needs the volume.
	DriverVolume func(context.Context) (path string, err error)
	NeedsDriver  func(labels, env map[string]string) (bool, error)
	CheckImage   func(labels, env map[string]string, devices []string) error
	// RepairVolume, if set, is called once the driver volume is made. It reads all files,
	// repairs damaged ones, and returns their names.
	RepairVolume func(context.Context) (damage []string, err error)
	// RemoveOrphans, if set, removes containers of other engines whose executor was killed. It
	// is called periodically.
	RemoveOrphans func(context.Context) error
	// ListDocker, if set, returns the Docker containers of this agent's executors with their
	// devices.
	ListDocker func(context.Context) ([]gpu.ContainerDevices, error)

	Version string
	Log     logrus.FieldLogger

	// rediscoverPause is the pause before the first search for lost GPUs; 0 means 10 s. It doubles
	// with each search, up to 5 minutes.
	rediscoverPause time.Duration
}

// Daemon is the program that `mesos-gpu agent` runs.
type Daemon struct {
	cfg DaemonConfig
	// admitted contains the discovered containers, by id. The components are restarted after
	// each partitioning; limiters, and so the containers admitted to them, are not.
	admitted map[string]discoveredContainer

	statusMu sync.Mutex
	status   Status // published with each change; guarded by statusMu
}

// New checks the configuration. It changes nothing on the host.
func New(cfg DaemonConfig) (*Daemon, error) {
	switch {
	case cfg.OpenHardware == nil:
		return nil, errors.New("agent daemon: OpenHardware is missing")
	case cfg.Log == nil:
		return nil, errors.New("agent daemon: Log is missing")
	case cfg.StateDir == "":
		return nil, errors.New("agent daemon: no state folder: provider id and cordons must survive a restart")
	case cfg.changesMIG() && !cfg.Provider:
		return nil, errors.New("agent daemon: GPUs in the agent's flags cannot be partitioned: --mig requires --advertise provider")
	case cfg.changesMIG() && (strings.Contains(cfg.SharedDevices, migPrefix) || strings.Contains(cfg.Stock, migPrefix)):
		return nil, errors.New("agent daemon: with --mig the MIG devices change: name whole GPUs in --share and --stock")
	case cfg.managesContainers() && path.Clean("/"+cfg.CgroupsRoot) == "/":
		return nil, fmt.Errorf("agent daemon: the agent's --cgroups_root %q is the root of the hierarchy, "+
			"which contains all processes of the host and not only containers",
			cfg.CgroupsRoot)
	case cfg.managesContainers() && (cfg.RuntimeDir == "" || cfg.DriverVolume == nil || cfg.NeedsDriver == nil):
		return nil, errors.New("agent daemon: containers need a runtime folder, DriverVolume and NeedsDriver")
	}
	if cfg.rediscoverPause == 0 {
		cfg.rediscoverPause = 10 * time.Second
	}
	if cfg.Scaling == (share.ShareScaling{}) {
		cfg.Scaling = share.ShareScaling{Memory: 1, Cores: 1}
	}
	return &Daemon{cfg: cfg, admitted: map[string]discoveredContainer{}}, nil
}

// managesContainers reports whether the daemon manages the agent's containers.
func (c DaemonConfig) managesContainers() bool { return c.Socket != "" && !c.Unmanaged }

// component runs until its context ends, or until it fails.
type component func(context.Context) error

// Run serves until ctx ends or a component fails. Containers keep their GPUs. When a GPU can be
// partitioned as requested, or a lost GPU is back, all components end and start again with the new
// devices. As with a
// restart of the daemon, containers that run are not affected, and none that needs a GPU starts
// meanwhile.
func (d *Daemon) Run(ctx context.Context) error {
	release, err := d.lockFolders()
	if err != nil {
		return fmt.Errorf("agent daemon: %w", err)
	}
	defer release()
	hardware, err := d.openHardware(ctx)
	if err != nil {
		return err
	}
	defer hardware.Close()
	partitioner, err := mig.Open(mig.PartitionerConfig{
		Driver: hardware.MIG, List: d.cfg.MIG, Layout: d.cfg.MIGLayout, StateDir: d.cfg.StateDir, BootID: ReadBootID(), Lost: hardware.Host.Lost, Log: d.cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("agent daemon: %w", err)
	}
	components := []component{func(ctx context.Context) error { return d.runUntilDone(ctx, hardware, partitioner) }}
	for _, l := range d.cfg.Limiters {
		if l, ok := l.(interface{ Run(context.Context) error }); ok {
			components = append(components, l.Run)
		}
	}
	return runAll(ctx, components)
}

// lockFolders locks the state and the runtime folder against other daemons.
func (d *Daemon) lockFolders() (release func(), err error) {
	state, err := daemonlock.LockFolder(d.cfg.StateDir, "state.lock")
	if err != nil || !d.cfg.managesContainers() {
		return state, err
	}
	runtime, err := daemonlock.LockFolder(d.cfg.RuntimeDir, "runtime.lock")
	if err != nil {
		state()
		return nil, err
	}
	return func() {
		runtime()
		state()
	}, nil
}

// openHardware waits for the driver until ctx ends: a driver that hangs must not keep the
// daemon from stopping.
func (d *Daemon) openHardware(ctx context.Context) (Hardware, error) {
	type opened struct {
		Hardware
		error
	}
	answer := make(chan opened, 1)
	go func() {
		h, err := d.cfg.OpenHardware()
		answer <- opened{h, err}
	}()
	select {
	case o := <-answer:
		if o.error != nil {
			return Hardware{}, fmt.Errorf("discover GPUs: %w", o.error)
		}
		return o.Hardware, nil
	case <-ctx.Done():
		return Hardware{}, fmt.Errorf("discover GPUs: %w while the driver did not respond", context.Cause(ctx))
	}
}

// runAll runs all components. When one ends, the others are stopped.
func runAll(ctx context.Context, components []component) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, len(components))
	for i, p := range components {
		all.Go(func() {
			defer cancel()
			errs[i] = p(ctx)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (d *Daemon) newComponents(ctx context.Context, hardware Hardware, partitioner *mig.Partitioner, again func()) ([]component, error) {
	if err := isolator.CheckHost(hardware.Host); err != nil {
		return nil, fmt.Errorf("discover GPUs: %w", err)
	}
	h := hardware.Host.WithLost()
	named, stockDevices, err := stock.SplitHost(h, d.cfg.Stock)
	if err == nil {
		err = checkNotStock(partitioner, stockDevices)
	}
	if err != nil {
		return nil, err
	}
	d.cfg.Log.WithFields(logrus.Fields{
		"gpus": len(hardware.Host.Devices), "lost": len(h.Lost), "stock": len(stockDevices),
		"types": h.Types(), "driver": h.Driver, "cuda": h.CUDA, "simulated": h.Simulated,
	}).Info("GPUs discovered")
	d.updateStatus(func(s *Status) { *s = Status{GPUs: len(hardware.Host.Devices), Lost: len(h.Lost), Discovered: true} })
	w, err := watch.New(watch.WatcherConfig{
		Host: h, Source: hardware.Source, Policy: d.cfg.FaultPolicy, StateDir: d.cfg.StateDir, Boot: ReadBootID(), Log: d.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	components := []component{func(ctx context.Context) error {
		w.Run(ctx)
		return nil
	}}
	var all containerAPI // set once the allocations are open, and so is claims
	var claims *deviceClaims
	devicesInUseHere := func() map[string]share.DeviceUse {
		if claims != nil {
			claims.releaseEnded(ctx)
		}
		return deviceUsesOf(all)
	}
	shares, err := d.openSharing(ctx, partitioner.AddPlaceholders(named), devicesInUseHere)
	if err != nil {
		return nil, err
	}
	if d.cfg.DriverVolume != nil {
		components = append(components, d.keepDriverVolume(w, h))
	}
	if d.cfg.Socket != "" {
		served, opened, made, err := d.serveAPI(w, h, stockDevices, shares, partitioner)
		if err != nil {
			return nil, err
		}
		all, claims, components = opened, made, append(components, served...)
	}
	if d.cfg.Provider {
		components = append(components, d.advertiseDevices(w, named, shares.ModeStore))
	}
	if d.cfg.changesMIG() {
		components = append(components, d.repartitionWhenIdle(h, partitioner, devicesInUseHere, again))
	}
	if len(h.Lost) > 0 && hardware.Rediscover != nil {
		components = append(components, d.findLostGPUs(hardware, again))
	}
	return components, nil
}

// advertiseDevices advertises the healthy ones of the named devices, and reports which are
// withheld.
func (d *Daemon) advertiseDevices(w *watch.Watcher, named gpu.Host, modes *share.ModeStore) component {
	return func(ctx context.Context) error {
		hosts := make(chan gpu.Host)
		states := w.WatchHosts(ctx)
		first := restrictToNamed(named, <-states)
		go func() {
			defer close(hosts)
			for h := range states {
				select {
				case hosts <- restrictToNamed(named, h):
				case <-ctx.Done():
					return
				}
			}
		}()
		err := advertise.Run(ctx, advertise.ProviderConfig{
			AgentURL: d.cfg.AgentURL, StateDir: d.cfg.StateDir, Host: first, HostUpdates: hosts, Role: d.cfg.Role, Modes: modes, Log: d.cfg.Log,
			OnStatus: d.setProviderStatus, Authorization: d.cfg.Authorization, TLS: d.cfg.TLS,
		})
		if errors.Is(err, advertise.ErrRemoved) {
			// An operator removed the provider; the containers still need the daemon.
			d.cfg.Log.WithError(err).Error("GPUs are offered no more until this daemon is started again")
			d.setProviderStatus(advertise.ProviderStatus{Err: err})
			<-ctx.Done()
			return nil
		}
		return err
	}
}

// restrictToNamed returns the state of the named devices only.
func restrictToNamed(named, all gpu.Host) gpu.Host {
	h := named.WithDevices(all.Devices)
	for _, w := range all.Withheld {
		if slices.ContainsFunc(named.Devices, func(d gpu.Device) bool { return d.UUID == w.UUID }) {
			h.Withheld = append(h.Withheld, w)
		}
	}
	return h
}

// serveAPI manages the containers and serves the API. It also returns the containers and their
// claims, for other components.
func (d *Daemon) serveAPI(
	w *watch.Watcher, h gpu.Host, stockDevices []gpu.Device, shares deviceSharing, partitioner *mig.Partitioner,
) (components []component, all containerAPI, claims *deviceClaims, err error) {
	agent, err := mesosagent.New(mesosagent.ClientConfig{
		AgentURL: d.cfg.AgentURL, Authorization: d.cfg.Authorization, TLS: d.cfg.TLS, MinInterval: claimQueryInterval, Log: d.cfg.Log,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	all, claims, components, err = d.trackContainers(w, h, stockDevices, shares, agent)
	if err != nil {
		return nil, nil, nil, err
	}
	metricsHandler, err := d.newMetricsHandler(w, h,
		func() []gpu.ContainerDevices { return mesosagent.MergeHolders(all.Holders(), agent.Holders()) },
		shares.limiter)
	if err != nil {
		return nil, nil, nil, err
	}
	server, err := socket.NewServer(socket.ServerConfig{
		Containers: all, Claims: claims, Devices: w, Metrics: metricsHandler, Version: d.cfg.Version, Host: h, UID: os.Getuid(), CgroupsRoot: d.cfg.CgroupsRoot,
		Modes: shares, Limiter: shares.limiter, MIGPartitioner: partitioner, Log: d.cfg.Log,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	listening, err := d.openListeners(server)
	return append(append(components, listening...), func(ctx context.Context) error {
		agent.Run(ctx)
		return nil
	}), all, claims, err
}

// trackContainers opens the allocations of the agent's containers, those that the module prepares
// and those that executors claim.
func (d *Daemon) trackContainers(
	w *watch.Watcher, h gpu.Host, stockDevices []gpu.Device, shares deviceSharing, agent *mesosagent.AgentClient,
) (containerAPI, *deviceClaims, []component, error) {
	open := func() (managedContainers, error) { return d.openContainers(w, h, stockDevices, shares) }
	if d.cfg.Unmanaged {
		open = func() (managedContainers, error) { return d.openUnmanaged(h, shares) }
	}
	b, err := open()
	if err != nil {
		return nil, nil, nil, err
	}
	b.discovered = newDiscoveredContainers(d.admitted, shares.limiter, agent, b.isKnown, d.cfg.Log)
	claims := &deviceClaims{
		manager: b.Manager, agent: agent, discovered: b.discovered, host: h, processes: processFinder{"/proc", d.cfg.CgroupsRoot},
		setHolders: w.SetHolders, listDocker: d.cfg.ListDocker, removeOrphans: d.cfg.RemoveOrphans, log: d.cfg.Log, seen: map[string]time.Time{},
	}
	components := []component{claims.runDiscovery}
	if d.cfg.Unmanaged {
		return unmanagedContainers{b}, claims, components, nil
	}
	if d.cfg.RemoveOrphans != nil {
		components = append(components, d.removeOrphans(b.ended))
	}
	return b, claims, components, nil
}

// openListeners opens the socket, and the TCP listener if one is configured.
func (d *Daemon) openListeners(server *socket.Server) ([]component, error) {
	unix, err := unixsocket.Listen(d.cfg.Socket)
	if err != nil {
		return nil, err
	}
	components := []component{func(ctx context.Context) error { return server.Serve(ctx, unix) }}
	if d.cfg.Listen == "" {
		return components, nil
	}
	tcp, err := net.Listen("tcp", d.cfg.Listen)
	if err != nil {
		unix.Close()
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	if d.cfg.OnListening != nil {
		d.cfg.OnListening(tcp.Addr().String())
	}
	return append(components, func(ctx context.Context) error { return server.ServeReadOnly(ctx, tcp) }), nil
}

// openContainers opens the allocations, and the kernel's enforcement of them.
func (d *Daemon) openContainers(w *watch.Watcher, h gpu.Host, stockDevices []gpu.Device, shares deviceSharing) (managedContainers, error) {
	// A lost device may have no node, and no container gets it before it is found again.
	kernel, err := isolator.New(isolator.HostConfig{Host: h.WithoutLost(), CgroupVersion: d.cfg.CgroupVersion})
	if err != nil {
		return managedContainers{}, err
	}
	// Without a hierarchy, containers without GPUs still run.
	confine := func() error {
		if err := kernel.DenyGPUsByDefault(d.cfg.CgroupsRoot); err != nil && !errors.Is(err, cgroup.ErrNoHierarchy) {
			return err
		}
		return nil
	}
	if err := confine(); err != nil {
		return managedContainers{}, err
	}
	ids := make([]string, len(stockDevices))
	for i, s := range stockDevices {
		ids[i] = s.UUID
	}
	usable := func(device string) bool {
		c, known := w.DeviceCondition(device)
		// Without a driver volume, a container is refused only if its image requests it.
		c.NoDriver = ""
		return known && c.IsOffered()
	}
	all, err := containers.Open(containers.ManagerConfig{
		Kernel:        kernel,
		Dir:           filepath.Join(d.cfg.RuntimeDir, "containers"),
		CgroupsRoot:   d.cfg.CgroupsRoot,
		CgroupVersion: kernel.CgroupVersion(),
		Stock:         ids,
		IsGrantable:   usable,
		LookUpShare:   shares.SharedCapacity,
		LookUpParent:  func(uuid string) string { return parentGPU(h, uuid) },
		Limiter:       shares.limiter,
		DriverVolume:  d.cfg.DriverVolume,
		NeedsDriver:   d.cfg.NeedsDriver,
		CheckImage:    d.cfg.CheckImage,
		Log:           d.cfg.Log,
	})
	if err != nil {
		return managedContainers{}, err
	}
	d.updateStatus(func(s *Status) { s.ConfinementError = all.ConfinementError() })
	return managedContainers{Manager: all, denyByDefault: confine, ended: make(chan struct{}, 1)}, nil
}

func (d *Daemon) newMetricsHandler(w *watch.Watcher, h gpu.Host, holders func() []gpu.ContainerDevices, limiter share.Limiter) (http.Handler, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this host: %w", err)
	}
	return metrics.NewHandler(metrics.ExporterConfig{
		Agent:      name,
		Version:    d.cfg.Version,
		Host:       h,
		Devices:    w.DeviceStates,
		Holders:    holders,
		ShareUsage: limiter.ReadUsage,
	})
}

// ReadBootID returns an id that changes with each boot; "" if the kernel has none.
func ReadBootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
