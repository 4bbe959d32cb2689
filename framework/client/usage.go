package client

import (
	"context"

	"mesos-gpu/framework/api"
)

// Usage is what the GPUs of running tasks do, of all jobs or of one.
func (c *Client) Usage(ctx context.Context, job string) ([]api.TaskUsage, error) {
	return collect(c.EachUsage(ctx, job))
}
