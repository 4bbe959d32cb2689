package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
)

// ContainerEngine launches containers below one cgroup.
type ContainerEngine struct {
	program string
	fenced  bool
	cgroup  string
	cgroups cgroupHierarchies
}

// EngineConfig says what an Engine works with.
type EngineConfig struct {
	// Program is the binary whose InitCommand calls Init.
	Program string
	// Fenced gives containers cgroups and namespaces; it needs root.
	Fenced bool
	// Cgroup is the cgroup of all containers, "/mesos-gpu-…".
	Cgroup string
}

// New makes an Engine. A fenced one needs the cgroup v1 devices hierarchy.
func New(cfg EngineConfig) (*ContainerEngine, error) {
	e := &ContainerEngine{program: cfg.Program, fenced: cfg.Fenced, cgroup: cfg.Cgroup}
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

// ClearCgroups removes the cgroups that an earlier Engine of the same cgroup left.
// Its containers are ending, as their agent has died: until ctx ends they get
// the time for it, so that an executor stops what runs outside its container;
// then they are killed. Mounts need no clearing: they were in namespaces that
// ended with their processes.
func (e *ContainerEngine) ClearCgroups(ctx context.Context) error {
	if !e.fenced {
		return nil
	}
	// A little more than the containers give their commands.
	ctx, cancel := context.WithTimeout(ctx, orphanGrace+time.Second)
	defer cancel()
	e.cgroups.awaitEmpty(ctx, e.cgroup)
	return e.cgroups.clearCgroup(e.cgroup)
}

// CgroupPath is the cgroup of the container with those ids.
func (e *ContainerEngine) CgroupPath(ids []string) string {
	return path.Join(e.cgroup, path.Join(ids...))
}

func checkIDs(ids []string) error {
	if len(ids) == 0 {
		return errors.New("a container needs an id")
	}
	for _, id := range ids {
		if id == "" || strings.ContainsAny(id, "/. \x00") {
			return fmt.Errorf("container id %q is empty or has a slash, period or space", id)
		}
	}
	return nil
}
