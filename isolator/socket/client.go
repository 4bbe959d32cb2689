package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/watch"
)

// maxAnswer bounds what a client takes of an answer: minutes of samples of
// many devices come to 1 MiB.
const maxAnswer = 64 << 20

// Client makes calls to a daemon. It may be used by several at the same time.
type Client struct {
	path string
	http *http.Client
}

// Error is an answer that says no.
type Error struct {
	Status  int
	Message string
}

func (e *Error) Error() string { return e.Message }

// NewClient is a client of the daemon at that unix socket. It connects with
// its first call.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 2}}}
}

// Close closes connections that wait for a next call.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Recover names the containers that are alive; it lets go of all others.
func (c *Client) Recover(ctx context.Context, alive []string) error {
	return c.post(ctx, "/v1/recover", recovery{append([]string{}, alive...)}, &nothing{})
}

// Prepare claims devices for a container that is about to be launched.
func (c *Client) Prepare(ctx context.Context, l containers.Launch) (containers.Setup, error) {
	var s containers.Setup
	err := c.post(ctx, "/v1/prepare", l, &s)
	return s, err
}

// Isolate confines a prepared container, whose first process is pid.
func (c *Client) Isolate(ctx context.Context, container string, pid int) error {
	return c.post(ctx, "/v1/isolate", isolation{container, pid}, &nothing{})
}

// Update gives the container's new resources; it returns its devices.
func (c *Client) Update(ctx context.Context, container string, resources []ledger.Resource) ([]string, error) {
	var answer changed
	err := c.post(ctx, "/v1/update", change{container, resources}, &answer)
	return answer.Devices, err
}

// Cleanup lets go of a container.
func (c *Client) Cleanup(ctx context.Context, container string) error {
	return c.post(ctx, "/v1/cleanup", end{container}, &nothing{})
}

// Status is what is known of a container.
func (c *Client) Status(ctx context.Context, container string) (containers.Status, error) {
	var s containers.Status
	err := c.get(ctx, "/v1/status", url.Values{"container": {container}}, &s)
	return s, err
}

// Usage is what was last measured of a container's devices.
func (c *Client) Usage(ctx context.Context, container string) (Usage, error) {
	var u Usage
	err := c.get(ctx, "/v1/usage", url.Values{"container": {container}}, &u)
	return u, err
}

// Containers are those that hold devices.
func (c *Client) Containers(ctx context.Context) ([]gpu.Holder, error) {
	var list []gpu.Holder
	err := c.get(ctx, "/v1/containers", nil, &list)
	return list, err
}

// Devices are the host's.
func (c *Client) Devices(ctx context.Context) ([]Device, error) {
	var list []Device
	err := c.get(ctx, "/v1/devices", nil, &list)
	return list, err
}

// History is what was measured of a device in the last minutes.
func (c *Client) History(ctx context.Context, device string) ([]gpu.Sample, error) {
	var h History
	err := c.get(ctx, "/v1/history", url.Values{"device": {device}}, &h)
	return h.Samples, err
}

// Cordon keeps a device out of the offers.
func (c *Client) Cordon(ctx context.Context, device, reason string) error {
	return c.post(ctx, "/v1/devices/"+url.PathEscape(device)+"/cordon", cordon{reason}, &nothing{})
}

// Uncordon ends that.
func (c *Client) Uncordon(ctx context.Context, device string) error {
	return c.post(ctx, "/v1/devices/"+url.PathEscape(device)+"/uncordon", nothing{}, &nothing{})
}

// Version is the daemon's.
func (c *Client) Version(ctx context.Context) (string, error) {
	var v version
	err := c.get(ctx, "/v1/version", nil, &v)
	return v.Version, err
}

// Host is the machine's driver, without its devices.
func (c *Client) Host(ctx context.Context) (gpu.Host, error) {
	var v version
	err := c.get(ctx, "/v1/version", nil, &v)
	return gpu.Host{Driver: v.Driver, CUDA: v.CUDA, Simulated: v.Simulated}, err
}

// Conditions yields the condition of each of the devices, of all where none
// is named, and then each change. It ends with an error, ctx's where that
// ended.
func (c *Client) Conditions(ctx context.Context, devices ...string) iter.Seq2[watch.Update, error] {
	return func(yield func(watch.Update, error) bool) {
		body, err := c.do(ctx, http.MethodGet, "/v1/conditions", url.Values{"device": devices}, nil)
		if err != nil {
			yield(watch.Update{}, err)
			return
		}
		defer body.Close()
		for lines := json.NewDecoder(body); ; {
			var change watch.Update
			if err := lines.Decode(&change); err != nil {
				yield(watch.Update{}, fmt.Errorf("read conditions from %s: %w", c.path, errors.Join(ctx.Err(), err)))
				return
			}
			if !yield(change, nil) {
				return
			}
		}
	}
}

func (c *Client) post(ctx context.Context, path string, body, answer any) error {
	return c.call(ctx, http.MethodPost, path, nil, body, answer)
}

func (c *Client) get(ctx context.Context, path string, query url.Values, answer any) error {
	return c.call(ctx, http.MethodGet, path, query, nil, answer)
}

func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	b, err := c.do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := json.NewDecoder(io.LimitReader(b, maxAnswer)).Decode(answer); err != nil {
		return fmt.Errorf("read the answer to %s %s from %s: %w", method, path, c.path, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(b, 1<<10)) // so that the connection serves again
	return nil
}

// do gives the body of an answer that says yes. The error is *Error where it
// says no.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body any) (io.ReadCloser, error) {
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write the body of %s: %w", path, err)
		}
		text = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://agent"+path+"?"+query.Encode(), text)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("call %s of the agent daemon at %s: %w", path, c.path, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	var said failure
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxBody)).Decode(&said); err != nil || said.Error == "" {
		said.Error = fmt.Sprintf("the agent daemon at %s answered %s to %s", c.path, answer.Status, path)
	}
	return nil, &Error{answer.StatusCode, said.Error}
}
