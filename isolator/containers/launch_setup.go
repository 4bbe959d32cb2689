package containers

import (
	"context"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/isolator/rules"
	"mesos-gpu/job"
)

const (
	// Where a container finds the driver, as in NVIDIA's images and with Mesos's own isolator.
	containerDriverPath = "/usr/local/nvidia"
	containerCompatPath = "/usr/local/cuda/compat"

	pathVariable    = "PATH"
	libraryVariable = "LD_LIBRARY_PATH"
	// defaultPath is for an image that sets no PATH.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// ImageError is returned for an image that cannot run with this agent's driver, or on the
// container's devices.
type ImageError struct{ Reason error }

func (e *ImageError) Error() string { return "its image cannot run here: " + e.Reason.Error() }

func (e *ImageError) Unwrap() error { return e.Reason }

// NoDriverError is returned for a container with GPUs whose image requests the driver if the
// machine has no usable driver volume. Its message has job.MarkMachineFault's mark: nothing
// else of the error reaches the scheduler.
type NoDriverError struct{ Reason error }

func (e *NoDriverError) Error() string {
	return job.MarkMachineFault("its image requests the GPU driver: "+e.Reason.Error(), job.NoDriver)
}

func (e *NoDriverError) Unwrap() error { return e.Reason }

// driverMounts returns the mount of the driver volume if the image requests it. Many such
// images also run on machines without GPUs: a missing volume or an unsuitable driver is an
// error only if the container has a GPU.
func (m *Manager) driverMounts(ctx context.Context, l LaunchRequest, gpus bool) ([]BindMount, error) {
	if !l.Rootfs {
		return []BindMount{}, nil
	}
	needs, err := m.cfg.NeedsDriver(l.Image.Labels, l.Image.Environment)
	switch {
	case err != nil && gpus:
		return nil, &ImageError{err}
	case err != nil:
		m.cfg.Log.WithError(err).WithField("container", l.Container).Info("no driver volume; the container holds no GPU")
		return []BindMount{}, nil
	case !needs:
		return []BindMount{}, nil
	}
	volume, err := m.cfg.DriverVolume(ctx)
	switch {
	case err == nil:
		return []BindMount{{Source: volume, Target: containerDriverPath, ReadOnly: true}}, nil
	case gpus && ctx.Err() == nil:
		return nil, &NoDriverError{err}
	case gpus:
		return nil, err
	default:
		m.cfg.Log.WithError(err).WithField("container", l.Container).Info("no driver volume; the container holds no GPU")
		return []BindMount{}, nil
	}
}

// checkImage returns an *ImageError if the image cannot run on one of the container's devices.
func (m *Manager) checkImage(l LaunchRequest, devices []string) error {
	if m.cfg.CheckImage == nil || !l.Rootfs || len(devices) == 0 {
		return nil
	}
	if err := m.cfg.CheckImage(l.Image.Labels, l.Image.Environment, devices); err != nil {
		return &ImageError{err}
	}
	return nil
}

// buildEnvironment returns variables that name the devices. With the driver volume it adds the
// volume's folders to the image's search paths.
func buildEnvironment(devices []string, mounts []BindMount, image map[string]string) map[string]string {
	env := map[string]string{}
	if len(devices) > 0 {
		env["NVIDIA_VISIBLE_DEVICES"] = strings.Join(devices, ",")
		env["MESOS_GPU_DEVICES"] = strings.Join(devices, ",")
	}
	if len(mounts) > 0 {
		maps.Copy(env, DriverFolders(image))
	}
	return env
}

// DriverFolders returns an image's search paths with the folders of the driver volume. NVIDIA's
// compatibility libraries, which some images contain, come before the host's.
func DriverFolders(image map[string]string) map[string]string {
	programs, ok := image[pathVariable]
	if !ok {
		programs = defaultPath
	}
	return map[string]string{
		pathVariable:    appendFolders(programs, containerDriverPath+"/bin"),
		libraryVariable: appendFolders(image[libraryVariable], containerCompatPath, containerDriverPath+"/lib", containerDriverPath+"/lib64"),
	}
}

// appendFolders appends the folders that a colon-separated list does not contain.
func appendFolders(list string, folders ...string) string {
	var all []string
	if list != "" {
		all = strings.Split(list, ":")
	}
	for _, f := range folders {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return strings.Join(all, ":")
}

func nodesWithPaths(nodes []rules.DeviceNode) []DeviceNode {
	list := make([]DeviceNode, len(nodes))
	for i, n := range nodes {
		list[i] = DeviceNode{Path: "/dev/" + n.Name, Major: n.Major, Minor: n.Minor}
	}
	return list
}
