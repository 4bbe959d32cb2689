package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// Client sends requests to the leading scheduler, through any of several addresses.
// It is safe for concurrent use.
type Client struct {
	// baseURLs are the schedulers' addresses. Any of them may lead; the others redirect.
	baseURLs []string
	// socket is the address of a unix socket, "" for TCP.
	socket string
	// http sends the requests; Close ends its idle connections.
	http *http.Client
	// token is sent as a bearer token; "" for none.
	token string
	// timeouts bound connections, responses and retries.
	timeouts Timeouts
	// connection reports broken streams that are retried.
	connection connectionWatch

	// mu protects lastIndex.
	mu sync.Mutex
	// lastIndex is the index of the base URL that responded last. The next request begins with it.
	lastIndex int
}

// streamKeepAlive detects a scheduler whose machine has disappeared after at most 20 s.
var streamKeepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 2}

// socketScheme begins the address of a unix socket.
const socketScheme = "unix://"

// New returns a client of the API at address: a URL, host:port, several of them separated
// by commas, or unix:///PATH for a unix socket. It sends no request.
func New(address string, options ...Option) (*Client, error) {
	var o clientOptions
	for _, set := range options {
		if err := set(&o); err != nil {
			return nil, err
		}
	}
	o.timeouts.setDefaults()
	dialer := net.Dialer{Timeout: o.timeouts.Connect, KeepAliveConfig: streamKeepAlive}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: o.tls, ResponseHeaderTimeout: o.timeouts.Response, IdleConnTimeout: time.Minute}
	socket := ""
	if path, ok := strings.CutPrefix(address, socketScheme); ok {
		socket = address
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
		address = "http://localhost"
	}
	c := &Client{socket: socket, token: o.token, timeouts: o.timeouts, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // sendOnce follows redirects
	}}
	for one := range strings.SplitSeq(address, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "http://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("API address %q: must be a URL such as http://127.0.0.1:8080, or several separated by commas", address)
		}
		c.baseURLs = append(c.baseURLs, strings.TrimRight(u.String(), "/"))
	}
	return c, nil
}

// addresses returns the addresses of New.
func (c *Client) addresses() []string {
	if c.socket != "" {
		return []string{c.socket}
	}
	return c.baseURLs
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// getJSON sends a GET and decodes the response.
func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	return c.sendJSON(ctx, http.MethodGet, path, nil, into)
}

// sendJSON sends a request with a body, unless that is nil, and decodes the response into into, unless that is nil.
func (c *Client) sendJSON(ctx context.Context, method, path string, body, into any) error {
	res, err := c.sendRequest(ctx, method, path, body)
	if err != nil {
		return err
	}
	return decodeResponse(res, into)
}

// decodeResponse decodes a response into into, unless that is nil.
func decodeResponse(res *http.Response, into any) error {
	defer res.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return fmt.Errorf("parse the scheduler's answer to %s %s: %w", res.Request.Method, res.Request.URL.Path, err)
	}
	switch answer := into.(type) {
	case *api.JobView:
		fillSpec(answer)
	case *api.JobList:
		for i := range answer.Jobs {
			fillSpec(&answer.Jobs[i])
		}
	}
	return nil
}

// fillSpec gives a job an empty specification if it has none: another server may answer any object.
func fillSpec(j *api.JobView) {
	if j.Spec == nil {
		j.Spec = &job.Spec{}
	}
}

// SubmitJob submits a job. It uses a new idempotency key, so that it can retry if the
// result of a request is unknown.
func (c *Client) SubmitJob(ctx context.Context, spec job.Spec) (api.JobView, error) {
	return c.SubmitJobWithKey(ctx, rand.Text(), spec)
}

// SubmitJobWithKey submits a job with the caller's idempotency key, 1 to 255 printable
// ASCII characters. A second call with the same key returns the existing job.
func (c *Client) SubmitJobWithKey(ctx context.Context, key string, spec job.Spec) (view api.JobView, err error) {
	return c.submitTo(ctx, "/v1/jobs", key, spec)
}

// ValidateJob checks a job or a schedule as its submission would, and submits nothing. With when, the result has an
// estimate of when the job would start.
func (c *Client) ValidateJob(ctx context.Context, spec job.Spec, when bool) (checked api.ValidatedJob, err error) {
	path := "/v1/validate"
	if when {
		path += "?when=true"
	}
	res, err := c.sendWith(ctx, c.timeouts.Leader, http.MethodPost, path, spec, nil)
	if err != nil {
		return checked, err
	}
	return checked, decodeResponse(res, &checked)
}

// RerunJob submits the specification of a job, or of its run NAME@RUN, as a new run. With Failed, only the tasks that did
// not finish run again.
func (c *Client) RerunJob(ctx context.Context, name string, r api.RerunRequest) (api.JobView, error) {
	return c.submitTo(ctx, "/v1/jobs/"+url.PathEscape(name)+"/rerun", rand.Text(), r)
}

