package client

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// AddSchedule has the Spec's jobs run when its Schedule says.
func (c *Client) AddSchedule(ctx context.Context, spec job.Spec) (view api.Schedule, err error) {
	err = c.do(ctx, http.MethodPost, "/v1/schedules", spec, &view)
	return view, err
}

// Schedules lists them by name.
func (c *Client) Schedules(ctx context.Context) ([]api.Schedule, error) {
	return collect(c.EachSchedule(ctx))
}

// Schedule returns one schedule.
func (c *Client) Schedule(ctx context.Context, name string) (view api.Schedule, err error) {
	err = c.get(ctx, "/v1/schedules/"+url.PathEscape(name), &view)
	return view, err
}

// EndSchedule ends a schedule; the jobs that it has submitted go on.
func (c *Client) EndSchedule(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "/v1/schedules/"+url.PathEscape(name), nil, nil)
}
