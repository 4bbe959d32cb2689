// Package stock reads which of a machine's GPUs are set aside for frameworks
// that know no device names, and parts the machine's devices by it: those
// that go by name from those that go by count. It is pure, and decides
// nothing about who gets either.
package stock

import (
	"fmt"
	"strconv"
	"strings"

	"mesos-gpu/gpu"
)

// AllDevices sets every device aside.
const AllDevices = "all"

// SplitHost parts the host's devices by a list such as "2,3" or "GPU-5e7f…,0":
// minor numbers and UUIDs with commas between, or "all"; the empty list sets
// none aside. A minor number stands for all MIG devices of that GPU, and so
// does the GPU's own UUID. named is the host without the stock devices, and
// its devices tell of no links to those. The error says which part of the
// list names no device, or one that was named before.
func SplitHost(h gpu.Host, list string) (named gpu.Host, stock []gpu.Device, err error) {
	aside := map[string]bool{}
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" && strings.TrimSpace(list) == "" {
			break
		}
		found, err := FindDevices(h, part)
		if err != nil {
			return gpu.Host{}, nil, fmt.Errorf("stock GPUs %q: %w", list, err)
		}
		for _, d := range found {
			if aside[d.UUID] {
				return gpu.Host{}, nil, fmt.Errorf("stock GPUs %q: %q names %s a second time", list, part, d.UUID)
			}
			aside[d.UUID] = true
		}
	}
	named = h
	named.Devices = nil
	for _, d := range h.Devices {
		if aside[d.UUID] {
			stock = append(stock, d)
		} else {
			named.Devices = append(named.Devices, withoutLinksTo(d, aside))
		}
	}
	return named, stock, nil
}

// FindDevices gives the devices that one part of a list stands for. The error says
// that it names none.
func FindDevices(h gpu.Host, part string) ([]gpu.Device, error) {
	if part == AllDevices {
		return h.Devices, nil
	}
	is := func(d gpu.Device) bool {
		return strings.EqualFold(d.UUID, part) || d.MIG != nil && strings.EqualFold(d.MIG.Parent, part)
	}
	if minor, err := strconv.ParseUint(part, 10, 31); err == nil {
		is = func(d gpu.Device) bool { return d.Minor == int(minor) }
	}
	var found []gpu.Device
	for _, d := range h.Devices {
		if is(d) {
			found = append(found, d)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%q names none of this host's %d GPUs; want a minor number (the N of /dev/nvidiaN), a UUID or %q", part, len(h.Devices), AllDevices)
	}
	return found, nil
}

// withoutLinksTo is the device without its links to those set aside.
func withoutLinksTo(d gpu.Device, aside map[string]bool) gpu.Device {
	d.NVLinks, d.Paths = withoutKeys(d.NVLinks, aside), withoutKeys(d.Paths, aside)
	return d
}

func withoutKeys[V any](links map[string]V, aside map[string]bool) map[string]V {
	var kept map[string]V
	for id, v := range links {
		if aside[id] {
			continue
		}
		if kept == nil {
			kept = make(map[string]V, len(links))
		}
		kept[id] = v
	}
	return kept
}
