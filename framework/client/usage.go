package client

import (
	"context"

	"mesos-gpu/framework/api"
)

// ListUsage lists the GPU usage of running tasks, of one job or, if job is empty, of all.
func (c *Client) ListUsage(ctx context.Context, job string) ([]api.TaskUsage, error) {
	return collectAll(c.EachUsage(ctx, job))
}
