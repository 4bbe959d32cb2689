package client

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
)

// Queue lists the jobs with tasks that wait, in the order in which they choose.
func (c *Client) Queue(ctx context.Context) ([]api.Queued, error) {
	return collect(c.EachQueued(ctx))
}

// Roles lists the scheduler's roles.
func (c *Client) Roles(ctx context.Context) ([]api.Role, error) {
	return collect(c.EachRole(ctx))
}

// SetQuota bounds what a role may hold: "V100=8, *=16". "" is no bound, nil
// what the roles file says.
func (c *Client) SetQuota(ctx context.Context, role string, quota *string) (r api.Role, err error) {
	err = c.do(ctx, http.MethodPut, "/v1/roles/"+url.PathEscape(role)+"/quota", api.QuotaChange{Quota: quota}, &r)
	return r, err
}

// Cordon keeps tasks off the agent of that id or hostname.
func (c *Client) Cordon(ctx context.Context, agent, reason string) error {
	return c.toAgent(ctx, agent, "cordon", api.Cordoning{Reason: reason})
}

// Drain cordons it, and has its tasks stopped and queued again.
func (c *Client) Drain(ctx context.Context, agent, reason string) error {
	return c.toAgent(ctx, agent, "drain", api.Cordoning{Reason: reason})
}

// Uncordon lets it have tasks again.
func (c *Client) Uncordon(ctx context.Context, agent string) error {
	return c.toAgent(ctx, agent, "uncordon", struct{}{})
}

func (c *Client) toAgent(ctx context.Context, agent, verb string, body any) error {
	return c.do(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(agent)+"/"+verb, body, nil)
}

// Demand says what machines could be added for. It waits until the scheduler
// can tell, which takes some seconds after it has begun.
func (c *Client) Demand(ctx context.Context) (list api.DemandList, err error) {
	err = c.get(ctx, "/v1/demand", &list)
	return list, err
}
