package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/gpu"
)

// Nodes lists the nodes a driver makes for the host: those of its GPUs, each
// once, then the control nodes. A host without GPUs has none, and one whose
// nvidia-uvm is not loaded lacks its two. nvidia-modeset is made by a driver
// only where its module is loaded, so a node may be absent from /dev.
func Nodes(h gpu.Host, m Majors) []Node {
	if len(h.Devices) == 0 {
		return nil
	}
	var nodes []Node
	for _, d := range h.Devices {
		nodes = append(nodes, deviceNodes(d, m)...)
	}
	return distinct(append(nodes, controlNodes(m)...))
}

// deviceNodes are the nodes that one device is reached by: a GPU's own, and
// for a MIG device its parent's and those of its two instances.
func deviceNodes(d gpu.Device, m Majors) []Node {
	whole := Node{Name: fmt.Sprintf("nvidia%d", d.Minor), Major: NvidiaMajor, Minor: uint32(d.Minor), UUID: d.UUID}
	if d.MIG == nil {
		return []Node{whole}
	}
	whole.UUID = d.MIG.Parent
	return []Node{whole, capNode(m, d.MIG.GPUInstanceCap, d.MIG.Parent), capNode(m, d.MIG.ComputeInstanceCap, d.UUID)}
}

func capNode(m Majors, minor int, uuid string) Node {
	return Node{Name: fmt.Sprintf("nvidia-caps/nvidia-cap%d", minor), Major: m.Caps, Minor: uint32(minor), UUID: uuid}
}

func controlNodes(m Majors) []Node {
	nodes := []Node{{Name: "nvidiactl", Major: NvidiaMajor, Minor: ControlMinor}}
	if m.UVM != 0 {
		nodes = append(nodes,
			Node{Name: "nvidia-uvm", Major: m.UVM, Minor: 0},
			Node{Name: "nvidia-uvm-tools", Major: m.UVM, Minor: 1})
	}
	return append(nodes, Node{Name: "nvidia-modeset", Major: NvidiaMajor, Minor: ModesetMinor})
}

// SwitchNode tells the node of an NVSwitch, or the one that controls them
// all, by its name below /dev. No container is granted one: whoever holds it
// can take NVLink from everybody else.
func SwitchNode(name string, m Majors) (Node, bool) {
	rest, ok := strings.CutPrefix(name, "nvidia-nvswitch")
	if !ok || m.Switch == 0 {
		return Node{}, false
	}
	if rest == "ctl" {
		return Node{Name: name, Major: m.Switch, Minor: ControlMinor}, true
	}
	minor, err := strconv.ParseUint(rest, 10, 8)
	return Node{Name: name, Major: m.Switch, Minor: uint32(minor)}, err == nil && minor < ControlMinor
}

// distinct keeps the first node of each device number: two MIG devices share
// their parent's.
func distinct(nodes []Node) []Node {
	var once []Node
	for _, n := range nodes {
		if !slices.ContainsFunc(once, func(o Node) bool { return o.Major == n.Major && o.Minor == n.Minor }) {
			once = append(once, n)
		}
	}
	return once
}
