package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/gpu"
)

// HostNodes returns the nodes that the driver creates for the host: those of
// its GPUs, each once, then the control nodes. A host without GPUs has none.
// The two nodes of nvidia-uvm are missing if that module is not loaded.
// nvidia-modeset is always listed, but exists in /dev only if its module is
// loaded.
func HostNodes(h gpu.Host, m MajorNumbers) []DeviceNode {
	if len(h.Devices) == 0 {
		return nil
	}
	var nodes []DeviceNode
	for _, d := range h.Devices {
		nodes = append(nodes, deviceNodes(d, m)...)
	}
	return uniqueNodes(append(nodes, controlNodes(m)...))
}

// deviceNodes returns the nodes of one device: a GPU's own node, or for a MIG
// device its parent's node and the nodes of its two instances.
func deviceNodes(d gpu.Device, m MajorNumbers) []DeviceNode {
	whole := DeviceNode{Name: fmt.Sprintf("nvidia%d", d.Minor), Major: NvidiaMajor, Minor: uint32(d.Minor), UUID: d.UUID}
	if d.MIG == nil {
		return []DeviceNode{whole}
	}
	whole.UUID = d.MIG.Parent
	return []DeviceNode{whole, capNode(m, d.MIG.GPUInstanceCap, d.MIG.Parent), capNode(m, d.MIG.ComputeInstanceCap, d.UUID)}
}

func capNode(m MajorNumbers, minor int, uuid string) DeviceNode {
	return DeviceNode{Name: fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor), Major: m.Caps, Minor: uint32(minor), UUID: uuid}
}

func controlNodes(m MajorNumbers) []DeviceNode {
	nodes := []DeviceNode{{Name: "nvidiactl", Major: NvidiaMajor, Minor: ControlMinor}}
	if m.UVM != 0 {
		nodes = append(nodes,
			DeviceNode{Name: "nvidia-uvm", Major: m.UVM, Minor: 0},
			DeviceNode{Name: "nvidia-uvm-tools", Major: m.UVM, Minor: 1})
	}
	return append(nodes, DeviceNode{Name: "nvidia-modeset", Major: NvidiaMajor, Minor: ModesetMinor})
}

// SwitchNode returns the node of an NVSwitch, or the one that controls all of
// them, by its name below /dev. It is never granted to a container, which
// could disable NVLink for all others.
func SwitchNode(name string, m MajorNumbers) (DeviceNode, bool) {
	rest, ok := strings.CutPrefix(name, "nvidia-nvswitch")
	if !ok || m.Switch == 0 {
		return DeviceNode{}, false
	}
	if rest == "ctl" {
		return DeviceNode{Name: name, Major: m.Switch, Minor: ControlMinor}, true
	}
	minor, err := strconv.ParseUint(rest, 10, 8)
	return DeviceNode{Name: name, Major: m.Switch, Minor: uint32(minor)}, err == nil && minor < ControlMinor
}

// uniqueNodes keeps the first node of each device number: MIG devices share
// their parent's node.
func uniqueNodes(nodes []DeviceNode) []DeviceNode {
	var once []DeviceNode
	for _, n := range nodes {
		if !slices.ContainsFunc(once, func(o DeviceNode) bool { return o.Major == n.Major && o.Minor == n.Minor }) {
			once = append(once, n)
		}
	}
	return once
}
