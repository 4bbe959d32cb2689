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
	// hostReadTimeout limits the request to a daemon that hangs. The result does not
	// justify a longer delay of a task's start.
	hostReadTimeout = time.Second
	// kernelModule is the file that contains the version of the driver's kernel module.
	kernelModule = "/sys/module/nvidia/version"
)

// hostReader returns a function that reads this machine's driver version and the GPUs
// that this process may open. It requests them from the daemon at the socket path. If
// the daemon does not respond, it reads only the driver version, from the kernel.
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

// grantedDevices returns the devices that this process may open, or none if that is
// unknown. The task's image does not depend on the machine's other devices.
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

// imageHost converts the host to the type of package image. GPUs are named by UUID.
func imageHost(h gpu.Host) image.HostDriver {
	known := image.HostDriver{Driver: h.Driver, CUDA: h.CUDA}
	for _, d := range h.Devices {
		known.GPUs = append(known.GPUs, image.HostGPU{Name: d.UUID, Arch: d.Arch, Brand: d.Brand})
	}
	return known
}

// checkImage returns an error if the image cannot run on one of the devices. It
// returns nil if the host has lost a device, since that is not a fault of the image.
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
