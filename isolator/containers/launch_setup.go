package containers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/isolator/rules"
)

// Where a container finds the driver, as in NVIDIA's images and under Mesos's
// own isolator.
const (
	containerDriverPath = "/usr/local/nvidia"
	containerCompatPath = "/usr/local/cuda/compat"

	pathVariable    = "PATH"
	libraryVariable = "LD_LIBRARY_PATH"
	// defaultPath is for an image that sets no PATH.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// driverMounts is the driver volume where the image asks for it. Many images that
// do so run well without GPUs on plain machines: a volume that cannot be had,
// or a driver that will not do, is an error only with a GPU.
func (c *Manager) driverMounts(ctx context.Context, l LaunchRequest, gpus bool) ([]BindMount, error) {
	if !l.Rootfs {
		return []BindMount{}, nil
	}
	needs, err := c.cfg.NeedsDriver(l.Image.Labels, l.Image.Environment)
	switch {
	case err != nil && gpus:
		return nil, fmt.Errorf("its image cannot run here: %w", err)
	case err != nil:
		c.cfg.Log.WithError(err).WithField("container", l.Container).Info("no driver volume; the container holds no GPU")
		return []BindMount{}, nil
	case !needs:
		return []BindMount{}, nil
	}
	volume, err := c.cfg.DriverVolume(ctx)
	switch {
	case err == nil:
		return []BindMount{{Source: volume, Target: containerDriverPath, ReadOnly: true}}, nil
	case gpus:
		return nil, fmt.Errorf("its image asks for the GPU driver: %w", err)
	default:
		c.cfg.Log.WithError(err).WithField("container", l.Container).Info("no driver volume; the container holds no GPU")
		return []BindMount{}, nil
	}
}

// checkImage refuses an image that cannot run on one of the container's devices.
func (c *Manager) checkImage(l LaunchRequest, devices []string) error {
	if c.cfg.CheckImage == nil || !l.Rootfs || len(devices) == 0 {
		return nil
	}
	if err := c.cfg.CheckImage(l.Image.Labels, l.Image.Environment, devices); err != nil {
		return fmt.Errorf("its image cannot run here: %w", err)
	}
	return nil
}

// buildEnvironment names the devices and, with the driver volume, adds its folders
// to the image's search paths. NVIDIA's compatibility libraries, which some
// images bring, come before the host's.
func buildEnvironment(devices []string, mounts []BindMount, image map[string]string) map[string]string {
	env := map[string]string{}
	if len(devices) > 0 {
		env["NVIDIA_VISIBLE_DEVICES"] = strings.Join(devices, ",")
		env["MESOS_GPU_DEVICES"] = strings.Join(devices, ",")
	}
	if len(mounts) > 0 {
		programs, ok := image[pathVariable]
		if !ok {
			programs = defaultPath
		}
		env[pathVariable] = appendFolders(programs, containerDriverPath+"/bin")
		env[libraryVariable] = appendFolders(image[libraryVariable], containerCompatPath, containerDriverPath+"/lib", containerDriverPath+"/lib64")
	}
	return env
}

// appendFolders appends the folders that a colon-separated list lacks.
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
