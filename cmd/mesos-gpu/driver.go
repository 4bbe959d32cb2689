package main

import (
	"context"
	"os"
	"strings"
	"time"

	"mesos-gpu/executor/image"
	"mesos-gpu/isolator/socket"
)

const (
	// driverPatience is for a daemon that is there but hangs: what it would
	// say is worth no more of a task's start.
	driverPatience = time.Second
	// kernelModule is where the kernel tells the version of the driver's.
	kernelModule = "/sys/module/nvidia/version"
)

// driver tells what is known of this machine's driver: the daemon at that
// socket knows most, the kernel what version it is.
func driver(path string) func(context.Context) image.Host {
	return func(ctx context.Context) image.Host {
		ctx, cancel := context.WithTimeout(ctx, driverPatience)
		defer cancel()
		client := socket.NewClient(path)
		defer client.Close()
		if h, err := client.Host(ctx); err == nil && h.Driver != "" {
			return image.Host{Driver: h.Driver, CUDA: h.CUDA}
		}
		version, err := os.ReadFile(kernelModule)
		if err != nil {
			return image.Host{}
		}
		return image.Host{Driver: strings.TrimSpace(string(version))}
	}
}
