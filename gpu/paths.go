package gpu

import (
	"cmp"
	"slices"
)

// TrimPaths returns h without the PCIe paths that the NUMA nodes imply, which
// are most of an inventory, and with each other path once. ExpandPaths restores
// them. If the path of any pair of devices is unknown, it removes all paths.
func (h Host) TrimPaths() Host {
	trimmed, known := slices.Clone(h.Devices), true
	for i := range trimmed {
		trimmed[i].Paths = nil
	}
	for _, p := range h.pathPairs() {
		path := p.path(h.Devices)
		if known = known && path != ""; path != p.impliedPath(h.Devices) {
			setPath(&trimmed[p.a], h.Devices[p.b].UUID, path)
		}
	}
	for i := range trimmed {
		if !known {
			trimmed[i].Paths = nil
		}
	}
	h.Devices, h.PathsTrimmed = trimmed, known && len(trimmed) > 1
	return h
}

// ExpandPaths returns the devices with the paths that TrimPaths removed.
func (h Host) ExpandPaths() []Device {
	full := slices.Clone(h.Devices)
	if !h.PathsTrimmed {
		return full
	}
	for i := range full {
		full[i].Paths = nil
	}
	for _, p := range h.pathPairs() {
		path := cmp.Or(p.path(h.Devices), p.impliedPath(h.Devices))
		setPath(&full[p.a], full[p.b].UUID, path)
		setPath(&full[p.b], full[p.a].UUID, path)
	}
	return full
}

// devicePair is the indexes of two devices of a host.
type devicePair struct{ a, b int }

// pathPairs returns the pairs of devices of different GPUs without an NVLink
// between them.
func (h Host) pathPairs() (pairs []devicePair) {
	for i, a := range h.Devices {
		for j, b := range h.Devices[:i] {
			if a.Minor != b.Minor && a.NVLinks[b.UUID] == 0 && b.NVLinks[a.UUID] == 0 {
				pairs = append(pairs, devicePair{i, j})
			}
		}
	}
	return pairs
}

// path returns the path of the pair, "" if it is not known.
func (p devicePair) path(devices []Device) PCIePath {
	a, b := devices[p.a], devices[p.b]
	return cmp.Or(a.Paths[b.UUID], b.Paths[a.UUID])
}

func (p devicePair) impliedPath(devices []Device) PCIePath {
	if devices[p.a].NUMA == devices[p.b].NUMA {
		return SameNUMANode
	}
	return AcrossNUMANodes
}

func setPath(d *Device, other string, path PCIePath) {
	if d.Paths == nil {
		d.Paths = map[string]PCIePath{}
	}
	d.Paths[other] = path
}
