// Package daemon is what runs beside a Mesos agent, one for each: it puts the
// isolator's parts together. Hardware is watched, what is well is advertised,
// the module's calls are answered, and people and Prometheus are told. It
// decides nothing itself.
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

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
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

// Defaults of the agent's host.
const (
	DefaultAgent       = "http://127.0.0.1:5051"
	DefaultStateDir    = "/var/lib/mesos-gpu/agent"
	DefaultRuntimeDir  = "/run/mesos-gpu"
	DefaultSocket      = DefaultRuntimeDir + "/agent.sock"
	DefaultListen      = "127.0.0.1:9407"
	DefaultCgroupsRoot = "mesos"
)

// DaemonConfig says what a Daemon serves.
type DaemonConfig struct {
	// AgentURL is the Mesos agent's, "http://127.0.0.1:5051/slave(1)".
	AgentURL string
	// Authorization and TLS are for agents that ask for them.
	Authorization string
	TLS           *tls.Config
	// StateDir keeps what outlives the machine's runs: the provider id, the
	// lock that lets one daemon serve an agent, cordons. RuntimeDir keeps what
	// does not: which container holds what.
	StateDir, RuntimeDir string
	// OpenHardware begins to use the GPUs: OpenNVML, or Simulated.
	OpenHardware func() (Hardware, error)
	// FaultPolicy says what counts as a fault of a device.
	FaultPolicy health.FaultPolicy

	// Provider has the GPUs advertised through the agent's resource provider
	// API; without it they stand in the agent's flags. Role is the one role
	// that gets them, empty for all. Stock are the devices for frameworks that
	// take GPUs by number, as package stock reads them.
	Provider    bool
	Role, Stock string
	// SharedDevices names the devices that are shared, as share.ParseSharedList reads them, and
	// Scaling as how much of itself each is advertised; left out, as it is.
	// ShareLimit is the method that holds tasks to their parts, of Limiters;
	// empty means share.AutoMethod.
	SharedDevices, ShareLimit string
	Scaling                   share.ShareScaling
	Limiters                  []share.Limiter
	// MIG names the GPUs in MIG mode that the daemon may cut, and MIGLayout is
	// what into until somebody asks for another, as mig.PartitionerConfig has both.
	MIG, MIGLayout string
	// OnDiscovered, where set, is told the GPUs, again whenever they were cut.
	OnDiscovered func(gpu.Host)
	// OnAdvertised, where set, is called each time the agent has taken the GPUs.
	OnAdvertised func()

	// Socket is the unix socket of the API; without it no container is looked
	// after. Listen is where its GETs and the metrics are over TCP; empty for
	// nowhere. Ready, where set, is told the TCP address.
	Socket, Listen string
	OnListening    func(listen string)
	// Unmanaged is set where another looks after containers: the API then tells of
	// devices and of parts alone.
	Unmanaged bool
	// CgroupsRoot is the agent's --cgroups_root, and Cgroups the version to
	// use, as isolator.HostConfig has it.
	CgroupsRoot, CgroupVersion string
	// DriverVolume makes the driver volume; NeedsDriver tells whether an image asks
	// for it, and Fits, where set, what keeps the image from running on one of
	// those devices.
	DriverVolume func(context.Context) (path string, err error)
	NeedsDriver  func(labels, env map[string]string) (bool, error)
	CheckImage   func(labels, env map[string]string, devices []string) error
	// RepairVolume, where set, reads the driver volume once it is made, and repairs what
	// is damaged; it tells what that was.
	RepairVolume func(context.Context) (damage []string, err error)
	// RemoveOrphans, where set, removes containers of other engines whose executor was
	// killed; it is called again and again.
	RemoveOrphans func(context.Context) error

	Version string
	Log     logrus.FieldLogger
}

// Daemon is what `mesos-gpu agent` runs beside a Mesos agent.
type Daemon struct {
	cfg DaemonConfig
	// admitted are the guests of all parts, one after the other: the limiters
	// outlive those.
	admitted map[string]discoveredContainer
}

