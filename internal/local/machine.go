package local

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/resources"
	"golang.org/x/sys/unix"

	driver "mesos-gpu/executor/image"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/internal/local/agent"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/link"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/daemon"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/share"
	"mesos-gpu/volumemgr"
)

// localAgent is one agent of the cluster with its daemon. Several agents share
// the machine: each offers all of its CPUs and memory, and a part of its ports.
type localAgent struct {
	cluster  *localCluster
	host     gpu.Host
	amount   *sched.Amount // of ClusterConfig.Amounts, or nil
	dir      string        // of its state, sandboxes and sockets
	listener net.Listener
	limiters []share.Limiter
	root     string // of the file system with the driver
}

// ensureVolume returns the driver volume's path.
func (a *localAgent) ensureVolume(ctx context.Context) (string, error) {
	store := volumemgr.Store{Dir: filepath.Join(a.cluster.WorkDir, "volumes")}
	volume, err := volumemgr.EnsureVolume(ctx, volumemgr.DriverSearch{Root: a.root}, store)
	return volume.Path, err
}

// prepare creates the agent and its daemon. advertised is closed once the GPUs
// are part of the agent's resources.
func (a *localAgent) prepare(m link.MasterLink) (run func(context.Context) error, advertised <-chan struct{}, err error) {
	if err := os.MkdirAll(a.dir, workDirMode); err != nil {
		return nil, nil, fmt.Errorf("make work directory: %w", err)
	}
	if a.cluster.NewLimiters != nil {
		if a.limiters, err = a.cluster.NewLimiters(a.dir); err != nil {
			return nil, nil, err
		}
	}
	embedded, err := a.newAgent(m)
	if err != nil {
		return nil, nil, err
	}
	done := make(chan struct{})
	d, err := a.newDaemon(sync.OnceFunc(func() { close(done) }))
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) error {
		return inOrder(ctx, a.cluster.Log,
			clusterPart{name: "the agent's server", run: serveListener(a.listener, a.cluster.requireSecret(embedded.Handler()))},
			clusterPart{name: "the agent", run: embedded.Run, endsItself: true},
			clusterPart{name: "the agent's daemon", run: startAfter(embedded.Ready(), d.Run)})
	}, done, nil
}

// addressFile has the address that the agent had last.
const addressFile = "agent-address"

// listen opens the agent's listener. Executors that have survived an earlier agent know only its address: a free port is
// that one if possible, and another address is rejected while they run.
func (a *localAgent) listen(addr string) (err error) {
	if !a.cluster.Recover {
		a.listener, err = a.cluster.listenFor("agent", addr)
		return err
	}
	path := filepath.Join(a.dir, addressFile)
	known, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the agent's earlier address: %w", err)
	}
	if earlier := string(known); earlier != "" && earlier != addr {
		if _, port, _ := net.SplitHostPort(addr); port == "0" {
			if a.listener, err = a.cluster.listenFor("agent", earlier); err == nil {
				return nil
			}
		} else if err := a.checkNoSurvivors(earlier); err != nil {
			return err
		}
	}
	if a.listener, err = a.cluster.listenFor("agent", addr); err != nil {
		return err
	}
	if err = os.MkdirAll(a.dir, workDirMode); err == nil {
		err = atomicfile.Update(path, []byte(a.listener.Addr().String()), 0o600)
	}
	if err != nil {
		a.listener.Close()
		return fmt.Errorf("store the agent's address: %w", err)
	}
	return nil
}

// checkNoSurvivors returns an error if executors of the earlier agent run, which listened at this address.
func (a *localAgent) checkNoSurvivors(earlier string) error {
	runs, err := agent.HasSurvivors(a.agentDir())
	if err != nil || !runs {
		return err
	}
	first := earlier
	if a.dir != a.cluster.WorkDir {
		first = "127.0.0.1:0" // with port 0 each of several agents uses its earlier address
	}
	return fmt.Errorf("tasks in %s know the agent at %s: give --agent %s", a.dir, earlier, first)
}

