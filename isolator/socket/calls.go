package socket

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/watch"
)

func (s *Server) recover(r *http.Request) (any, error) {
	b, err := read[recovery](r)
	if err != nil {
		return nil, err
	}
	if b.Containers == nil {
		// A body of another call must not let all containers go.
		return nil, &status{http.StatusBadRequest, errors.New(`recover wants {"containers":[…]}, if empty`)}
	}
	return nothing{}, s.cfg.Containers.Recover(b.Containers)
}

func (s *Server) prepare(r *http.Request) (any, error) {
	l, err := read[containers.Launch](r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Containers.Prepare(r.Context(), l)
}

func (s *Server) isolate(r *http.Request) (any, error) {
	b, err := read[isolation](r)
	if err != nil {
		return nil, err
	}
	return nothing{}, s.cfg.Containers.Isolate(b.Container, b.PID)
}

func (s *Server) update(r *http.Request) (any, error) {
	b, err := read[change](r)
	if err != nil {
		return nil, err
	}
	devices, err := s.cfg.Containers.Update(b.Container, b.Resources)
	return changed{devices}, err
}

func (s *Server) cleanup(r *http.Request) (any, error) {
	b, err := read[end](r)
	if err != nil {
		return nil, err
	}
	return nothing{}, s.cfg.Containers.Cleanup(b.Container)
}

func (s *Server) status(r *http.Request) (any, error) {
	return s.cfg.Containers.Status(r.URL.Query().Get("container"))
}

func (s *Server) usage(r *http.Request) (any, error) {
	held, err := s.cfg.Containers.Devices(r.URL.Query().Get("container"))
	if err != nil {
		return nil, err
	}
	all := s.cfg.Devices.Devices()
	usage := Usage{Devices: []DeviceUsage{}}
	for _, uuid := range held {
		u := DeviceUsage{Device: uuid}
		if i := slices.IndexFunc(all, func(d watch.State) bool { return d.Device.UUID == uuid }); i >= 0 {
			u.Sample = taken(all[i].Sample)
		}
		usage.Devices = append(usage.Devices, u)
	}
	usage.Parts, err = s.partsUsed(r.URL.Query().Get("container"))
	return usage, err
}

func (s *Server) version(*http.Request) (any, error) {
	return version{s.cfg.Version, s.cfg.Host.Driver, s.cfg.Host.CUDA, s.cfg.Host.Simulated}, nil
}

func (s *Server) containers(*http.Request) (any, error) { return s.cfg.Containers.Holders(), nil }

func (s *Server) devices(*http.Request) (any, error) {
	holders, stock := s.cfg.Containers.Holders(), s.cfg.Containers.Stock()
	list := []Device{}
	for _, d := range s.cfg.Devices.Devices() {
		list = append(list, Device{
			Device: d.Device, Condition: d.Condition, Sample: taken(d.Sample),
			Stock: slices.Contains(stock, d.Device.UUID), Holders: holding(holders, d.Device.UUID),
			Share: s.shareOf(d.Device.UUID, holders),
		})
	}
	return list, nil
}

func holding(holders []gpu.Holder, uuid string) []string {
	ids := []string{}
	for _, h := range holders {
		if slices.Contains(h.Devices, uuid) {
			ids = append(ids, h.Container)
		}
	}
	return ids
}

// taken is the sample, if there is one yet.
func taken(s gpu.Sample) *gpu.Sample {
	if s.At.IsZero() {
		return nil
	}
	return &s
}

func (s *Server) history(r *http.Request) (any, error) {
	h := History{Device: r.URL.Query().Get("device")}
	var ok bool
	if h.Samples, ok = s.cfg.Devices.History(h.Device); !ok {
		return nil, fmt.Errorf("device %q: %w", h.Device, watch.ErrUnknown)
	}
	if h.Samples == nil {
		h.Samples = []gpu.Sample{}
	}
	return h, nil
}

func (s *Server) cordon(r *http.Request) (any, error) {
	b, err := read[cordon](r)
	if err != nil {
		return nil, err
	}
	if b.Reason == "" || len(b.Reason) > watch.MaxReason {
		return nil, &status{http.StatusBadRequest, fmt.Errorf("the reason has %d bytes, want 1 to %d", len(b.Reason), watch.MaxReason)}
	}
	return nothing{}, s.cfg.Devices.Cordon(r.PathValue("uuid"), b.Reason)
}

func (s *Server) uncordon(r *http.Request) (any, error) {
	return nothing{}, s.cfg.Devices.Uncordon(r.PathValue("uuid"))
}
