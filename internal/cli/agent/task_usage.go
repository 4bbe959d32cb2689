package agent

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/socket"
)

// usageReader returns a function that requests the usage of a container's devices from
// the daemon at the socket path.
func usageReader(path string) func(context.Context, string, []string, bool) (gpu.TaskUsage, error) {
	return func(ctx context.Context, container string, devices []string, parts bool) (gpu.TaskUsage, error) {
		client := socket.NewDaemonClient(path)
		defer client.Close()
		return client.ReadUsage(ctx, container, devices, parts)
	}
}