// agentDir returns the work directory of the embedded agent.
func (a *localAgent) agentDir() string { return filepath.Join(a.dir, "agent") }

// newAgent creates the agent and describes the machine to it. The agent's own
// resources contain no GPUs: the daemon adds them through the resource provider
// API.
func (a *localAgent) newAgent(m link.MasterLink) (*agent.EmbeddedAgent, error) {
	c := a.cluster
	total, err := a.agentResources()
	if err != nil {
		return nil, err
	}
	if a.root, err = a.driverRoot(); err != nil {
		return nil, err
	}
	attributes, err := a.agentAttributes()
	if err != nil {
		return nil, err
	}
	cfg := agent.AgentConfig{
		Log: c.Log.WithField("part", "agent"), Master: m, WorkDir: a.agentDir(),
		Addr: a.listener.Addr().String(), Resources: total, Attributes: attributes,
		Recover: c.Recover, Root: c.Isolate, ExecutorPath: c.Binary, ImagesDir: c.Images, KeepSandboxes: c.KeepSandboxes,
		Driver: driver.HostDriver{Driver: a.host.Driver, CUDA: a.host.CUDA},
		Volume: a.ensureVolume,
		ExecutorEnv: map[string]string{
			"MESOS_GPU_DRIVER_ROOT": a.root, "MESOS_GPU_VOLUMES": filepath.Join(c.WorkDir, "volumes"),
			// Not the socket of a daemon for a Mesos agent on this machine.
			"MESOS_GPU_SOCKET":                    a.daemonSocket(),
			"MESOS_EXECUTOR_AUTHENTICATION_TOKEN": c.secret.text,
		},
	}
	for name, value := range c.ExecutorEnv {
		cfg.ExecutorEnv[name] = value
	}
	if c.Isolate && len(a.host.Devices) > 0 {
		i, err := isolator.New(isolator.HostConfig{Host: a.host, CgroupVersion: "v1"}) // this package mounts it if absent
		if err != nil {
			return nil, err
		}
		cfg.Isolator = i
		if cfg.ExecutorEnv["MESOS_GPU_DEV"], err = a.makeDeviceNodes(i); err != nil {
			return nil, err
		}
	}
	return agent.New(cfg)
}

// agentAttributes returns attributes for the hardware and, if GPUs are shared,
// for the method that limits tasks to their shares.
func (a *localAgent) agentAttributes() ([]mesos.Attribute, error) {
	m := advertise.MachineGPUs{Host: a.host}
	listed, err := share.ParseSharedList(a.host, a.cluster.Share)
	if err != nil {
		return nil, err
	}
	limiter, err := daemon.ChooseLimiter(context.Background(), a.cluster.ShareLimit, a.limiters, a.host.Devices, func(uuid string) bool { return listed[uuid] })
	if err != nil {
		return nil, err
	}
	if len(listed) > 0 || limiter.Method() != gpu.NotEnforced {
		m.ShareLimit = limiter.Method()
	}
	return m.Attributes(), nil
}

// makeDeviceNodes creates GPU device nodes for the Docker engine. The nodes of
// a simulated host otherwise exist only in private /dev folders.
func (a *localAgent) makeDeviceNodes(i *isolator.Isolator) (dir string, err error) {
	if !a.host.Simulated {
		return "/dev", nil
	}
	g, err := i.ResolveTaskGrant("none", 0, nil)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(a.dir, "dev")
	for _, n := range g.Nodes {
		if err := container.MakeNode(dir, n); err != nil {
			return "", fmt.Errorf("make GPU nodes: %w", err)
		}
	}
	return dir, nil
}

// driverRoot returns the root of the file system with the driver: the machine's
// root, or a generated folder for simulated GPUs.
func (a *localAgent) driverRoot() (string, error) {
	if !a.host.Simulated {
		return "/", nil
	}
	root := filepath.Join(a.cluster.WorkDir, "driver")
	if err := volumemgr.WriteSimulatedDriver(root, a.host.Driver); err != nil {
		return "", fmt.Errorf("make up a driver: %w", err)
	}
	return root, nil
}

