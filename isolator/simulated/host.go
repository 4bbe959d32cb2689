// Package simulated creates hosts with GPUs for machines without any:
// realistic product names, memory, UUIDs and links, and device nodes without a
// driver. It is pure. The code that isolates simulated GPUs is the same that
// isolates real ones.
package simulated

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"mesos-gpu/gpu"
)

// DriverVersion and CUDAVersion are the versions of simulated hosts.
const (
	DriverVersion = "535.104.05"
	CUDAVersion   = "12.2"
)

// UVMMajor is the major number of the simulated nvidia-uvm nodes; the real one
// is dynamic.
const UVMMajor = 510

// maxGPUs is the number of minor numbers below those of the control nodes.
const maxGPUs = 254

// uuidNamespace keeps the generated UUIDs distinct from all others.
var uuidNamespace = uuid.MustParse("6c0e0f3a-9d0b-5a43-8f6e-2f6d65736f73")

// NewHost returns the host that spec describes, such as "2xV100,1xK80", in the
// order of minor numbers; "V100" means "1xV100". "7xA100 1g.5gb" is one GPU with seven MIG devices. Equal specs and seeds give
// equal hosts; hosts with different seeds (for example host names) have
// different UUIDs. The error names the invalid part of spec.
func NewHost(spec, seed string) (gpu.Host, error) {
	h, gpus := gpu.Host{Driver: DriverVersion, CUDA: CUDAVersion, Simulated: true}, 0
	for part := range strings.SplitSeq(spec, ",") {
		part = strings.TrimSpace(part)
		count, p, err := parsePart(part)
		if err != nil {
			return gpu.Host{}, fmt.Errorf("simulate %q: %w", spec, err)
		}
		if n := len(h.Devices) + count; n > maxGPUs {
			return gpu.Host{}, fmt.Errorf("simulate %q: with %q there are %d GPUs, one host has at most %d", spec, part, n, maxGPUs)
		}
		if p.profile != "" {
			h.Devices = append(h.Devices, newMIGDevices(p, count, gpus, seed)...)
			gpus++
			continue
		}
		for range count {
			h.Devices = append(h.Devices, newDevice(p, gpus, seed))
			gpus++
		}
	}
	assignNUMANodes(h.Devices)
	connectDevices(h.Devices)
	return h, nil
}

// maxHosts is the number of hosts of a simulated cluster.
const maxHosts = 100

// NewHosts returns the hosts of a cluster that spec describes as a list of
// HOSTSxGPUSxTYPE, such as "2x4xV100,1x8xA100". A plus sign separates the types
// of one host: "1x4xV100+2xK80". The first host equals NewHost's with the seed.
func NewHosts(spec, seed string) (hosts []gpu.Host, err error) {
	for part := range strings.SplitSeq(spec, ",") {
		part = strings.TrimSpace(part)
		number, each, _ := strings.Cut(part, "x")
		n, err := strconv.Atoi(number)
		if err != nil || each == "" || each[0] < '0' || each[0] > '9' {
			return nil, fmt.Errorf("simulate %q: %q is not HOSTSxGPUSxTYPE such as 2x4xV100", spec, part)
		}
		if n < 1 || n > maxHosts-len(hosts) {
			return nil, fmt.Errorf("simulate %q: with %q there are %d hosts, want 1 to %d", spec, part, len(hosts)+n, maxHosts)
		}
		for range n {
			own := seed
			if len(hosts) > 0 {
				own = fmt.Sprintf("%s/%d", seed, len(hosts)+1)
			}
			h, err := NewHost(strings.ReplaceAll(each, "+", ","), own)
			if err != nil {
				return nil, err
			}
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// parsePart parses "2xV100".
func parsePart(part string) (int, gpuProduct, error) {
	count, name := 1, part
	if number, rest, ok := strings.Cut(part, "x"); ok && strings.Trim(number, "0123456789") == "" && number != "" {
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > maxGPUs {
			return 0, gpuProduct{}, fmt.Errorf("%q: %s GPUs is not between 1 and %d", part, number, maxGPUs)
		}
		count, name = n, rest
	}
	if name == "" {
		return 0, gpuProduct{}, fmt.Errorf("%q has no GPU type, want for example 2xV100", part)
	}
	p, ok := findProduct(name)
	if ok && p.profile != "" && count > maxMIGDevices {
		return 0, gpuProduct{}, fmt.Errorf("%q: one GPU has at most %d MIG devices: write another part for the next GPU", part, maxMIGDevices)
	}
	if !ok {
		if kind := strings.TrimLeft(name, "0123456789"); kind != name {
			if _, known := findProduct(kind); known {
				return 0, gpuProduct{}, fmt.Errorf("%q: no GPU type is named %q: did you mean %sx%s?", part, name, strings.TrimSuffix(name, kind), kind)
			}
		}
		return 0, gpuProduct{}, fmt.Errorf("%q: no GPU type is named %q; some are %s", part, name, exampleTypes)
	}
	return count, p, nil
}

// maxMIGDevices is the most MIG devices of one GPU.
const maxMIGDevices = 7

// newMIGDevices returns the MIG devices of one GPU. The numbers of their capabilities are distinct on the host.
func newMIGDevices(p gpuProduct, count, minor int, seed string) (devices []gpu.Device) {
	parent := newDevice(p, minor, seed)
	for i := range count {
		d, firstCap := parent, 1000*(minor+1)+2*i
		d.UUID = "MIG-" + uuid.NewSHA1(uuidNamespace, fmt.Appendf(nil, "%d/%d/%s", minor, i, seed)).String()
		d.Model, d.MemMiB = p.model+" MIG "+p.profile, profileMemory(p.profile)
		d.MIG = &gpu.MIG{Parent: parent.UUID, Profile: p.profile, GPUInstance: i + 1, GPUInstanceCap: firstCap, ComputeInstanceCap: firstCap + 1}
		devices = append(devices, d)
	}
	return devices
}

// profileMemory returns the memory of a MIG device in MiB: 95 % of that in the name of its profile.
func profileMemory(profile string) int64 {
	_, memory, _ := strings.Cut(profile, "g.")
	size, _, _ := strings.Cut(memory, "gb")
	gb, _ := strconv.ParseInt(size, 10, 64)
	return gb << 10 * 95 / 100
}

func newDevice(p gpuProduct, minor int, seed string) gpu.Device {
	return gpu.Device{
		UUID:   "GPU-" + uuid.NewSHA1(uuidNamespace, fmt.Appendf(nil, "%d/%s", minor, seed)).String(),
		Model:  p.model,
		Arch:   p.arch,
		Brand:  p.brandName(),
		MemMiB: p.memMiB,
		Minor:  minor,
		PCI:    fmt.Sprintf("%04x:%02x:00.0", minor/128, 0x10+minor%128),
	}
}

// assignNUMANodes puts the first half of the devices on node 0, the others on
// node 1.
func assignNUMANodes(devices []gpu.Device) {
	for i := range devices {
		if i >= (len(devices)+1)/2 {
			devices[i].NUMA = 1
		}
	}
}
