package main

import (
	"context"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/socket"
)

// conditionsAgain is the pause before a daemon that does not answer is asked
// again. Agents without one are common.
const conditionsAgain = 5 * time.Second

// conditions tells of devices' conditions as the daemon at that socket does,
// until ctx ends.
func conditions(path string) func(context.Context, []string, func(string, gpu.Condition)) {
	return func(ctx context.Context, devices []string, tell func(string, gpu.Condition)) {
		client := socket.NewClient(path)
		defer client.Close()
		for ctx.Err() == nil {
			for change, err := range client.Conditions(ctx, devices...) {
				if err != nil {
					break
				}
				tell(change.Device, change.Condition)
			}
			select {
			case <-ctx.Done():
			case <-time.After(conditionsAgain):
			}
		}
	}
}
