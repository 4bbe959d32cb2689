package socket

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/share"
)

// handleShare returns how a container's shares are enforced.
func (s *Server) handleShare(r *http.Request) (any, error) {
	return s.cfg.Containers.Share(r.Context(), r.URL.Query().Get("container"))
}

func (s *Server) handleSetShared(shared bool) callHandler {
	return func(r *http.Request) (any, error) {
		uuid := r.PathValue("uuid")
		if err := s.cfg.Modes.Set(uuid, shared); err != nil {
			return nil, err
		}
		return pendingResponse{s.cfg.Modes.IsPending(uuid)}, nil
	}
}

// pendingResponse is the answer to a request for another mode.
type pendingResponse struct {
	Pending bool `json:"pending"`
}

func (s *Server) describeSharing(uuid string, holders []gpu.ContainerDevices) *DeviceSharing {
	all, shared := s.cfg.Modes.SharedCapacity(uuid)
	waits := s.cfg.Modes.IsPending(uuid)
	if !shared && !waits {
		return nil
	}
	d := &DeviceSharing{Shared: shared, Pending: waits, MemMiB: all.MemMiB, Cores: all.Cores, Limit: s.cfg.Limiter.Method(), Containers: []ContainerShare{}}
	for _, h := range holders {
		for _, p := range h.Shares {
			if p.UUID == uuid {
				d.Containers = append(d.Containers, ContainerShare{Container: h.Container, MemMiB: p.MemMiB, Cores: p.Cores})
			}
		}
	}
	return d
}

func (s *Server) readShareUsage(container string) ([]ShareUsage, error) {
	used, err := s.cfg.Limiter.ReadUsage(container)
	if err != nil {
		return nil, err
	}
	var usages []ShareUsage
	for _, u := range used {
		p := ShareUsage{Device: u.UUID, MemLimitBytes: u.MemLimitBytes, Cores: u.Cores}
		if u.Measured {
			seconds := u.Throttled.Seconds()
			p.MemUsedBytes, p.ThrottledSeconds = &u.MemUsedBytes, &seconds
		}
		usages = append(usages, p)
	}
	return usages, nil
}

// noSharing is the ModeManager of a host that shares nothing.
type noSharing struct{}

func (noSharing) SharedCapacity(string) (gpu.DeviceShare, bool) { return gpu.DeviceShare{}, false }
func (noSharing) IsPending(string) bool                         { return false }
func (noSharing) Set(string, bool) error                        { return share.ErrStatic }

// ContainerShare returns how a container's shares of devices are enforced.
func (c *DaemonClient) ContainerShare(ctx context.Context, container string) (containers.ContainerShare, error) {
	var s containers.ContainerShare
	err := c.getJSON(ctx, "/v1/share", url.Values{"container": {container}}, &s)
	return s, err
}

// SetShared requests a mode of a device. waits is set if the device is in use
// and changes when it is idle.
func (c *DaemonClient) SetShared(ctx context.Context, device string, shared bool) (waits bool, err error) {
	verb := "/unshare"
	if shared {
		verb = "/share"
	}
	var answer pendingResponse
	err = c.postJSON(ctx, "/v1/devices/"+url.PathEscape(device)+verb, emptyBody{}, &answer)
	return answer.Pending, err
}