// newDaemon returns a daemon that monitors and advertises the GPUs. The
// embedded agent isolates its containers itself.
func (a *localAgent) newDaemon(advertised func()) (*daemon.Daemon, error) {
	c, log := a.cluster, a.cluster.Log.WithField("part", "daemon")
	open := func() (daemon.Hardware, error) { return daemon.OpenNVML(nvml.LibraryConfig{Log: log}) }
	if a.host.Simulated {
		open = func() (daemon.Hardware, error) { return daemon.SimulatedHardware(a.host), nil }
	}
	volume := a.ensureVolume
	if a.host.Simulated {
		volume = nil // made when an image needs it
	}
	return daemon.New(daemon.DaemonConfig{
		DriverVolume:  volume,
		AgentURL:      "http://" + a.listener.Addr().String() + "/slave(1)",
		StateDir:      filepath.Join(a.dir, "gpus"),
		Authorization: c.secret.basicAuthorization(),
		OpenHardware:  open,
		Provider:      true,
		OnAdvertised:  advertised,
		Log:           log,
		Socket:        a.daemonSocket(),
		Unmanaged:     true,
		SharedDevices: c.Share,
		ShareLimit:    c.ShareLimit,
		Scaling:       c.Scaling,
		Limiters:      a.limiters,
	})
}

// daemonSocket returns the path of the socket at which executors query the
// daemon for the health of their GPUs and the limits of their shares. It is in
// the work directory unless that path is too long for a socket.
func (a *localAgent) daemonSocket() string {
	path := filepath.Join(a.dir, "agent.sock")
	if len(path) < maxSocket {
		return path
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("mesos-gpu-local-%x.sock", crc32.ChecksumIEEE([]byte(path))))
}

// maxSocket is the kernel's maximum length of a socket path, including the
// terminating zero.
const maxSocket = 108

// agentResources returns the agent's resources without GPUs.
func (a *localAgent) agentResources() ([]mesos.Resource, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(a.dir, &fs); err != nil {
		return nil, fmt.Errorf("measure %s: %w", a.dir, err)
	}
	free := float64(fs.Bavail) * float64(fs.Bsize) / (1 << 20)
	amount := a.amount
	if amount == nil {
		var err error
		if amount, err = a.machineAmount(); err != nil {
			return nil, err
		}
	}
	first, last := a.portRange()
	return []mesos.Resource{
		resources.NewCPUs(amount.CPUs).Resource,
		resources.NewMemory(amount.MemMiB).Resource,
		resources.NewDisk(math.Floor(free)).Resource,
		resources.Build().Name(resources.NamePorts).Ranges(resources.BuildRanges().Span(first, last).Ranges).Resource,
	}, nil
}

// machineAmount returns the machine's CPUs and memory. It leaves one GiB or half of
// the memory, whichever is less, to other processes. An agent with simulated GPUs
// has at least cpusPerSimulatedGPU for each of them: its tasks share the machine's
// CPUs.
func (a *localAgent) machineAmount() (*sched.Amount, error) {
	var memory unix.Sysinfo_t
	if err := unix.Sysinfo(&memory); err != nil {
		return nil, fmt.Errorf("measure memory: %w", err)
	}
	total := float64(memory.Totalram) * float64(memory.Unit) / (1 << 20)
	cpus := runtime.NumCPU()
	if a.host.Simulated {
		cpus = max(cpus, cpusPerSimulatedGPU*len(a.host.Devices))
	}
	return &sched.Amount{CPUs: float64(cpus), MemMiB: math.Floor(total - min(1024, total/2))}, nil // whole MiB, as Mesos's agent
}

const cpusPerSimulatedGPU = 2

// portRange returns the agent's part of Mesos's own default range. The agents of
// a cluster have one network, so their ports are distinct.
func (a *localAgent) portRange() (first, last uint64) {
	const begin, end = 31000, 32001
	n := uint64(len(a.cluster.agents))
	i := uint64(slices.Index(a.cluster.agents, a))
	return begin + i*(end-begin)/n, begin + (i+1)*(end-begin)/n - 1
}
