// Package client is the Go client of the scheduler's REST API. The command line uses
// it. It follows the leader, and retries requests that are safe to repeat.
package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// Client sends requests to the leading scheduler, through any of several addresses.
// It is safe for concurrent use.
type Client struct {
	baseURLs []string
	http     *http.Client
	token    string

	mu        sync.Mutex
	lastIndex int // index of the base that answered last
}

// New makes a client of the API at address: a URL, or host:port, or several
// with commas between.
func New(address string, options ...ClientOption) (*Client, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{DialContext: dialer.DialContext, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute}
	c := &Client{http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // once does
	}}
	for _, set := range options {
		if err := set(c); err != nil {
			return nil, err
		}
	}
	for one := range strings.SplitSeq(address, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "http://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("API address %q is no URL such as http://127.0.0.1:8080, nor several with commas between", address)
		}
		c.baseURLs = append(c.baseURLs, strings.TrimRight(u.String(), "/"))
	}
	return c, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	return c.sendJSON(ctx, http.MethodGet, path, nil, into)
}

func (c *Client) sendJSON(ctx context.Context, method, path string, body, into any) error {
	res, err := c.sendRequest(ctx, method, path, body)
	if err != nil {
		return err
	}
	return decodeResponse(res, into)
}

// decodeResponse parses an answer, unless into is nil.
func decodeResponse(res *http.Response, into any) error {
	defer res.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return fmt.Errorf("parse the scheduler's answer to %s %s: %w", res.Request.Method, res.Request.URL.Path, err)
	}
	return nil
}

// SubmitJob submits a job. It is made again while it is not known whether it was
// taken: by its key the scheduler knows that it is the same.
func (c *Client) SubmitJob(ctx context.Context, spec job.Spec) (api.JobView, error) {
	return c.SubmitJobWithKey(ctx, rand.Text(), spec)
}

// SubmitJobWithKey submits a job by a key of the caller's, 1 to 255 printable
// characters: asked again with the same, it answers with the job that is there.
func (c *Client) SubmitJobWithKey(ctx context.Context, key string, spec job.Spec) (view api.JobView, err error) {
	res, err := c.sendWith(ctx, leaderTimeout, http.MethodPost, "/v1/jobs", spec, http.Header{api.IdempotencyKey: {key}})
	if err != nil {
		return view, err
	}
	err = decodeResponse(res, &view)
	view.AlreadySubmitted = res.StatusCode == http.StatusOK
	return view, err
}

// ListJobs lists all jobs, oldest first.
func (c *Client) ListJobs(ctx context.Context) ([]api.JobView, error) {
	return c.ListJobsByState(ctx, "")
}

// ListJobsByState lists the jobs in a state of api.JobQuery, oldest first.
func (c *Client) ListJobsByState(ctx context.Context, state string) ([]api.JobView, error) {
	return collectAll(c.EachJob(ctx, state))
}

// ListJobsPage lists some jobs.
func (c *Client) ListJobsPage(ctx context.Context, q api.JobQuery) (list api.JobList, err error) {
	v := queryValues(nil, q.PageRequest)
	if q.State != "" {
		v.Set("state", q.State)
	}
	if q.NewestFirst {
		v.Set("order", api.NewestFirst)
	}
	err = c.getJSON(ctx, "/v1/jobs?"+v.Encode(), &list)
	return list, err
}

// GetJob returns one job.
func (c *Client) GetJob(ctx context.Context, name string) (view api.JobView, err error) {
	err = c.getJSON(ctx, "/v1/jobs/"+url.PathEscape(name), &view)
	return view, err
}

// KillJob asks for a job's end, with its kill grace.
func (c *Client) KillJob(ctx context.Context, name string) error {
	return c.sendJSON(ctx, http.MethodDelete, "/v1/jobs/"+url.PathEscape(name), nil, nil)
}

// ForceKillJob has a job's processes killed at once, also where Kill was called.
func (c *Client) ForceKillJob(ctx context.Context, name string) error {
	return c.sendJSON(ctx, http.MethodDelete, "/v1/jobs/"+url.PathEscape(name)+"?force=true", nil, nil)
}

// ScaleJob asks for so many tasks of a service.
func (c *Client) ScaleJob(ctx context.Context, name string, tasks int) error {
	return c.sendJSON(ctx, http.MethodPost, "/v1/jobs/"+url.PathEscape(name)+"/scale", api.ScaleRequest{Tasks: &tasks}, nil)
}

// StopTask asks for a task's end; a service starts another in its place unless it
// is retired.
func (c *Client) StopTask(ctx context.Context, task string, retire bool) error {
	return c.sendJSON(ctx, http.MethodPost, "/v1/tasks/"+url.PathEscape(task)+"/stop", api.StopRequest{Retire: retire}, nil)
}

// ListAgents lists the cluster's agents.
func (c *Client) ListAgents(ctx context.Context) ([]api.AgentSummary, error) {
	return collectAll(c.EachAgent(ctx))
}

// ListGPUs lists the cluster's GPUs.
func (c *Client) ListGPUs(ctx context.Context) ([]api.GPUView, error) {
	return collectAll(c.EachGPU(ctx))
}

// GetHealth asks whether the scheduler is up, and connected to a master. It waits
// for no takeover: that there is one is an answer.
func (c *Client) GetHealth(ctx context.Context) (h api.HealthStatus, err error) {
	res, err := c.sendWithin(ctx, 0, http.MethodGet, "/healthz", nil)
	if err != nil {
		return h, err
	}
	return h, decodeResponse(res, &h)
}
