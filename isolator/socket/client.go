package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/watch"
)

// maxAnswerBytes bounds an answer. Minutes of samples of many devices are 1
// MiB.
const maxAnswerBytes = 64 << 20

// DaemonClient calls a daemon. It may be used concurrently.
type DaemonClient struct {
	path string
	http *http.Client
}

// ResponseError is an answer with an error status.
type ResponseError struct {
	Status  int
	Message string
	// Device is a claimed device that the Holders hold.
	Device  string
	Holders []gpu.ContainerDevices
}

func (e *ResponseError) Error() string { return e.Message }

// NewDaemonClient returns a client of the daemon at a unix socket. It connects
// with the first call.
func NewDaemonClient(path string) *DaemonClient {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &DaemonClient{path: path, http: &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 2}}}
}

// Close closes idle connections.
func (c *DaemonClient) Close() { c.http.CloseIdleConnections() }

// RecoverContainers reports the containers that are alive; the daemon releases
// all others.
func (c *DaemonClient) RecoverContainers(ctx context.Context, alive []string) error {
	return c.postJSON(ctx, "/v1/recover", recoverRequest{append([]string{}, alive...)}, &emptyBody{})
}

// PrepareContainer allocates devices for a container before its launch.
func (c *DaemonClient) PrepareContainer(ctx context.Context, l containers.LaunchRequest) (containers.LaunchSetup, error) {
	var s containers.LaunchSetup
	err := c.postJSON(ctx, "/v1/prepare", l, &s)
	return s, err
}

// IsolateContainer confines a prepared container with the first process pid.
func (c *DaemonClient) IsolateContainer(ctx context.Context, container string, pid int) error {
	return c.postJSON(ctx, "/v1/isolate", isolateRequest{container, pid}, &emptyBody{})
}

// UpdateContainer changes the container's resources and returns its devices.
func (c *DaemonClient) UpdateContainer(ctx context.Context, container string, resources []allocation.MesosResource) ([]string, error) {
	var answer updateResponse
	err := c.postJSON(ctx, "/v1/update", updateRequest{container, resources}, &answer)
	return answer.Devices, err
}

// CleanUpContainer releases a container.
func (c *DaemonClient) CleanUpContainer(ctx context.Context, container string) error {
	return c.postJSON(ctx, "/v1/cleanup", cleanupRequest{container}, &emptyBody{})
}

// ContainerStatus returns the status of a container.
func (c *DaemonClient) ContainerStatus(ctx context.Context, container string) (containers.ContainerStatus, error) {
	var s containers.ContainerStatus
	err := c.getJSON(ctx, "/v1/status", url.Values{"container": {container}}, &s)
	return s, err
}

// ContainerUsage returns the last samples of a container's devices.
func (c *DaemonClient) ContainerUsage(ctx context.Context, container string) (ContainerUsage, error) {
	var u ContainerUsage
	err := c.getJSON(ctx, "/v1/usage", url.Values{"container": {container}}, &u)
	return u, err
}

// ListContainers returns the containers with devices.
func (c *DaemonClient) ListContainers(ctx context.Context) ([]gpu.ContainerDevices, error) {
	var list []gpu.ContainerDevices
	err := c.getJSON(ctx, "/v1/containers", nil, &list)
	return list, err
}

// ListDevices returns the host's devices.
func (c *DaemonClient) ListDevices(ctx context.Context) ([]DeviceInfo, error) {
	var list []DeviceInfo
	err := c.getJSON(ctx, "/v1/devices", nil, &list)
	return list, err
}

// DeviceHistory returns the samples of a device in the last minutes.
func (c *DaemonClient) DeviceHistory(ctx context.Context, device string) ([]gpu.Sample, error) {
	var h DeviceHistory
	err := c.getJSON(ctx, "/v1/history", url.Values{"device": {device}}, &h)
	return h.Samples, err
}

// CordonDevice keeps a device out of the offers.
func (c *DaemonClient) CordonDevice(ctx context.Context, device, reason string) error {
	return c.postJSON(ctx, "/v1/devices/"+url.PathEscape(device)+"/cordon", cordonRequest{reason}, &emptyBody{})
}

// UncordonDevice removes the cordon.
func (c *DaemonClient) UncordonDevice(ctx context.Context, device string) error {
	return c.postJSON(ctx, "/v1/devices/"+url.PathEscape(device)+"/uncordon", emptyBody{}, &emptyBody{})
}

// DaemonVersion returns the version of the daemon.
func (c *DaemonClient) DaemonVersion(ctx context.Context) (string, error) {
	var v versionResponse
	err := c.getJSON(ctx, "/v1/version", nil, &v)
	return v.Version, err
}

// HostDriver returns the driver's versions, without devices.
func (c *DaemonClient) HostDriver(ctx context.Context) (gpu.Host, error) {
	var v versionResponse
	err := c.getJSON(ctx, "/v1/version", nil, &v)
	return gpu.Host{Driver: v.Driver, CUDA: v.CUDA, Simulated: v.Simulated}, err
}

// WatchConditions yields the condition of each of the devices, or of all
// devices if none is named, and then each change. It ends with an error, which
// is ctx's if ctx has ended.
func (c *DaemonClient) WatchConditions(ctx context.Context, devices ...string) iter.Seq2[watch.ConditionUpdate, error] {
	return func(yield func(watch.ConditionUpdate, error) bool) {
		body, err := c.doRequest(ctx, http.MethodGet, "/v1/conditions", url.Values{"device": devices}, nil)
		if err != nil {
			yield(watch.ConditionUpdate{}, err)
			return
		}
		defer body.Close()
		for lines := json.NewDecoder(body); ; {
			var change watch.ConditionUpdate
			if err := lines.Decode(&change); err != nil {
				yield(watch.ConditionUpdate{}, fmt.Errorf("read conditions from %s: %w", c.path, errors.Join(ctx.Err(), err)))
				return
			}
			if !yield(change, nil) {
				return
			}
		}
	}
}

func (c *DaemonClient) postJSON(ctx context.Context, path string, body, answer any) error {
	return c.callJSON(ctx, http.MethodPost, path, nil, body, answer)
}

func (c *DaemonClient) getJSON(ctx context.Context, path string, query url.Values, answer any) error {
	return c.callJSON(ctx, http.MethodGet, path, query, nil, answer)
}

func (c *DaemonClient) callJSON(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	b, err := c.doRequest(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := json.NewDecoder(io.LimitReader(b, maxAnswerBytes)).Decode(answer); err != nil {
		return fmt.Errorf("read the answer to %s %s from %s: %w", method, path, c.path, err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(b, 1<<10)) // so that the connection can be reused
	return nil
}

// doRequest returns the body of a successful answer. The error is a
// *ResponseError if the daemon answered with an error status.
func (c *DaemonClient) doRequest(ctx context.Context, method, path string, query url.Values, body any) (io.ReadCloser, error) {
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
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("no agent daemon listens at %s: start mesos-gpu agent on this machine: %w", c.path, errors.Unwrap(err))
	}
	if err != nil {
		return nil, fmt.Errorf("call %s of the agent daemon at %s: %w", path, c.path, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	var failure errorResponse
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxBodyBytes)).Decode(&failure); err != nil || failure.Error == "" {
		failure.Error = fmt.Sprintf("the agent daemon at %s answered %s to %s", c.path, answer.Status, path)
	}
	return nil, &ResponseError{Status: answer.StatusCode, Message: failure.Error, Device: failure.Device, Holders: failure.Holders}
}
