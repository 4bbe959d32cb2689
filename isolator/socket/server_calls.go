package socket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/watch"
)

func (s *Server) handleRecover(_ context.Context, b recoverRequest) (emptyBody, error) {
	if b.Containers == nil {
		// A body of another call must not release all containers.
		return emptyBody{}, &statusError{http.StatusBadRequest, errors.New(`recover wants {"containers":[…]}, if empty`)}
	}
	return emptyBody{}, s.cfg.Containers.Recover(b.Containers)
}

func (s *Server) handleIsolate(_ context.Context, b isolateRequest) (emptyBody, error) {
	return emptyBody{}, s.cfg.Containers.Isolate(b.Container, b.PID)
}

func (s *Server) handleUpdate(_ context.Context, b updateRequest) (updateResponse, error) {
	devices, err := s.cfg.Containers.Update(b.Container, b.Resources)
	return updateResponse{devices}, err
}

func (s *Server) handleCleanup(_ context.Context, b cleanupRequest) (emptyBody, error) {
	return emptyBody{}, s.cfg.Containers.Cleanup(b.Container)
}

func (s *Server) handleStatus(r *http.Request) (any, error) {
	return s.cfg.Containers.Status(r.URL.Query().Get("container"))
}

func (s *Server) handleUsage(r *http.Request) (any, error) {
	held, err := s.cfg.Containers.Devices(r.URL.Query().Get("container"))
	if err != nil {
		return nil, err
	}
	all := s.cfg.Devices.DeviceStates()
	usage := ContainerUsage{Devices: []DeviceSample{}}
	for _, uuid := range held {
		u := DeviceSample{Device: uuid}
		if i := slices.IndexFunc(all, func(d watch.DeviceState) bool { return d.Device.UUID == uuid }); i >= 0 {
			u.Sample = sampleOrNil(all[i].Sample)
		}
		usage.Devices = append(usage.Devices, u)
	}
	usage.Shares, err = s.readShareUsage(r.URL.Query().Get("container"))
	return usage, err
}

func (s *Server) handleVersion(*http.Request) (any, error) {
	return versionResponse{s.cfg.Version, s.cfg.Host.Driver, s.cfg.Host.CUDA, s.cfg.Host.Simulated}, nil
}

func (s *Server) handleContainers(*http.Request) (any, error) { return s.cfg.Containers.Holders(), nil }

func (s *Server) handleDevices(*http.Request) (any, error) {
	holders, stock := s.cfg.Containers.Holders(), s.cfg.Containers.Stock()
	list := []DeviceInfo{}
	for _, d := range s.cfg.Devices.DeviceStates() {
		list = append(list, DeviceInfo{
			Device: d.Device, Condition: d.Condition, Sample: sampleOrNil(d.Sample),
			Stock: slices.Contains(stock, d.Device.UUID), Holders: containersHolding(holders, d.Device.UUID),
			Share: s.describeSharing(d.Device.UUID, holders),
		})
	}
	for _, l := range s.cfg.Host.Lost {
		if !l.IsKnown() {
			list = append(list, DeviceInfo{Device: l.Device, Condition: gpu.DeviceCondition{Health: gpu.Failed, Reason: l.Reason}, Holders: []string{}})
		}
	}
	return list, nil
}

func containersHolding(holders []gpu.ContainerDevices, uuid string) []string {
	ids := []string{}
	for _, h := range holders {
		if slices.Contains(h.Devices, uuid) {
			ids = append(ids, h.Container)
		}
	}
	return ids
}

// sampleOrNil returns nil before the first sample.
func sampleOrNil(s gpu.Sample) *gpu.Sample {
	if s.At.IsZero() {
		return nil
	}
	return &s
}

func (s *Server) handleHistory(r *http.Request) (any, error) {
	h := DeviceHistory{Device: r.URL.Query().Get("device")}
	var ok bool
	if h.Samples, ok = s.cfg.Devices.SampleHistory(h.Device); !ok {
		return nil, fmt.Errorf("device %q: %w", h.Device, watch.ErrUnknownDevice)
	}
	if h.Samples == nil {
		h.Samples = []gpu.Sample{}
	}
	return h, nil
}

func (s *Server) handleCordon(r *http.Request) (any, error) {
	b, err := decodeBody[cordonRequest](r)
	if err != nil {
		return nil, err
	}
	if b.Reason == "" || len(b.Reason) > watch.MaxReason {
		return nil, &statusError{http.StatusBadRequest, fmt.Errorf("the reason has %d bytes, want 1 to %d", len(b.Reason), watch.MaxReason)}
	}
	return emptyBody{}, s.cfg.Devices.CordonDevice(r.PathValue("uuid"), b.Reason)
}

func (s *Server) handleUncordon(r *http.Request) (any, error) {
	return emptyBody{}, s.cfg.Devices.UncordonDevice(r.PathValue("uuid"))
}
