package agent

import (
	"context"
	"os"
	"strings"
	"time"

	"mesos-gpu/executor/image"
	"mesos-gpu/gpu"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/socket"
)

const (
	// hostReadTimeout is for a daemon that is there but hangs: what it would
	// say is worth no more of a task's start.
	hostReadTimeout = time.Second
	// kernelModule is the file with the version of the driver's kernel module.
	kernelModule = "/sys/module/nvidia/version"
)

// hostReader returns what is known of this machine's driver, and of the GPUs that
// this process may open: the daemon at that socket knows most, the kernel what
// version the driver is.
func hostReader(path string) func(context.Context) image.HostDriver {
	return hostReaderFor(path, isolator.DetectDeviceAccess)
}

func hostReaderFor(path string, granted func() (gpu.DeviceAccess, error)) func(context.Context) image.HostDriver {
	return func(ctx context.Context) image.HostDriver {
		ctx, cancel := context.WithTimeout(ctx, hostReadTimeout)
		defer cancel()
		client := socket.NewDaemonClient(path)
		defer client.Close()
		if h, err := client.HostDriver(ctx); err == nil && h.Driver != "" {
			h.Devices = grantedDevices(ctx, client, granted)
			return imageHost(h)
		}
		version, err := os.ReadFile(kernelModule)
		if err != nil {
			return image.HostDriver{}
		}
		return image.HostDriver{Driver: strings.TrimSpace(string(version))}
	}
}

// grantedDevices are the devices that this process may open; none if that is unknown.
// Others of the machine are no business of its task's image.
func grantedDevices(ctx context.Context, client *socket.DaemonClient, granted func() (gpu.DeviceAccess, error)) []gpu.Device {
	reach, err := granted()
	if err != nil || !reach.Confined || len(reach.Minors) == 0 {
		return nil
	}
	all, err := client.ListDevices(ctx)
	if err != nil {
		return nil
	}
	var devices []gpu.Device
	for _, d := range all {
		if reach.CanOpen(d.Device) {
			devices = append(devices, d.Device)
		}
	}
	return devices
}

// imageHost is the host in package image's words; its GPUs go by their UUIDs.
func imageHost(h gpu.Host) image.HostDriver {
	known := image.HostDriver{Driver: h.Driver, CUDA: h.CUDA}
	for _, d := range h.Devices {
		known.GPUs = append(known.GPUs, image.HostGPU{Name: d.UUID, Arch: d.Arch, Brand: d.Brand})
	}
	return known
}

// checkImage is an error where an image cannot run on one of those devices. What the
// host has lost is not the image's fault.
func checkImage(labels, env map[string]string, devices []string, h gpu.Host) error {
	on, err := h.ByUUID(devices)
	if err != nil {
		return nil
	}
	h.Devices = on
	var entries []string
	for name, value := range env {
		entries = append(entries, name+"="+value)
	}
	_, err = image.Examine(labels, entries, nil, imageHost(h))
	return err
}
