package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"
)

// ContainerEngine launches containers below one cgroup.
type ContainerEngine struct {
	program string
	fenced  bool
	cgroup  string
	cgroups cgroupHierarchies
	records recordStore
}

// EngineConfig configures a ContainerEngine.
type EngineConfig struct {
	// Program is the binary that calls Init when its argument is InitCommand.
	Program string
	// Fenced gives containers cgroups and namespaces. It requires root rights.
	Fenced bool
	// Cgroup is the parent cgroup of all containers, "/mesos-gpu-…".
	Cgroup string
	// Records is a folder for the records of containers that survive the agent's
	// death, up to KeepFor. If it is empty, containers end with the agent.
	Records string
	KeepFor time.Duration
}

// New returns a ContainerEngine. A fenced engine requires the cgroup v1 devices
// hierarchy.
func New(cfg EngineConfig) (*ContainerEngine, error) {
	e := &ContainerEngine{program: cfg.Program, fenced: cfg.Fenced, cgroup: cfg.Cgroup, records: recordStore{cfg.Records, cfg.KeepFor}}
	if !cfg.Fenced {
		return e, nil
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("isolated containers need root: run the agent as root, or without isolation")
	}
	if clean := path.Clean("/" + cfg.Cgroup); clean == "/" || clean != cfg.Cgroup {
		return nil, fmt.Errorf("cgroup %q is no absolute path of a cgroup below the root", cfg.Cgroup)
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find cgroup hierarchies: %w", err)
	}
	e.cgroups.all = parseHierarchies(string(mountinfo))
	if _, ok := e.cgroups.findHierarchy("devices"); !ok {
		return nil, errors.New("no cgroup v1 devices hierarchy is mounted: mount it, or run the agent without isolation")
	}
	return e, nil
}

// ClearCgroups removes the cgroups of an earlier engine with the same parent
// cgroup. The earlier agent has died, so its containers are already ending.
// ClearCgroups waits until ctx ends or they have exited, so that executors can
// stop what runs outside their containers; then it kills them. Mounts need no
// cleanup: their namespaces end with the processes.
func (e *ContainerEngine) ClearCgroups(ctx context.Context) error {
	if !e.fenced {
		return nil
	}
	// Slightly longer than the grace period that containers give their
	// commands.
	ctx, cancel := context.WithTimeout(ctx, orphanGrace+time.Second)
	defer cancel()
	e.cgroups.awaitEmpty(ctx, e.cgroup)
	return e.cgroups.clearCgroup(e.cgroup)
}

// CgroupPath returns the cgroup of the container with the given ids.
func (e *ContainerEngine) CgroupPath(ids []string) string {
	return path.Join(e.cgroup, path.Join(ids...))
}
