package client

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// HoldJob keeps the waiting tasks of a job from being placed until ReleaseJob. Its placed tasks keep running.
func (c *Client) HoldJob(ctx context.Context, name, reason string) error {
	return c.sendJSON(ctx, http.MethodPut, "/v1/jobs/"+url.PathEscape(name)+"/hold", api.HoldRequest{Reason: reason}, nil)
}

// ReleaseJob ends the hold of a job. It is no error if the job is not held.
func (c *Client) ReleaseJob(ctx context.Context, name string) error {
	return c.sendJSON(ctx, http.MethodDelete, "/v1/jobs/"+url.PathEscape(name)+"/hold", nil, nil)
}

// RequeueJob stops the placed tasks of a job with their kill grace. They are queued again and keep their place in the
// queue.
func (c *Client) RequeueJob(ctx context.Context, name string, r api.RequeueRequest) error {
	return c.sendJSON(ctx, http.MethodPost, "/v1/jobs/"+url.PathEscape(name)+"/requeue", r, nil)
}

// HoldJobsOf keeps the waiting tasks of all jobs of a user, or of a role and the roles below it, from being placed until
// ReleaseJobsOf. Jobs that are submitted later are held too.
func (c *Client) HoldJobsOf(ctx context.Context, target job.HoldTarget, r api.HoldRequest) error {
	return c.sendJSON(ctx, http.MethodPut, holdPath(target), r, nil)
}

// ReleaseJobsOf ends the hold of a user or a role.
func (c *Client) ReleaseJobsOf(ctx context.Context, target job.HoldTarget) error {
	return c.sendJSON(ctx, http.MethodDelete, holdPath(target), nil, nil)
}

// holdPath returns the path of the hold of a user or a role.
func holdPath(target job.HoldTarget) string {
	return "/v1/" + string(target.Kind) + "s/" + url.PathEscape(target.Name) + "/hold"
}

// ListHolds lists the holds of users and roles. Those of jobs are in the jobs.
func (c *Client) ListHolds(ctx context.Context) (list []api.HoldView, err error) {
	var answer api.HoldList
	err = c.getJSON(ctx, "/v1/holds", &answer)
	return answer.Holds, err
}
