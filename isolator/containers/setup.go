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
	driverInside = "/usr/local/nvidia"
	compatInside = "/usr/local/cuda/compat"

	pathVariable    = "PATH"
	libraryVariable = "LD_LIBRARY_PATH"
	// defaultPath is for an image that sets no PATH.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// mounts is the driver volume where the image asks for it. Many images that
// do so run well without GPUs on plain machines: a volume that cannot be had,
// or a driver that will not do, is an error only with a GPU.
func (c *Containers) mounts(ctx context.Context, l Launch, gpus bool) ([]Mount, error) {
	if !l.Rootfs {
		return []Mount{}, nil
	}
	needs, err := c.cfg.NeedsDriver(l.Image.Labels, l.Image.Environment)
	switch {
	case err != nil && gpus:
		return nil, fmt.Errorf("its image cannot run here: %w", err)
	case err != nil:
		c.cfg.Log.WithError(err).WithField("container", l.Container).Info("no driver volume; the container holds no GPU")
		return []Mount{}, nil
	case !needs:
		return []Mount{}, nil
	}
	volume, err := c.cfg.Volume(ctx)
	switch {
	case err == nil:
		return []Mount{{Source: volume, Target: driverInside, ReadOnly: true}}, nil
	case gpus:
		return nil, fmt.Errorf("its image asks for the GPU driver: %w", err)
	default:
		c.cfg.Log.WithError(err).WithField("container", l.Container).Info("no driver volume; the container holds no GPU")
		return []Mount{}, nil
	}
}

// fits refuses an image that cannot run on one of the container's devices.
func (c *Containers) fits(l Launch, devices []string) error {
	if c.cfg.Fits == nil || !l.Rootfs || len(devices) == 0 {
		return nil
	}
	if err := c.cfg.Fits(l.Image.Labels, l.Image.Environment, devices); err != nil {
		return fmt.Errorf("its image cannot run here: %w", err)
	}
	return nil
}

// environment names the devices and, with the driver volume, adds its folders
// to the image's search paths. NVIDIA's compatibility libraries, which some
// images bring, come before the host's.
func environment(devices []string, mounts []Mount, image map[string]string) map[string]string {
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
		env[pathVariable] = with(programs, driverInside+"/bin")
		env[libraryVariable] = with(image[libraryVariable], compatInside, driverInside+"/lib", driverInside+"/lib64")
	}
	return env
}

// with appends the folders that a colon-separated list lacks.
func with(list string, folders ...string) string {
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

func named(nodes []rules.Node) []Node {
	list := make([]Node, len(nodes))
	for i, n := range nodes {
		list[i] = Node{Path: "/dev/" + n.Name, Major: n.Major, Minor: n.Minor}
	}
	return list
}
