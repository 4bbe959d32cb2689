package client

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// AddSchedule adds a schedule. spec must have a Schedule.
func (c *Client) AddSchedule(ctx context.Context, spec job.Spec) (view api.ScheduleView, err error) {
	err = c.sendJSON(ctx, http.MethodPost, "/v1/schedules", spec, &view)
	return view, err
}

// ListSchedules lists the schedules by name.
func (c *Client) ListSchedules(ctx context.Context) ([]api.ScheduleView, error) {
	return collectAll(c.EachSchedule(ctx))
}

// GetSchedule returns one schedule.
func (c *Client) GetSchedule(ctx context.Context, name string) (view api.ScheduleView, err error) {
	err = c.getJSON(ctx, "/v1/schedules/"+url.PathEscape(name), &view)
	return view, err
}

// EndSchedule ends a schedule. The jobs that it has submitted continue.
func (c *Client) EndSchedule(ctx context.Context, name string) error {
	return c.sendJSON(ctx, http.MethodDelete, "/v1/schedules/"+url.PathEscape(name), nil, nil)
}