// submitTo submits with an idempotency key, so that the request is repeated until its result is known.
func (c *Client) submitTo(ctx context.Context, path, key string, body any) (view api.JobView, err error) {
	res, err := c.sendWith(ctx, c.timeouts.Leader, http.MethodPost, path, body, http.Header{api.IdempotencyKey: {key}})
	if err != nil {
		return view, err
	}
	err = decodeResponse(res, &view)
	view.AlreadySubmitted = res.StatusCode == http.StatusOK
	return view, err
}

// WhoAmI returns the name and the permissions of the user whose token the client has.
func (c *Client) WhoAmI(ctx context.Context) (who api.RequesterIdentity, err error) {
	err = c.getJSON(ctx, "/v1/whoami", &who)
	return who, err
}

// ListJobs lists all jobs, each as its newest run, oldest first.
func (c *Client) ListJobs(ctx context.Context) ([]api.JobView, error) {
	return c.ListJobsByState(ctx, "")
}

// ListJobsMatching lists the jobs that a query selects, without its PageRequest, in its order.
func (c *Client) ListJobsMatching(ctx context.Context, q api.JobQuery) ([]api.JobView, error) {
	return collectAll(c.EachJobMatching(ctx, q))
}

// ListJobsByState lists the jobs in a state of api.JobQuery, oldest first.
func (c *Client) ListJobsByState(ctx context.Context, state string) ([]api.JobView, error) {
	return collectAll(c.EachJob(ctx, state))
}

// ListJobsPage returns one page of a list of jobs.
func (c *Client) ListJobsPage(ctx context.Context, q api.JobQuery) (list api.JobList, err error) {
	v := queryValues(jobQueryValues(q), q.PageRequest)
	err = c.getJSON(ctx, "/v1/jobs?"+v.Encode(), &list)
	return list, err
}

// ListRuns lists the runs of a job that the scheduler keeps, oldest first.
func (c *Client) ListRuns(ctx context.Context, name string) ([]api.JobView, error) {
	return collectAll(c.EachRun(ctx, name))
}

// GetJob returns the newest run of a job or, for NAME@RUN, another one.
func (c *Client) GetJob(ctx context.Context, name string) (view api.JobView, err error) {
	err = c.getJSON(ctx, "/v1/jobs/"+url.PathEscape(name), &view)
	return view, err
}

// GetJobHistory returns the latest events of a job and its attempts, at most limit, or 1000 if limit is
// 0, oldest first.
func (c *Client) GetJobHistory(ctx context.Context, name string, limit int) (h api.JobHistory, err error) {
	path := "/v1/jobs/" + url.PathEscape(name) + "/history"
	if limit > 0 {
		path += "?limit=" + strconv.Itoa(limit)
	}
	err = c.getJSON(ctx, path, &h)
	return h, err
}

// UpdateJob gives a service another specification. The scheduler replaces its tasks step by step, and waits while new
// ones do not run or are not healthy.
func (c *Client) UpdateJob(ctx context.Context, spec job.Spec) (view api.JobView, err error) {
	err = c.sendJSON(ctx, http.MethodPut, "/v1/jobs/"+url.PathEscape(spec.Name), spec, &view)
	return view, err
}

// EditJob changes keys of a job that has not ended, by their names in job files: the priority, role, gpu_type, timeout,
// run_time, max_wait, retries, max_parallel, preemptible and labels. nil restores the default of a key, and removes a
// label. The job keeps its place in the queue among jobs of equal priority.
func (c *Client) EditJob(ctx context.Context, name string, edit map[string]any) (view api.JobView, err error) {
	err = c.sendJSON(ctx, http.MethodPatch, "/v1/jobs/"+url.PathEscape(name), edit, &view)
	return view, err
}

// KillJob ends a job, with its grace period.
func (c *Client) KillJob(ctx context.Context, name string) error {
	return c.sendJSON(ctx, http.MethodDelete, "/v1/jobs/"+url.PathEscape(name), nil, nil)
}

// ForceKillJob kills a job's processes immediately, even after KillJob.
func (c *Client) ForceKillJob(ctx context.Context, name string) error {
	return c.sendJSON(ctx, http.MethodDelete, "/v1/jobs/"+url.PathEscape(name)+"?force=true", nil, nil)
}

// ScaleJob sets the number of tasks of a service.
func (c *Client) ScaleJob(ctx context.Context, name string, tasks int) error {
	return c.sendJSON(ctx, http.MethodPost, "/v1/jobs/"+url.PathEscape(name)+"/scale", api.ScaleRequest{Tasks: &tasks}, nil)
}

// StopTask ends a task. A service replaces the task unless retire is set.
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

// GetHealth returns the health of the scheduler and whether it is connected to a master.
// It does not wait for a new leader, because a failover is a valid result.
func (c *Client) GetHealth(ctx context.Context) (h api.HealthStatus, err error) {
	res, err := c.sendWithin(ctx, 0, http.MethodGet, "/healthz", nil)
	if err != nil {
		return h, err
	}
	return h, decodeResponse(res, &h)
}