// New checks the configuration; it touches nothing yet.
func New(cfg DaemonConfig) (*Daemon, error) {
	switch {
	case cfg.OpenHardware == nil:
		return nil, errors.New("agent daemon: no way given to GPUs")
	case cfg.Log == nil:
		return nil, errors.New("agent daemon: no log given")
	case cfg.StateDir == "":
		return nil, errors.New("agent daemon: no state folder given: provider id and cordons must outlive it")
	case cfg.changesMIG() && !cfg.Provider:
		return nil, errors.New("agent daemon: GPUs that stand in the agent's flags cannot be cut: --mig takes --advertise provider")
	case cfg.changesMIG() && (strings.Contains(cfg.SharedDevices, migPrefix) || strings.Contains(cfg.Stock, migPrefix)):
		return nil, errors.New("agent daemon: with --mig slices come and go: name whole GPUs in --share and --stock")
	case cfg.managesContainers() && path.Clean("/"+cfg.CgroupsRoot) == "/":
		return nil, fmt.Errorf("agent daemon: the agent's --cgroups_root %q is the root of all: its containers are not all processes of the machine", cfg.CgroupsRoot)
	case cfg.managesContainers() && (cfg.RuntimeDir == "" || cfg.DriverVolume == nil || cfg.NeedsDriver == nil):
		return nil, errors.New("agent daemon: containers need a runtime folder and a way to the driver volume")
	}
	if cfg.Scaling == (share.ShareScaling{}) {
		cfg.Scaling = share.ShareScaling{Memory: 1, Cores: 1}
	}
	return &Daemon{cfg: cfg, admitted: map[string]discoveredContainer{}}, nil
}

// managesContainers tells that the daemon looks after containers.
func (c DaemonConfig) managesContainers() bool { return c.Socket != "" && !c.Unmanaged }

// component is something that runs until its context or itself ends.
type component func(context.Context) error

// Run serves until ctx ends, or one of the parts cannot go on. Containers that
// hold GPUs keep them. Where a GPU can be cut as was asked for, all parts end
// for that, and begin again with the new devices: as with a restart, containers
// that run notice nothing, and none that needs a GPU starts meanwhile.
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
	cutter, err := mig.Open(mig.PartitionerConfig{
		Driver: hardware.MIG, List: d.cfg.MIG, Layout: d.cfg.MIGLayout, StateDir: d.cfg.StateDir, BootID: readBootID(), Log: d.cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("agent daemon: %w", err)
	}
	parts := []component{func(ctx context.Context) error { return d.runUntilDone(ctx, hardware, cutter) }}
	for _, l := range d.cfg.Limiters {
		if l, ok := l.(interface{ Run(context.Context) error }); ok {
			parts = append(parts, l.Run)
		}
	}
	return runAll(ctx, parts)
}

// lockFolders keeps other daemons from both folders.
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

// openHardware waits for the driver while ctx does: one that hangs would hold the
// daemon for ever.
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
		return Hardware{}, fmt.Errorf("discover GPUs: %w while the driver did not answer", context.Cause(ctx))
	}
}

