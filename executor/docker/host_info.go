package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	dockerimage "github.com/docker/docker/api/types/image"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// hostInfo contains the host's settings for a container.
type hostInfo struct {
	// imageEnv are the image's own "NAME=value" entries.
	imageEnv []string
	// volume is the driver volume's path on the host; empty if the image does
	// not need it.
	volume string
	// devices are the device nodes of the container, as paths on the host.
	devices []string
	// hostDevices are nodes that are no GPU's, with the same path in the container.
	hostDevices []string
	sandbox     string
	// hostIPC is set if the operator allows tasks to use the host's IPC
	// namespace.
	hostIPC bool
}

// gatherHostInfo collects what the container gets from this host.
func (rt *EngineRuntime) gatherHostInfo(ctx context.Context, t task.TaskSpec, img dockerimage.InspectResponse) (hostInfo, error) {
	f := hostInfo{sandbox: rt.HostSandbox, hostIPC: rt.AllowHostIPC}
	var labels map[string]string
	if img.Config != nil {
		f.imageEnv, labels = img.Config.Env, img.Config.Labels
	}
	var err error
	if f.devices, err = listDeviceNodes(rt.DevDir, t.Minors, t.Caps); err != nil {
		return hostInfo{}, err
	}
	if f.hostDevices, err = listHostDevices(t.HostDevices, rt.AllowedDevices, filepath.Join(cmp.Or(rt.procDir, "/proc"), "devices")); err != nil {
		return hostInfo{}, err
	}
	request, err := image.Examine(labels, f.imageEnv, t.Env, rt.describeHost(ctx, t.DeviceIDs))
	switch {
	case err != nil && t.GPUs > 0:
		return hostInfo{}, fmt.Errorf("image %s: %w%s", t.Image, err, ignoreRequirementsAdvice(err))
	case err != nil:
		rt.Log.WithError(err).Info("the image is incompatible with the driver; the task has no GPU")
		return f, nil
	case !request.NeedsDriver():
		return f, nil
	}
	f.volume, err = rt.PrepareVolume(ctx)
	switch {
	case err == nil:
		return f, nil
	case t.GPUs == 0:
		// Without a GPU the driver's files are useless; many images that
		// request them run well on machines without a driver.
		rt.Log.WithError(err).Info("no driver volume; the task has no GPU")
		return f, nil
	case ctx.Err() != nil:
		return hostInfo{}, err
	default:
		err = fmt.Errorf("image %s needs the GPU driver: %w", t.Image, err)
		return hostInfo{}, &task.MachineFaultError{Fault: job.NoDriver, Err: err}
	}
}

// ignoreRequirementsAdvice returns how a job can start an incompatible image
// anyway.
func ignoreRequirementsAdvice(err error) string {
	if unfit := (*image.IncompatibleError)(nil); !errors.As(err, &unfit) {
		return ""
	}
	return "; NVIDIA_DISABLE_REQUIRE=true in the job's environment starts it all the same"
}

// describeHost returns the driver and the given GPUs; all GPUs if deviceIDs is
// empty.
func (rt *EngineRuntime) describeHost(ctx context.Context, deviceIDs []string) image.HostDriver {
	if rt.ReadHost == nil {
		return image.HostDriver{}
	}
	h := rt.ReadHost(ctx)
	if len(deviceIDs) > 0 {
		h.GPUs = slices.DeleteFunc(slices.Clone(h.GPUs), func(g image.HostGPU) bool { return !slices.Contains(deviceIDs, g.Name) })
	}
	return h
}

// listDeviceNodes returns the device nodes of the given GPUs and MIG devices
// and, with any GPU, the control nodes that exist. Only nvidiactl is required:
// on some hosts nvidia-uvm is created by the first CUDA program.
func listDeviceNodes(dir string, minors, caps []int) ([]string, error) {
	if len(minors) == 0 {
		return nil, nil
	}
	var nodes []string
	var own []string
	for _, minor := range minors {
		own = append(own, "nvidia"+strconv.Itoa(minor))
	}
	for _, minor := range caps {
		own = append(own, filepath.Join("nvidia-caps", "nvidia-cap"+strconv.Itoa(minor)))
	}
	for _, name := range own {
		node := filepath.Join(dir, name)
		if _, err := os.Stat(node); err != nil {
			return nil, fmt.Errorf("find GPU node: %w: load the NVIDIA driver on this agent, or set MESOS_GPU_DEV to the folder that holds its nodes", err)
		}
		nodes = append(nodes, node)
	}
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"} {
		node := filepath.Join(dir, name)
		if _, err := os.Stat(node); err == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}
