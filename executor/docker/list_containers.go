package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
)

// Labels of a task's container. devicesLabel has the task's devices, separated by spaces: UUID, or
// UUID:MIB:PERCENT for a share.
const (
	taskLabel      = "mesos-gpu.task"
	jobLabel       = "mesos-gpu.job"
	frameworkLabel = "mesos-gpu.framework"
	containerLabel = "mesos-gpu.container"
	devicesLabel   = "mesos-gpu.devices"
)

// formatDevices returns the value of devicesLabel.
func formatDevices(t task.TaskSpec) string {
	items := slices.Clone(t.DeviceIDs)
	for i, id := range items {
		for _, s := range t.DeviceShares {
			if s.UUID == id {
				items[i] = fmt.Sprintf("%s:%d:%d", s.UUID, s.MemMiB, s.Cores)
			}
		}
	}
	return strings.Join(items, " ")
}

// parseDevices parses the value of devicesLabel. It skips items that no executor writes.
func parseDevices(text string) (devices []string, shares []gpu.DeviceShare) {
	for item := range strings.FieldsSeq(text) {
		uuid, amounts, shared := strings.Cut(item, ":")
		if !shared {
			devices = append(devices, uuid)
			continue
		}
		mem, cores, _ := strings.Cut(amounts, ":")
		mib, err := strconv.ParseInt(mem, 10, 64)
		percent, err2 := strconv.Atoi(cores)
		if uuid == "" || err != nil || err2 != nil {
			continue
		}
		devices, shares = append(devices, uuid), append(shares, gpu.DeviceShare{UUID: uuid, MemMiB: mib, Cores: percent})
	}
	return devices, shares
}

// ListContainers returns the Docker containers of this agent's executors that may use devices of
// the host, running or not, by the ids of the executors' containers. dir is EngineRuntime.LocksDir.
// Without lock files there it does not connect to the engine. Containers of earlier versions have
// no label with their devices; those are then found by their nodes.
func ListContainers(ctx context.Context, newClient func() (*client.Client, error), dir string, host gpu.Host) ([]gpu.ContainerDevices, error) {
	const what = "list the containers of executors"
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	locked := map[string]bool{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), namePrefix) {
			locked[e.Name()] = true
		}
	}
	if len(locked) == 0 {
		return nil, nil
	}
	engine, err := newClient()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer engine.Close()
	found, err := engine.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", taskLabel))})
	if err != nil {
		return nil, fmt.Errorf("%s: docker engine at %s: %w", what, engine.DaemonHost(), err)
	}
	var list []gpu.ContainerDevices
	for _, c := range found {
		if len(c.Names) == 0 || !locked[strings.TrimPrefix(c.Names[0], "/")] {
			continue // of another agent's executor
		}
		h := gpu.ContainerDevices{
			Container: c.Labels[containerLabel], Framework: c.Labels[frameworkLabel], Task: c.Labels[taskLabel], Job: c.Labels[jobLabel],
		}
		if h.Container == "" {
			h.Container = strings.TrimPrefix(c.Names[0], "/"+namePrefix)
		}
		devices, labelled := c.Labels[devicesLabel]
		if h.Devices, h.Shares = parseDevices(devices); !labelled {
			if h.Devices, err = devicesByNodes(ctx, engine, c.ID, host); err != nil {
				return nil, fmt.Errorf("%s: %w", what, err)
			}
		}
		if len(h.Devices) > 0 {
			list = append(list, h)
		}
	}
	return list, nil
}

// devicesByNodes returns the devices whose nodes a container has. It returns none for simulated
// devices: their nodes belong to no device.
func devicesByNodes(ctx context.Context, engine *client.Client, id string, host gpu.Host) ([]string, error) {
	if host.Simulated {
		return nil, nil
	}
	c, err := engine.ContainerInspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	minors, caps := map[int]bool{}, map[int]bool{}
	for _, d := range c.HostConfig.Devices {
		name := filepath.Base(d.PathOnHost)
		for prefix, numbers := range map[string]map[int]bool{"nvidia-cap": caps, "nvidia": minors} {
			if n, err := strconv.Atoi(strings.TrimPrefix(name, prefix)); err == nil && strings.HasPrefix(name, prefix) {
				numbers[n] = true
			}
		}
	}
	access := gpu.DeviceAccess{Confined: true, Minors: slices.Sorted(maps.Keys(minors)), Caps: slices.Sorted(maps.Keys(caps))}
	var devices []string
	for _, d := range host.Devices {
		if access.CanOpen(d) {
			devices = append(devices, d.UUID)
		}
	}
	return devices, nil
}
