package agent

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/socket"
)

// usageReader asks the daemon at that socket what a container's devices do.
func usageReader(path string) func(context.Context, string, []string, bool) (gpu.TaskUsage, error) {
	return func(ctx context.Context, container string, devices []string, parts bool) (gpu.TaskUsage, error) {
		client := socket.NewDaemonClient(path)
		defer client.Close()
		return client.ReadUsage(ctx, container, devices, parts)
	}
}
