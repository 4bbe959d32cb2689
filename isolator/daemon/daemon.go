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
	"mesos-gpu/isolator/holders"
	"mesos-gpu/isolator/internal/checkpoint"
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

// Config says what a Daemon serves.
type Config struct {
	// AgentURL is the Mesos agent's, "http://127.0.0.1:5051/slave(1)".
	AgentURL string
	// Authorization and TLS are for agents that ask for them.
	Authorization string
	TLS           *tls.Config
	// StateDir keeps what outlives the machine's runs: the provider id, the
	// lock that lets one daemon serve an agent, cordons. RuntimeDir keeps what
	// does not: which container holds what.
	StateDir, RuntimeDir string
	// Open begins to use the GPUs: NVML, or Simulated.
	Open func() (Hardware, error)
	// Policy says what counts as a fault of a device.
	Policy health.Policy

	// Provider has the GPUs advertised through the agent's resource provider
	// API; without it they stand in the agent's flags. Role is the one role
	// that gets them, empty for all. Stock are the devices for frameworks that
	// take GPUs by number, as package stock reads them.
	Provider    bool
	Role, Stock string
	// Share names the devices that are shared, as share.Listed reads them, and
	// Scaling as how much of itself each is advertised; left out, as it is.
	// ShareLimit is the method that holds tasks to their parts, of Limiters;
	// empty means share.Auto.
	Share, ShareLimit string
	Scaling           share.Scaling
	Limiters          []share.Limiter
	// MIG names the GPUs in MIG mode that the daemon may cut, and MIGLayout is
	// what into until somebody asks for another, as mig.Config has both.
	MIG, MIGLayout string
	// Discovered, where set, is told the GPUs, again whenever they were cut.
	Discovered func(gpu.Host)
	// Advertised, where set, is called each time the agent has taken the GPUs.
	Advertised func()

	// Socket is the unix socket of the API; without it no container is looked
	// after. Listen is where its GETs and the metrics are over TCP; empty for
	// nowhere. Ready, where set, is told the TCP address.
	Socket, Listen string
	Ready          func(listen string)
	// Bare is set where another looks after containers: the API then tells of
	// devices and of parts alone.
	Bare bool
	// CgroupsRoot is the agent's --cgroups_root, and Cgroups the version to
	// use, as isolator.Config has it.
	CgroupsRoot, Cgroups string
	// Volume makes the driver volume; NeedsDriver tells whether an image asks
	// for it, and Fits, where set, what keeps the image from running on one of
	// those devices.
	Volume      func(context.Context) (path string, err error)
	NeedsDriver func(labels, env map[string]string) (bool, error)
	Fits        func(labels, env map[string]string, devices []string) error
	// Mend, where set, reads the driver volume once it is made, and repairs what
	// is damaged; it tells what that was.
	Mend func(context.Context) (damage []string, err error)
	// Sweep, where set, removes containers of other engines whose executor was
	// killed; it is called again and again.
	Sweep func(context.Context) error

	Version string
	Log     logrus.FieldLogger
}

// Daemon is what `mesos-gpu agent` runs beside a Mesos agent.
type Daemon struct {
	cfg Config
	// admitted are the guests of all parts, one after the other: the limiters
	// outlive those.
	admitted map[string]guest
}

// New checks the configuration; it touches nothing yet.
func New(cfg Config) (*Daemon, error) {
	switch {
	case cfg.Open == nil:
		return nil, errors.New("agent daemon: no way given to GPUs")
	case cfg.Log == nil:
		return nil, errors.New("agent daemon: no log given")
	case cfg.StateDir == "":
		return nil, errors.New("agent daemon: no state folder given: provider id and cordons must outlive it")
	case cfg.cuts() && !cfg.Provider:
		return nil, errors.New("agent daemon: GPUs that stand in the agent's flags cannot be cut: --mig takes --advertise provider")
	case cfg.cuts() && (strings.Contains(cfg.Share, slicePrefix) || strings.Contains(cfg.Stock, slicePrefix)):
		return nil, errors.New("agent daemon: with --mig slices come and go: name whole GPUs in --share and --stock")
	case cfg.confines() && path.Clean("/"+cfg.CgroupsRoot) == "/":
		return nil, fmt.Errorf("agent daemon: the agent's --cgroups_root %q is the root of all: its containers are not all processes of the machine", cfg.CgroupsRoot)
	case cfg.confines() && (cfg.RuntimeDir == "" || cfg.Volume == nil || cfg.NeedsDriver == nil):
		return nil, errors.New("agent daemon: containers need a runtime folder and a way to the driver volume")
	}
	if cfg.Scaling == (share.Scaling{}) {
		cfg.Scaling = share.Scaling{Memory: 1, Cores: 1}
	}
	return &Daemon{cfg: cfg, admitted: map[string]guest{}}, nil
}

// confines tells that the daemon looks after containers.
func (c Config) confines() bool { return c.Socket != "" && !c.Bare }

// part is something that runs until its context or itself ends.
type part func(context.Context) error

