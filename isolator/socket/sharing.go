package socket

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/share"
)

// share tells how a container is held to its parts.
func (s *Server) share(r *http.Request) (any, error) {
	return s.cfg.Containers.Share(r.Context(), r.URL.Query().Get("container"))
}

func (s *Server) setShared(shared bool) call {
	return func(r *http.Request) (any, error) {
		uuid := r.PathValue("uuid")
		if err := s.cfg.Sharing.Set(uuid, shared); err != nil {
			return nil, err
		}
		return pending{s.cfg.Sharing.Pending(uuid)}, nil
	}
}

// pending is the answer to what asks for another form of a device.
type pending struct {
	Pending bool `json:"pending"`
}

func (s *Server) shareOf(uuid string, holders []gpu.Holder) *DeviceShare {
	all, shared := s.cfg.Sharing.Shared(uuid)
	waits := s.cfg.Sharing.Pending(uuid)
	if !shared && !waits {
		return nil
	}
	d := &DeviceShare{Shared: shared, Pending: waits, MemMiB: all.MemMiB, Cores: all.Cores, Limit: s.cfg.Limiter.Method(), Parts: []DevicePart{}}
	for _, h := range holders {
		for _, p := range h.Parts {
			if p.UUID == uuid {
				d.Parts = append(d.Parts, DevicePart{Container: h.Container, MemMiB: p.MemMiB, Cores: p.Cores})
			}
		}
	}
	return d
}

func (s *Server) partsUsed(container string) ([]PartUsage, error) {
	used, err := s.cfg.Limiter.Usage(container)
	if err != nil {
		return nil, err
	}
	var parts []PartUsage
	for _, u := range used {
		p := PartUsage{Device: u.UUID, MemLimitBytes: u.MemLimitBytes, Cores: u.Cores}
		if u.Measured {
			seconds := u.Throttled.Seconds()
			p.MemUsedBytes, p.ThrottledSeconds = &u.MemUsedBytes, &seconds
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// unshared is the Sharing of a host that shares nothing.
type unshared struct{}

func (unshared) Shared(string) (gpu.Part, bool) { return gpu.Part{}, false }
func (unshared) Pending(string) bool            { return false }
func (unshared) Set(string, bool) error         { return share.ErrStatic }

// Share is how a container is held to its parts of shared devices.
func (c *Client) Share(ctx context.Context, container string) (containers.Share, error) {
	var s containers.Share
	err := c.get(ctx, "/v1/share", url.Values{"container": {container}}, &s)
	return s, err
}

// SetShared asks for one form of a device; pending tells that it is in use, and
// takes that form once it is idle.
func (c *Client) SetShared(ctx context.Context, device string, shared bool) (waits bool, err error) {
	verb := "/unshare"
	if shared {
		verb = "/share"
	}
	var answer pending
	err = c.post(ctx, "/v1/devices/"+url.PathEscape(device)+verb, nothing{}, &answer)
	return answer.Pending, err
}