// runAll runs all parts; the first that ends takes the others with it.
func runAll(ctx context.Context, parts []component) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, len(parts))
	for i, p := range parts {
		all.Go(func() {
			defer cancel()
			errs[i] = p(ctx)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (d *Daemon) newComponents(ctx context.Context, hardware Hardware, cutter *mig.Partitioner, again func()) ([]component, error) {
	h := hardware.Host
	if err := isolator.CheckHost(h); err != nil {
		return nil, fmt.Errorf("discover GPUs: %w", err)
	}
	named, aside, err := stock.SplitHost(h, d.cfg.Stock)
	if err == nil {
		err = checkNotStock(cutter, aside)
	}
	if err != nil {
		return nil, err
	}
	d.cfg.Log.WithFields(logrus.Fields{
		"gpus": len(h.Devices), "stock": len(aside), "types": h.Types(), "driver": h.Driver, "cuda": h.CUDA, "simulated": h.Simulated,
	}).Info("GPUs discovered")
	w, err := watch.New(watch.WatcherConfig{
		Host: h, Source: hardware.Source, Policy: d.cfg.FaultPolicy, StateDir: d.cfg.StateDir, Boot: readBootID(), Log: d.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	parts := []component{func(ctx context.Context) error {
		w.Run(ctx)
		return nil
	}}
	var all containerAPI // the books, once they are open
	booked := func() map[string]share.DeviceUse { return deviceUsesOf(all) }
	shares, err := d.openSharing(ctx, cutter.AddPlaceholders(named), booked)
	if err != nil {
		return nil, err
	}
	if d.cfg.Socket != "" {
		served, opened, err := d.serveAPI(w, h, aside, shares, cutter)
		if err != nil {
			return nil, err
		}
		all, parts = opened, append(parts, served...)
	}
	if d.cfg.Provider {
		parts = append(parts, d.advertiseDevices(w, named, shares.ModeStore))
	}
	if d.cfg.changesMIG() {
		parts = append(parts, d.repartitionWhenIdle(h, cutter, booked, again))
	}
	return parts, nil
}

// advertiseDevices advertises those of the named devices that are well, and tells which
// are not.
func (d *Daemon) advertiseDevices(w *watch.Watcher, named gpu.Host, forms *share.ModeStore) component {
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
			AgentURL: d.cfg.AgentURL, StateDir: d.cfg.StateDir, Host: first, HostUpdates: hosts, Role: d.cfg.Role, Modes: forms, Log: d.cfg.Log,
			OnAdvertised: d.cfg.OnAdvertised, Authorization: d.cfg.Authorization, TLS: d.cfg.TLS,
		})
		if errors.Is(err, advertise.ErrRemoved) {
			// An operator wants no GPUs offered; containers still need us.
			d.cfg.Log.WithError(err).Error("GPUs are offered no more until this daemon is started again")
			<-ctx.Done()
			return nil
		}
		return err
	}
}

// restrictToNamed is the state of the named devices alone.
func restrictToNamed(named, all gpu.Host) gpu.Host {
	h := named.WithDevices(all.Devices)
	for _, w := range all.Withheld {
		if slices.ContainsFunc(named.Devices, func(d gpu.Device) bool { return d.UUID == w.UUID }) {
			h.Withheld = append(h.Withheld, w)
		}
	}
	return h
}

// serveAPI looks after containers and answers the API. The books are for who else
// asks.
func (d *Daemon) serveAPI(w *watch.Watcher, h gpu.Host, aside []gpu.Device, shares deviceSharing, cutter *mig.Partitioner) (parts []component, all containerAPI, err error) {
	agent, err := mesosagent.New(mesosagent.ClientConfig{AgentURL: d.cfg.AgentURL, Authorization: d.cfg.Authorization, TLS: d.cfg.TLS, Log: d.cfg.Log})
	if err != nil {
		return nil, nil, err
	}
	if all, parts, err = d.trackContainers(w, h, aside, shares, agent); err != nil {
		return nil, nil, err
	}
	shown, err := d.newMetricsHandler(w, h, func() []gpu.ContainerDevices { return mesosagent.MergeHolders(all.Holders(), agent.Holders()) }, shares.limiter)
	if err != nil {
		return nil, nil, err
	}
	server, err := socket.NewServer(socket.ServerConfig{
		Containers: all, Devices: w, Metrics: shown, Version: d.cfg.Version, Host: h, UID: os.Getuid(), CgroupsRoot: d.cfg.CgroupsRoot,
		Modes: shares, Limiter: shares.limiter, MIGPartitioner: cutter, Log: d.cfg.Log,
	})
	if err != nil {
		return nil, nil, err
	}
	listening, err := d.openListeners(server)
	return append(append(parts, listening...), func(ctx context.Context) error {
		agent.Run(ctx)
		return nil
	}), all, err
}

// trackContainers opens the books of the agent's containers, or where another has
// those, asks the agent alone.
func (d *Daemon) trackContainers(w *watch.Watcher, h gpu.Host, aside []gpu.Device, shares deviceSharing, agent *mesosagent.AgentClient) (containerAPI, []component, error) {
	if d.cfg.Unmanaged {
		b := unmanagedContainers{newDiscoveredContainers(d.admitted, shares.limiter, agent, func(string) bool { return false }, d.cfg.Log)}
		return b, []component{b.runDiscovery}, nil
	}
	b, err := d.openContainers(w, h, aside, shares)
	if err != nil {
		return nil, nil, err
	}
	b.discovered = newDiscoveredContainers(d.admitted, shares.limiter, agent, b.isKnown, d.cfg.Log)
	parts := []component{d.makeDriverVolume, b.discovered.runDiscovery}
	if d.cfg.RemoveOrphans != nil {
		parts = append(parts, d.removeOrphans(b.ended))
	}
	return b, parts, nil
}

// openListeners opens the socket, and the TCP address where there is to be one.
func (d *Daemon) openListeners(server *socket.Server) ([]component, error) {
	unix, err := socket.ListenUnix(d.cfg.Socket)
	if err != nil {
		return nil, err
	}
	parts := []component{func(ctx context.Context) error { return server.Serve(ctx, unix) }}
	if d.cfg.Listen == "" {
		return parts, nil
	}
	tcp, err := net.Listen("tcp", d.cfg.Listen)
	if err != nil {
		unix.Close()
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	if d.cfg.OnListening != nil {
		d.cfg.OnListening(tcp.Addr().String())
	}
	return append(parts, func(ctx context.Context) error { return server.ServeReadOnly(ctx, tcp) }), nil
}

// openContainers opens the books and the kernel's side of them.
func (d *Daemon) openContainers(w *watch.Watcher, h gpu.Host, aside []gpu.Device, shares deviceSharing) (managedContainers, error) {
	kernel, err := isolator.New(isolator.HostConfig{Host: h, CgroupVersion: d.cfg.CgroupVersion})
	if err != nil {
		return managedContainers{}, err
	}
	// Where nothing confines, containers without GPUs run all the same.
	confine := func() error {
		if err := kernel.DenyGPUsByDefault(d.cfg.CgroupsRoot); err != nil && !errors.Is(err, cgroup.ErrNoHierarchy) {
			return err
		}
		return nil
	}
	if err := confine(); err != nil {
		return managedContainers{}, err
	}
	ids := make([]string, len(aside))
	for i, s := range aside {
		ids[i] = s.UUID
	}
	usable := func(device string) bool {
		c, known := w.DeviceCondition(device)
		return known && c.IsOffered()
	}
	all, err := containers.Open(containers.ManagerConfig{
		Kernel: kernel, Dir: filepath.Join(d.cfg.RuntimeDir, "containers"), CgroupsRoot: d.cfg.CgroupsRoot, CgroupVersion: kernel.CgroupVersion(),
		Stock: ids, IsGrantable: usable, LookUpShare: shares.SharedCapacity, Limiter: shares.limiter, DriverVolume: d.cfg.DriverVolume, NeedsDriver: d.cfg.NeedsDriver, CheckImage: d.cfg.CheckImage, Log: d.cfg.Log,
	})
	return managedContainers{Manager: all, denyByDefault: confine, ended: make(chan struct{}, 1)}, err
}

func (d *Daemon) newMetricsHandler(w *watch.Watcher, h gpu.Host, holders func() []gpu.ContainerDevices, limiter share.Limiter) (http.Handler, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this host: %w", err)
	}
	return metrics.NewHandler(metrics.ExporterConfig{Agent: name, Version: d.cfg.Version, Host: h, Devices: w.DeviceStates, Holders: holders, ShareUsage: limiter.ReadUsage})
}

// readBootID tells one run of the machine from the next; "" where the kernel does
// not say.
func readBootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