// Run serves until ctx ends, or one of the parts cannot go on. Containers that
// hold GPUs keep them. Where a GPU can be cut as was asked for, all parts end
// for that, and begin again with the new devices: as with a restart, containers
// that run notice nothing, and none that needs a GPU starts meanwhile.
func (d *Daemon) Run(ctx context.Context) error {
	release, err := d.lock()
	if err != nil {
		return fmt.Errorf("agent daemon: %w", err)
	}
	defer release()
	hardware, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer hardware.Close()
	cutter, err := mig.Open(mig.Config{
		Driver: hardware.MIG, List: d.cfg.MIG, Layout: d.cfg.MIGLayout, StateDir: d.cfg.StateDir, Boot: bootID(), Log: d.cfg.Log,
	})
	if err != nil {
		return fmt.Errorf("agent daemon: %w", err)
	}
	parts := []part{func(ctx context.Context) error { return d.live(ctx, hardware, cutter) }}
	for _, l := range d.cfg.Limiters {
		if l, ok := l.(interface{ Run(context.Context) error }); ok {
			parts = append(parts, l.Run)
		}
	}
	return together(ctx, parts)
}

// lock keeps other daemons from both folders.
func (d *Daemon) lock() (release func(), err error) {
	state, err := checkpoint.Lock(d.cfg.StateDir, "state.lock")
	if err != nil || !d.cfg.confines() {
		return state, err
	}
	runtime, err := checkpoint.Lock(d.cfg.RuntimeDir, "runtime.lock")
	if err != nil {
		state()
		return nil, err
	}
	return func() {
		runtime()
		state()
	}, nil
}

