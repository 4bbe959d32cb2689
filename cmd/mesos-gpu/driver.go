package main

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
	// driverPatience is for a daemon that is there but hangs: what it would
	// say is worth no more of a task's start.
	driverPatience = time.Second
	// kernelModule is where the kernel tells the version of the driver's.
	kernelModule = "/sys/module/nvidia/version"
)

// driver tells what is known of this machine's driver, and of the GPUs that
// this process may open: the daemon at that socket knows most, the kernel what
// version the driver is.
func driver(path string) func(context.Context) image.Host {
	return driverFor(path, isolator.Granted)
}

func driverFor(path string, granted func() (gpu.Reach, error)) func(context.Context) image.Host {
	return func(ctx context.Context) image.Host {
		ctx, cancel := context.WithTimeout(ctx, driverPatience)
		defer cancel()
		client := socket.NewClient(path)
		defer client.Close()
		if h, err := client.Host(ctx); err == nil && h.Driver != "" {
			h.Devices = held(ctx, client, granted)
			return imageHost(h)
		}
		version, err := os.ReadFile(kernelModule)
		if err != nil {
			return image.Host{}
		}
		return image.Host{Driver: strings.TrimSpace(string(version))}
	}
}

// held are the devices that this process may open; none where nobody knows.
// Others of the machine are no business of its task's image.
func held(ctx context.Context, client *socket.Client, granted func() (gpu.Reach, error)) []gpu.Device {
	reach, err := granted()
	if err != nil || !reach.Confined || len(reach.Minors) == 0 {
		return nil
	}
	all, err := client.Devices(ctx)
	if err != nil {
		return nil
	}
	var devices []gpu.Device
	for _, d := range all {
		if reach.Holds(d.Device) {
			devices = append(devices, d.Device)
		}
	}
	return devices
}

// imageHost is the host in package image's words; its GPUs go by their UUIDs.
func imageHost(h gpu.Host) image.Host {
	known := image.Host{Driver: h.Driver, CUDA: h.CUDA}
	for _, d := range h.Devices {
		known.GPUs = append(known.GPUs, image.GPU{Name: d.UUID, Arch: d.Arch, Brand: d.Brand})
	}
	return known
}

// fits is an error where an image cannot run on one of those devices. What the
// host has lost is not the image's fault.
func fits(labels, env map[string]string, devices []string, h gpu.Host) error {
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
