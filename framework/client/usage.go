package client

import (
	"context"

	"mesos-gpu/framework/api"
)

// ListUsage is what the GPUs of running tasks do, of all jobs or of one.
func (c *Client) ListUsage(ctx context.Context, job string) ([]api.TaskUsage, error) {
	return collectAll(c.EachUsage(ctx, job))
}
