package main

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/socket"
)

// useOf asks the daemon at that socket what a container's devices do.
func useOf(path string) func(context.Context, string, []string, bool) (gpu.Usage, error) {
	return func(ctx context.Context, container string, devices []string, parts bool) (gpu.Usage, error) {
		client := socket.NewClient(path)
		defer client.Close()
		return client.Use(ctx, container, devices, parts)
	}
}
