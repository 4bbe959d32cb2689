package client

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
)

// ListQueue lists the jobs with tasks that wait, in the order in which they choose.
func (c *Client) ListQueue(ctx context.Context) ([]api.QueuedJob, error) {
	return collectAll(c.EachQueued(ctx))
}

// ListRoles lists the scheduler's roles.
func (c *Client) ListRoles(ctx context.Context) ([]api.RoleStatus, error) {
	return collectAll(c.EachRole(ctx))
}

// SetQuota bounds what a role may hold: "V100=8, *=16". "" is no bound, nil
// what the roles file says.
func (c *Client) SetQuota(ctx context.Context, role string, quota *string) (r api.RoleStatus, err error) {
	err = c.sendJSON(ctx, http.MethodPut, "/v1/roles/"+url.PathEscape(role)+"/quota", api.QuotaChange{Quota: quota}, &r)
	return r, err
}

// CordonAgent keeps tasks off the agent of that id or hostname.
func (c *Client) CordonAgent(ctx context.Context, agent, reason string) error {
	return c.postToAgent(ctx, agent, "cordon", api.CordonRequest{Reason: reason})
}

// DrainAgent cordons it, and has its tasks stopped and queued again.
func (c *Client) DrainAgent(ctx context.Context, agent, reason string) error {
	return c.postToAgent(ctx, agent, "drain", api.CordonRequest{Reason: reason})
}

// UncordonAgent lets it have tasks again.
func (c *Client) UncordonAgent(ctx context.Context, agent string) error {
	return c.postToAgent(ctx, agent, "uncordon", struct{}{})
}

func (c *Client) postToAgent(ctx context.Context, agent, verb string, body any) error {
	return c.sendJSON(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(agent)+"/"+verb, body, nil)
}

// GetDemand says what machines could be added for. It waits until the scheduler
// can tell, which takes some seconds after it has begun.
func (c *Client) GetDemand(ctx context.Context) (list api.DemandList, err error) {
	err = c.getJSON(ctx, "/v1/demand", &list)
	return list, err
}
