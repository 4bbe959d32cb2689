package client

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
)

// ListQueue lists the jobs with waiting tasks in queue order.
func (c *Client) ListQueue(ctx context.Context) ([]api.QueuedJob, error) {
	return collectAll(c.EachQueued(ctx))
}

// ListRoles lists the scheduler's roles.
func (c *Client) ListRoles(ctx context.Context) ([]api.RoleStatus, error) {
	return collectAll(c.EachRole(ctx))
}

// SetQuota sets a role's quota, such as "V100=8, *=16". "" means unlimited, nil restores
// the quota of the roles file.
func (c *Client) SetQuota(ctx context.Context, role string, quota *string) (r api.RoleStatus, err error) {
	err = c.sendJSON(ctx, http.MethodPut, "/v1/roles/"+url.PathEscape(role)+"/quota", api.QuotaChange{Quota: quota}, &r)
	return r, err
}

// CordonAgent keeps new tasks off the agent with this id or hostname.
func (c *Client) CordonAgent(ctx context.Context, agent, reason string) error {
	return c.postToAgent(ctx, agent, "cordon", api.CordonRequest{Reason: reason})
}

// DrainAgent cordons the agent, stops its tasks and queues them again.
func (c *Client) DrainAgent(ctx context.Context, agent, reason string) error {
	return c.postToAgent(ctx, agent, "drain", api.CordonRequest{Reason: reason})
}

// UncordonAgent allows new tasks on the agent.
func (c *Client) UncordonAgent(ctx context.Context, agent string) error {
	return c.postToAgent(ctx, agent, "uncordon", struct{}{})
}

// postToAgent makes a change of an agent, which may be named by its id or hostname.
func (c *Client) postToAgent(ctx context.Context, agent, verb string, body any) error {
	return c.sendJSON(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(agent)+"/"+verb, body, nil)
}

// GetDemand returns the requirements of waiting tasks that would run if machines were
// added. It waits until the scheduler can answer, some seconds after its start.
func (c *Client) GetDemand(ctx context.Context) (list api.DemandList, err error) {
	err = c.getJSON(ctx, "/v1/demand", &list)
	return list, err
}
