// Package simulated makes up hosts with GPUs, for machines that have none:
// product names, memory, identities and links as real ones, and device nodes
// that no driver serves. It is pure; what isolates simulated GPUs is the same
// code that isolates real ones.
package simulated

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"mesos-gpu/gpu"
)

// Driver and CUDA are the versions that simulated hosts report.
const (
	Driver = "535.104.05"
	CUDA   = "12.2"
)

// UVMMajor is the major number of nvidia-uvm's simulated nodes; the real one
// is dynamic.
const UVMMajor = 510

// maxGPUs is how many GPU nodes fit below the control nodes' minor numbers.
const maxGPUs = 254

// namespace keeps these UUIDs apart from everybody else's.
var namespace = uuid.MustParse("6c0e0f3a-9d0b-5a43-8f6e-2f6d65736f73")

// Host makes the host that spec describes: "2xV100,1xK80", in the order of
// minor numbers; "V100" is "1xV100". Equal specs and seeds give equal hosts;
// different seeds (host names, say) share no UUID. The error names the part
// of spec that is wrong.
func Host(spec, seed string) (gpu.Host, error) {
	h := gpu.Host{Driver: Driver, CUDA: CUDA, Simulated: true}
	for part := range strings.SplitSeq(spec, ",") {
		part = strings.TrimSpace(part)
		count, p, err := parse(part)
		if err != nil {
			return gpu.Host{}, fmt.Errorf("simulate %q: %w", spec, err)
		}
		if n := len(h.Devices) + count; n > maxGPUs {
			return gpu.Host{}, fmt.Errorf("simulate %q: with %q there are %d GPUs, one host has at most %d", spec, part, n, maxGPUs)
		}
		for range count {
			h.Devices = append(h.Devices, device(p, len(h.Devices), seed))
		}
	}
	numa(h.Devices)
	join(h.Devices)
	return h, nil
}

// parse reads "2xV100".
func parse(part string) (int, product, error) {
	count, name := 1, part
	if number, rest, ok := strings.Cut(part, "x"); ok && strings.Trim(number, "0123456789") == "" && number != "" {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxGPUs {
			return 0, product{}, fmt.Errorf("%q: %s GPUs is not between 1 and %d", part, number, maxGPUs)
		}
		count, name = n, rest
	}
	if name == "" {
		return 0, product{}, fmt.Errorf("%q has no GPU type, want for example 2xV100", part)
	}
	p, ok := find(name)
	if !ok {
		return 0, product{}, fmt.Errorf("%q: no GPU type is named %q; some are %s", part, name, examples)
	}
	return count, p, nil
}

func device(p product, minor int, seed string) gpu.Device {
	return gpu.Device{
		UUID:   "GPU-" + uuid.NewSHA1(namespace, fmt.Appendf(nil, "%d/%s", minor, seed)).String(),
		Model:  p.model,
		Arch:   p.arch,
		Brand:  p.brand(),
		MemMiB: p.memMiB,
		Minor:  minor,
		PCI:    fmt.Sprintf("%04x:%02x:00.0", minor/128, 0x10+minor%128),
	}
}

// numa hangs the first half of the devices on node 0, the others on 1.
func numa(devices []gpu.Device) {
	for i := range devices {
		if i >= (len(devices)+1)/2 {
			devices[i].NUMA = 1
		}
	}
}
