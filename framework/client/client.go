// Package client speaks to the scheduler's REST API. It is what the command
// line uses, and what other Go programs may.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// Client speaks to one scheduler. It may be used by many goroutines.
type Client struct {
	base string
	http *http.Client
}

// New makes a client of the API at address: a URL, or host:port.
func New(address string) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("API address %q is no URL such as http://127.0.0.1:8080", address)
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{DialContext: dialer.DialContext, ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute}
	return &Client{base: strings.TrimRight(u.String(), "/"), http: &http.Client{Transport: transport}}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// maxProblem bounds how much of an error is read.
const maxProblem = 64 << 10

// send makes a request. Its error is an *api.Problem where the scheduler gave
// one.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var text io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		text = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, text)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no scheduler listens at %s (%w): start mesos-gpu local or mesos-gpu scheduler, or name another by --api or MESOS_GPU_API", c.base, syscall.ECONNREFUSED)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the scheduler: %w", err)
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem)) // what came will do
	p := api.Problem{}
	if json.Unmarshal(said, &p) != nil || p.Status == 0 {
		p = api.Problem{Title: http.StatusText(res.StatusCode), Status: res.StatusCode, Detail: fmt.Sprintf("%s answered %s: %s", c.base, res.Status, strings.TrimSpace(string(said)))}
	}
	return nil, &p
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

func (c *Client) do(ctx context.Context, method, path string, body, into any) error {
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return fmt.Errorf("parse the scheduler's answer to %s %s: %w", method, path, err)
	}
	return nil
}

// Submit submits a job.
func (c *Client) Submit(ctx context.Context, spec job.Spec) (view api.JobView, err error) {
	err = c.do(ctx, http.MethodPost, "/v1/jobs", spec, &view)
	return view, err
}

// Jobs lists all jobs, oldest first.
func (c *Client) Jobs(ctx context.Context) ([]api.JobView, error) {
	var list api.JobList
	err := c.get(ctx, "/v1/jobs", &list)
	return list.Jobs, err
}

// Job returns one job.
func (c *Client) Job(ctx context.Context, name string) (view api.JobView, err error) {
	err = c.get(ctx, "/v1/jobs/"+url.PathEscape(name), &view)
	return view, err
}

// Kill asks for a job's end.
func (c *Client) Kill(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, "/v1/jobs/"+url.PathEscape(name), nil, nil)
}

// Agents lists the cluster's agents.
func (c *Client) Agents(ctx context.Context) ([]api.Agent, error) {
	var list api.AgentList
	err := c.get(ctx, "/v1/agents", &list)
	return list.Agents, err
}

// GPUs lists the cluster's GPUs.
func (c *Client) GPUs(ctx context.Context) ([]api.GPU, error) {
	var list api.GPUList
	err := c.get(ctx, "/v1/gpus", &list)
	return list.GPUs, err
}

// Health asks whether the scheduler is up, and connected to a master.
func (c *Client) Health(ctx context.Context) (h api.Health, err error) {
	err = c.get(ctx, "/healthz", &h)
	return h, err
}

// LogOptions say what of a task's output to read.
type LogOptions struct {
	// Stream is stdout, if empty, or stderr.
	Stream string
	Offset int64
	// Follow waits for more until the task has ended.
	Follow bool
}

// Log returns a task's output, to be closed by the caller. An error while
// reading it means that there is more.
func (c *Client) Log(ctx context.Context, task string, o LogOptions) (io.ReadCloser, error) {
	q := url.Values{}
	if o.Stream != "" {
		q.Set("stream", o.Stream)
	}
	if o.Offset != 0 {
		q.Set("offset", strconv.FormatInt(o.Offset, 10))
	}
	if o.Follow {
		q.Set("follow", "true")
	}
	res, err := c.send(ctx, http.MethodGet, "/v1/tasks/"+url.PathEscape(task)+"/log?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
