package agent

import (
	"context"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/socket"
)

// conditionsRetryDelay is the pause before the next request to a daemon that does not
// respond. Many agents have no daemon.
const conditionsRetryDelay = 5 * time.Second

// watchConditions returns a function that reports changes of device conditions from
// the daemon at the socket path, until its ctx ends.
func watchConditions(path string) func(context.Context, []string, func(string, gpu.DeviceCondition)) {
	return func(ctx context.Context, devices []string, tell func(string, gpu.DeviceCondition)) {
		client := socket.NewDaemonClient(path)
		defer client.Close()
		for ctx.Err() == nil {
			for change, err := range client.WatchConditions(ctx, devices...) {
				if err != nil {
					break
				}
				tell(change.Device, change.Condition)
			}
			select {
			case <-ctx.Done():
			case <-time.After(conditionsRetryDelay):
			}
		}
	}
}
