package client

import (
	"context"
	"net/url"

	"mesos-gpu/framework/api"
)

// Usage is what the GPUs of running tasks do, of all jobs or of one.
func (c *Client) Usage(ctx context.Context, job string) ([]api.TaskUsage, error) {
	path := "/v1/usage"
	if job != "" {
		path += "?job=" + url.QueryEscape(job)
	}
	var list api.UsageList
	err := c.get(ctx, path, &list)
	return list.Tasks, err
}
