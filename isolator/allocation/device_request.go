package allocation

import (
	"fmt"
	"math"
	"slices"

	"mesos-gpu/gpu"
)

// Names of the resources that this package reads.
const (
	gpusResource   = "gpus"
	gpuIDsResource = "gpu_ids"
)

// maxGPUs bounds the scalar gpus. No host has as many.
const maxGPUs = 1 << 16

// MesosResource is one of Mesos's Resource messages: a name, and a scalar or a set of items.
type MesosResource struct {
	Name   string   `json:"name"`
	Scalar float64  `json:"scalar,omitempty"`
	Set    []string `json:"set,omitempty"`
}

// DeviceRequest contains a container's requested resources: devices by name, a number of devices
// of the stock pool, and shares of shared devices, sorted by device. A device is requested once.
type DeviceRequest struct {
	// Named are the UUIDs of gpu_ids, sorted, without duplicates.
	Named []string
	// Stock is the number of devices that gpus requests beyond Named.
	Stock int
	// Shares are of devices that Named does not contain.
	Shares []gpu.DeviceShare
}

// IsEmpty reports whether nothing is requested.
func (r DeviceRequest) IsEmpty() bool { return r.Count() == 0 }

// Count returns the number of devices requested, whole or a share of.
func (r DeviceRequest) Count() int { return len(r.Named) + r.Stock + len(r.Shares) }

// ParseRequest adds up resources. It ignores resources that are not devices.
func ParseRequest(resources []MesosResource) (DeviceRequest, error) {
	var request DeviceRequest
	total := 0.0
	for _, r := range resources {
		switch r.Name {
		case gpusResource:
			total += r.Scalar
		case gpuIDsResource:
			request.Named = append(request.Named, r.Set...)
		}
	}
	if total != math.Trunc(total) || total < 0 || total > maxGPUs {
		return DeviceRequest{}, rejectf("gpus:%v is not a whole number of devices from 0 to %d", total, maxGPUs)
	}
	if name := findDuplicate(request.Named); name != "" {
		return DeviceRequest{}, rejectf("gpu_ids names device %s twice", name)
	}
	if slices.Contains(request.Named, "") {
		return DeviceRequest{}, rejectf("gpu_ids has an empty name among %d", len(request.Named))
	}
	if request.Stock = int(total) - len(request.Named); request.Stock < 0 {
		return DeviceRequest{}, rejectf("gpus:%d is less than its %d gpu_ids; a task takes one of its gpus for each gpu_ids item", int(total), len(request.Named))
	}
	slices.Sort(request.Named)
	var err error
	if request.Shares, err = parseShares(resources); err != nil {
		return DeviceRequest{}, err
	}
	for _, p := range request.Shares {
		if slices.Contains(request.Named, p.UUID) {
			return DeviceRequest{}, rejectf("device %s is named by gpu_ids, and a share of it is requested by %s: request one or the other",
				p.UUID, gpu.MemResource(p.UUID))
		}
	}
	return request, nil
}

func findDuplicate(names []string) string {
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if seen[n] {
			return n
		}
		seen[n] = true
	}
	return ""
}

// RejectedError is an error of the request, not of the host.
type RejectedError struct {
	Why string
	// Held is the device that other containers hold, empty if the reason is another one.
	Held string
}

func (r *RejectedError) Error() string { return r.Why }

func rejectf(format string, args ...any) error {
	return &RejectedError{Why: fmt.Sprintf(format, args...)}
}

func rejectHeld(device, format string, args ...any) error {
	return &RejectedError{Why: fmt.Sprintf(format, args...), Held: device}
}
