// Package stock separates a machine's devices into those advertised by name
// and stock devices, which are advertised only by number, for frameworks that
// do not know device names. It is pure, and makes no allocations.
package stock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/gpu"
)

// AllDevices selects every device.
const AllDevices = "all"

// SplitHost splits the host's devices by a list such as "2,3" or
// "GPU-5e7f…,0": comma-separated minor numbers and UUIDs, or "all"; the empty
// list selects none. A minor number or UUID of a GPU means all of its MIG
// devices. named is the host without the stock devices and without links to
// them. The error names the part of the list that matches no device, or
// repeats one.
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

// FindDevices returns the devices that one part of a list matches. It returns
// an error if there are none, unless a lost device without a known name may be
// the one: a dead GPU must not take the others out of service.
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
	unnamed := slices.ContainsFunc(h.Lost, func(l gpu.LostDevice) bool { return !l.IsKnown() })
	if len(found) == 0 && !unnamed {
		return nil, fmt.Errorf("%q names none of this host's %d GPUs; want a minor number (the N of /dev/nvidiaN), a UUID or %q", part, len(h.Devices), AllDevices)
	}
	return found, nil
}

// withoutLinksTo returns the device without its links to the stock devices.
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
