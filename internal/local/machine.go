package local

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/resources"
	"golang.org/x/sys/unix"

	driver "mesos-gpu/executor/image"
	"mesos-gpu/gpu"
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

// newAgent creates the agent and describes the machine to it. The agent's own
// resources contain no GPUs: the daemon adds them through the resource provider
// API.
func (c *localCluster) newAgent(m link.MasterLink) (*agent.EmbeddedAgent, error) {
	total, err := machineResources(c.WorkDir)
	if err != nil {
		return nil, err
	}
	root, err := c.driverRoot()
	if err != nil {
		return nil, err
	}
	attributes, err := c.agentAttributes()
	if err != nil {
		return nil, err
	}
	volumes := filepath.Join(c.WorkDir, "volumes")
	cfg := agent.AgentConfig{
		Log: c.Log.WithField("part", "agent"), Master: m, WorkDir: filepath.Join(c.WorkDir, "agent"),
		Addr: c.agent.Addr().String(), Resources: total, Attributes: attributes,
		Root: c.Isolate, ExecutorPath: c.Binary, ImagesDir: c.Images,
		Driver: driver.HostDriver{Driver: c.Host.Driver, CUDA: c.Host.CUDA},
		Volume: func(ctx context.Context) (string, error) {
			volume, err := volumemgr.EnsureVolume(ctx, root, volumes)
			return volume.Path, err
		},
		ExecutorEnv: map[string]string{
			"MESOS_GPU_DRIVER_ROOT": root, "MESOS_GPU_VOLUMES": volumes,
			// Not the socket of a daemon for a Mesos agent on this machine.
			"MESOS_GPU_SOCKET": c.daemonSocket(),
		},
	}
	for name, value := range c.ExecutorEnv {
		cfg.ExecutorEnv[name] = value
	}
	if c.Isolate && len(c.Host.Devices) > 0 {
		i, err := isolator.New(isolator.HostConfig{Host: c.Host, CgroupVersion: "v1"}) // this package mounts it if absent
		if err != nil {
			return nil, err
		}
		cfg.Isolator = i
		if cfg.ExecutorEnv["MESOS_GPU_DEV"], err = c.makeDeviceNodes(i); err != nil {
			return nil, err
		}
	}
	return agent.New(cfg)
}

// agentAttributes returns attributes for the hardware and, if GPUs are shared,
// for the method that limits tasks to their shares.
func (c *localCluster) agentAttributes() ([]mesos.Attribute, error) {
	m := advertise.MachineGPUs{Host: c.Host}
	listed, err := share.ParseSharedList(c.Host, c.Share)
	if err != nil {
		return nil, err
	}
	limiter, err := daemon.ChooseLimiter(context.Background(), c.ShareLimit, c.Limiters, c.Host.Devices, func(uuid string) bool { return listed[uuid] })
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
func (c *localCluster) makeDeviceNodes(i *isolator.Isolator) (dir string, err error) {
	if !c.Host.Simulated {
		return "/dev", nil
	}
	g, err := i.ResolveTaskGrant("none", 0, nil)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(c.WorkDir, "dev")
	for _, n := range g.Nodes {
		if err := container.MakeNode(dir, n); err != nil {
			return "", fmt.Errorf("make GPU nodes: %w", err)
		}
	}
	return dir, nil
}

// driverRoot returns the root of the file system with the driver: the machine's
// root, or a generated folder for simulated GPUs.
func (c *localCluster) driverRoot() (string, error) {
	if !c.Host.Simulated {
		return "/", nil
	}
	root := filepath.Join(c.WorkDir, "driver")
	if err := volumemgr.WriteSimulatedDriver(root, c.Host.Driver); err != nil {
		return "", fmt.Errorf("make up a driver: %w", err)
	}
	return root, nil
}

// newDaemon returns a daemon that monitors and advertises the GPUs. The
// embedded agent isolates its containers itself.
func (c *localCluster) newDaemon(advertised func()) (*daemon.Daemon, error) {
	log := c.Log.WithField("part", "daemon")
	open := func() (daemon.Hardware, error) { return daemon.OpenNVML(nvml.LibraryConfig{Log: log}) }
	if c.Host.Simulated {
		open = func() (daemon.Hardware, error) { return daemon.SimulatedHardware(c.Host), nil }
	}
	return daemon.New(daemon.DaemonConfig{
		AgentURL: "http://" + c.agent.Addr().String() + "/slave(1)", StateDir: filepath.Join(c.WorkDir, "gpus"),
		OpenHardware: open, Provider: true, OnAdvertised: advertised, Log: log, Socket: c.daemonSocket(), Unmanaged: true,
		SharedDevices: c.Share, ShareLimit: c.ShareLimit, Scaling: c.Scaling, Limiters: c.Limiters,
	})
}

// daemonSocket returns the path of the socket at which executors query the
// daemon for the health of their GPUs and the limits of their shares. It is in
// the work directory unless that path is too long for a socket.
func (c *localCluster) daemonSocket() string {
	path := filepath.Join(c.WorkDir, "agent.sock")
	if len(path) < maxSocket {
		return path
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("mesos-gpu-local-%d-%x.sock", os.Getpid(), crc32.ChecksumIEEE([]byte(path))))
}

// maxSocket is the kernel's maximum length of a socket path, including the
// terminating zero.
const maxSocket = 108

// machineResources returns the machine's resources without GPUs. It leaves one
// GiB or half of the memory, whichever is less, to other processes.
func machineResources(dir string) ([]mesos.Resource, error) {
	var memory unix.Sysinfo_t
	if err := unix.Sysinfo(&memory); err != nil {
		return nil, fmt.Errorf("measure memory: %w", err)
	}
	total := float64(memory.Totalram) * float64(memory.Unit) / (1 << 20)
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, fmt.Errorf("measure %s: %w", dir, err)
	}
	free := float64(fs.Bavail) * float64(fs.Bsize) / (1 << 20)
	return []mesos.Resource{
		resources.NewCPUs(float64(runtime.NumCPU())).Resource,
		resources.NewMemory(total - min(1024, total/2)).Resource,
		resources.NewDisk(free).Resource,
		// Mesos's own default range.
		resources.Build().Name(resources.NamePorts).Ranges(resources.BuildRanges().Span(31000, 32000).Ranges).Resource,
	}, nil
}