// open waits for the driver while ctx does: one that hangs would hold the
// daemon for ever.
func (d *Daemon) open(ctx context.Context) (Hardware, error) {
	type opened struct {
		Hardware
		error
	}
	answer := make(chan opened, 1)
	go func() {
		h, err := d.cfg.Open()
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

// together runs all parts; the first that ends takes the others with it.
func together(ctx context.Context, parts []part) error {
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

func (d *Daemon) parts(ctx context.Context, hardware Hardware, cutter *mig.Cutter, again func()) ([]part, error) {
	h := hardware.Host
	if err := isolator.Check(h); err != nil {
		return nil, fmt.Errorf("discover GPUs: %w", err)
	}
	named, aside, err := stock.Split(h, d.cfg.Stock)
	if err == nil {
		err = notStock(cutter, aside)
	}
	if err != nil {
		return nil, err
	}
	d.cfg.Log.WithFields(logrus.Fields{
		"gpus": len(h.Devices), "stock": len(aside), "types": h.Types(), "driver": h.Driver, "cuda": h.CUDA, "simulated": h.Simulated,
	}).Info("GPUs discovered")
	w, err := watch.New(watch.Config{
		Host: h, Source: hardware.Source, Policy: d.cfg.Policy, StateDir: d.cfg.StateDir, Boot: bootID(), Log: d.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	parts := []part{func(ctx context.Context) error {
		w.Run(ctx)
		return nil
	}}
	var all containersOfAgent // the books, once they are open
	booked := func() map[string]share.Use { return uses(all) }
	shares, err := d.share(ctx, cutter.Standing(named), booked)
	if err != nil {
		return nil, err
	}
	if d.cfg.Socket != "" {
		served, opened, err := d.serve(w, h, aside, shares, cutter)
		if err != nil {
			return nil, err
		}
		all, parts = opened, append(parts, served...)
	}
	if d.cfg.Provider {
		parts = append(parts, d.provider(w, named, shares.Forms))
	}
	if d.cfg.cuts() {
		parts = append(parts, d.cutOnceIdle(h, cutter, booked, again))
	}
	return parts, nil
}

// provider advertises those of the named devices that are well, and tells which
// are not.
func (d *Daemon) provider(w *watch.Watcher, named gpu.Host, forms *share.Forms) part {
	return func(ctx context.Context) error {
		hosts := make(chan gpu.Host)
		states := w.Hosts(ctx)
		first := ofNamed(named, <-states)
		go func() {
			defer close(hosts)
			for h := range states {
				select {
				case hosts <- ofNamed(named, h):
				case <-ctx.Done():
					return
				}
			}
		}()
		err := advertise.Run(ctx, advertise.Config{
			AgentURL: d.cfg.AgentURL, StateDir: d.cfg.StateDir, Host: first, Hosts: hosts, Role: d.cfg.Role, Sharing: forms, Log: d.cfg.Log,
			Advertised: d.cfg.Advertised, Authorization: d.cfg.Authorization, TLS: d.cfg.TLS,
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

// ofNamed is the state of the named devices alone.
func ofNamed(named, all gpu.Host) gpu.Host {
	h := named.Only(all.Devices)
	for _, w := range all.Withheld {
		if slices.ContainsFunc(named.Devices, func(d gpu.Device) bool { return d.UUID == w.UUID }) {
			h.Withheld = append(h.Withheld, w)
		}
	}
	return h
}

// serve looks after containers and answers the API. The books are for who else
// asks.
func (d *Daemon) serve(w *watch.Watcher, h gpu.Host, aside []gpu.Device, shares sharing, cutter *mig.Cutter) (parts []part, all containersOfAgent, err error) {
	agent, err := holders.New(holders.Config{AgentURL: d.cfg.AgentURL, Authorization: d.cfg.Authorization, TLS: d.cfg.TLS, Log: d.cfg.Log})
	if err != nil {
		return nil, nil, err
	}
	if all, parts, err = d.lookAfter(w, h, aside, shares, agent); err != nil {
		return nil, nil, err
	}
	shown, err := d.metrics(w, h, func() []gpu.Holder { return holders.Merge(all.Holders(), agent.Holders()) }, shares.limiter)
	if err != nil {
		return nil, nil, err
	}
	server, err := socket.New(socket.Config{
		Containers: all, Devices: w, Metrics: shown, Version: d.cfg.Version, Host: h, UID: os.Getuid(), CgroupsRoot: d.cfg.CgroupsRoot,
		Sharing: shares, Limiter: shares.limiter, Cutting: cutter, Log: d.cfg.Log,
	})
	if err != nil {
		return nil, nil, err
	}
	listening, err := d.listen(server)
	return append(append(parts, listening...), func(ctx context.Context) error {
		agent.Run(ctx)
		return nil
	}), all, err
}

// lookAfter opens the books of the agent's containers, or where another has
// those, asks the agent alone.
func (d *Daemon) lookAfter(w *watch.Watcher, h gpu.Host, aside []gpu.Device, shares sharing, agent *holders.Agent) (containersOfAgent, []part, error) {
	if d.cfg.Bare {
		b := bare{newGuests(d.admitted, shares.limiter, agent, func(string) bool { return false }, d.cfg.Log)}
		return b, []part{b.run}, nil
	}
	b, err := d.containers(w, h, aside, shares)
	if err != nil {
		return nil, nil, err
	}
	b.guests = newGuests(d.admitted, shares.limiter, agent, b.knows, d.cfg.Log)
	parts := []part{d.fill, b.guests.run}
	if d.cfg.Sweep != nil {
		parts = append(parts, d.sweep(b.ended))
	}
	return b, parts, nil
}

// listen opens the socket, and the TCP address where there is to be one.
func (d *Daemon) listen(server *socket.Server) ([]part, error) {
	unix, err := socket.Listen(d.cfg.Socket)
	if err != nil {
		return nil, err
	}
	parts := []part{func(ctx context.Context) error { return server.Serve(ctx, unix) }}
	if d.cfg.Listen == "" {
		return parts, nil
	}
	tcp, err := net.Listen("tcp", d.cfg.Listen)
	if err != nil {
		unix.Close()
		return nil, fmt.Errorf("listen for metrics: %w", err)
	}
	if d.cfg.Ready != nil {
		d.cfg.Ready(tcp.Addr().String())
	}
	return append(parts, func(ctx context.Context) error { return server.ServeReadOnly(ctx, tcp) }), nil
}

// containers opens the books and the kernel's side of them.
func (d *Daemon) containers(w *watch.Watcher, h gpu.Host, aside []gpu.Device, shares sharing) (books, error) {
	kernel, err := isolator.New(isolator.Config{Host: h, Cgroups: d.cfg.Cgroups})
	if err != nil {
		return books{}, err
	}
	// Where nothing confines, containers without GPUs run all the same.
	confine := func() error {
		if err := kernel.Default(d.cfg.CgroupsRoot); err != nil && !errors.Is(err, cgroup.ErrNoHierarchy) {
			return err
		}
		return nil
	}
	if err := confine(); err != nil {
		return books{}, err
	}
	ids := make([]string, len(aside))
	for i, s := range aside {
		ids[i] = s.UUID
	}
	usable := func(device string) bool {
		c, known := w.Condition(device)
		return known && c.Offered()
	}
	all, err := containers.Open(containers.Config{
		Kernel: kernel, Dir: filepath.Join(d.cfg.RuntimeDir, "containers"), CgroupsRoot: d.cfg.CgroupsRoot, Cgroups: kernel.Cgroups(),
		Stock: ids, Usable: usable, Shared: shares.Shared, Limiter: shares.limiter, Volume: d.cfg.Volume, NeedsDriver: d.cfg.NeedsDriver, Fits: d.cfg.Fits, Log: d.cfg.Log,
	})
	return books{Containers: all, confine: confine, ended: make(chan struct{}, 1)}, err
}

func (d *Daemon) metrics(w *watch.Watcher, h gpu.Host, holders func() []gpu.Holder, limiter share.Limiter) (http.Handler, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this host: %w", err)
	}
	return metrics.New(metrics.Config{Agent: name, Version: d.cfg.Version, Host: h, Devices: w.Devices, Holders: holders, Parts: limiter.Usage})
}

// bootID tells one run of the machine from the next; "" where the kernel does
// not say.
func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
