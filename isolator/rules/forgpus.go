package rules

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// Standard is what every container may open: making any node (opening it is
// another matter), terminals, tun, and the memory devices null, zero, full,
// random and urandom. It is the list that Mesos's cgroups/devices isolator
// gives, so that a container finds the same under either.
func Standard() []Rule {
	return []Rule{
		{'c', Any, Any, "m"},
		{'b', Any, Any, "m"},
		{'c', 5, 1, "rwm"},     // console
		{'c', 4, 0, "rwm"},     // tty0
		{'c', 4, 1, "rwm"},     // tty1
		{'c', 136, Any, "rwm"}, // pts
		{'c', 5, 2, "rwm"},     // ptmx
		{'c', 10, 200, "rwm"},  // net/tun
		{'c', 1, 3, "rwm"},     // null
		{'c', 1, 5, "rwm"},     // zero
		{'c', 1, 7, "rwm"},     // full
		{'c', 5, 0, "rwm"},     // tty
		{'c', 1, 9, "rwm"},     // urandom
		{'c', 1, 8, "rwm"},     // random
	}
}

// Nodes lists the nodes a driver makes for the host: one for each GPU, then
// the control nodes. A host without GPUs has none, and one whose nvidia-uvm
// is not loaded (uvmMajor 0) lacks its two. nvidia-modeset is made by a driver
// only where its module is loaded, so a node may be absent from /dev.
func Nodes(h gpu.Host, uvmMajor uint32) []Node {
	if len(h.Devices) == 0 {
		return nil
	}
	var nodes []Node
	for _, d := range h.Devices {
		nodes = append(nodes, node(d))
	}
	return append(nodes, controlNodes(uvmMajor)...)
}

func node(d gpu.Device) Node {
	return Node{Name: fmt.Sprintf("nvidia%d", d.Minor), Major: NvidiaMajor, Minor: uint32(d.Minor), UUID: d.UUID}
}

func controlNodes(uvmMajor uint32) []Node {
	nodes := []Node{{Name: "nvidiactl", Major: NvidiaMajor, Minor: ControlMinor}}
	if uvmMajor != 0 {
		nodes = append(nodes,
			Node{Name: "nvidia-uvm", Major: uvmMajor, Minor: 0},
			Node{Name: "nvidia-uvm-tools", Major: uvmMajor, Minor: 1})
	}
	return append(nodes, Node{Name: "nvidia-modeset", Major: NvidiaMajor, Minor: ModesetMinor})
}

// ForGPUs gives the rules of a container that holds those devices: the
// standard ones, and with at least one GPU the control nodes and the GPUs' own.
func ForGPUs(h gpu.Host, uvmMajor uint32, uuids []string) ([]Rule, error) {
	list := Standard()
	if len(uuids) == 0 {
		return list, nil
	}
	devices, err := h.ByUUID(uuids)
	if err != nil {
		return nil, err
	}
	if twice := firstTwice(uuids); twice != "" {
		return nil, fmt.Errorf("device %s is named twice", twice)
	}
	for _, n := range controlNodes(uvmMajor) {
		list = append(list, Rule{'c', int64(n.Major), int64(n.Minor), "rwm"})
	}
	for _, d := range devices {
		if d.Minor < 0 || d.Minor >= ModesetMinor {
			return nil, fmt.Errorf("device %s has minor number %d, a GPU's is below %d", d.UUID, d.Minor, ModesetMinor)
		}
		list = append(list, Rule{'c', NvidiaMajor, int64(d.Minor), "rw"})
	}
	return list, nil
}

func firstTwice(names []string) string {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			return name
		}
		seen[name] = true
	}
	return ""
}

// GPUMinors tells which GPUs a list lets a container open for reading and
// writing, by minor number in order. all says that a wildcard opens every
// one; minors is then nil.
func GPUMinors(list []Rule) (minors []int, all bool) {
	for _, r := range Merge(list) {
		if r.Kind == 'b' || !strings.HasPrefix(r.Access, "rw") {
			continue
		}
		if r.Major != Any && r.Major != NvidiaMajor {
			continue
		}
		switch {
		case r.Minor == Any:
			return nil, true
		case r.Minor < ModesetMinor:
			minors = append(minors, int(r.Minor))
		}
	}
	slices.Sort(minors) // a wildcard major comes before all others
	return slices.Compact(minors), false
}
