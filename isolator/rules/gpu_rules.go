package rules

import (
	"errors"
	"fmt"

	"mesos-gpu/gpu"
)

// StandardRules returns what every container may access: creating any node
// (opening it is separate), terminals, tun, and the memory devices null, zero,
// full, random and urandom. It is the list of Mesos's cgroups/devices
// isolator, so that containers get the same access from either.
func StandardRules() []DeviceRule {
	return []DeviceRule{
		{'c', AnyNumber, AnyNumber, "m"},
		{'b', AnyNumber, AnyNumber, "m"},
		{'c', 5, 1, "rwm"},           // console
		{'c', 4, 0, "rwm"},           // tty0
		{'c', 4, 1, "rwm"},           // tty1
		{'c', 136, AnyNumber, "rwm"}, // pts
		{'c', 5, 2, "rwm"},           // ptmx
		{'c', 10, 200, "rwm"},        // net/tun
		{'c', 1, 3, "rwm"},           // null
		{'c', 1, 5, "rwm"},           // zero
		{'c', 1, 7, "rwm"},           // full
		{'c', 5, 0, "rwm"},           // tty
		{'c', 1, 9, "rwm"},           // urandom
		{'c', 1, 8, "rwm"},           // random
	}
}

// RulesForGPUs returns the rules of a container with the given devices: the
// standard rules and, with at least one GPU, those for the control nodes and
// the devices' own nodes.
func RulesForGPUs(h gpu.Host, m MajorNumbers, uuids []string) ([]DeviceRule, error) {
	list := StandardRules()
	if len(uuids) == 0 {
		return list, nil
	}
	devices, err := h.ByUUID(uuids)
	if err != nil {
		return nil, err
	}
	if twice := firstDuplicate(uuids); twice != "" {
		return nil, fmt.Errorf("device %s is named twice", twice)
	}
	for _, n := range controlNodes(m) {
		list = append(list, n.allowRule("rwm"))
	}
	var nodes []DeviceNode
	for _, d := range devices {
		if err := checkGrantable(d, m); err != nil {
			return nil, fmt.Errorf("device %s %w", d.UUID, err)
		}
		nodes = append(nodes, deviceNodes(d, m)...)
	}
	for _, n := range uniqueNodes(nodes) {
		list = append(list, n.allowRule("rw"))
	}
	return list, nil
}

// FirstMIGCap is the first capability node of a MIG instance
// (/proc/driver/nvidia-caps/mig-minors). The nodes before it allow their
// holder to repartition and monitor every GPU of the machine.
const FirstMIGCap = 3

// checkGrantable rejects a device whose device numbers would give access to
// something else.
func checkGrantable(d gpu.Device, m MajorNumbers) error {
	switch {
	case d.Minor < 0 || d.Minor >= ModesetMinor:
		return fmt.Errorf("has minor number %d, a GPU's is below %d", d.Minor, ModesetMinor)
	case d.MIG == nil:
		return nil
	case m.Caps == 0:
		return errors.New("is a MIG device and this machine has no nvidia-caps device number: load the nvidia module with MIG support")
	case d.MIG.GPUInstanceCap < FirstMIGCap || d.MIG.ComputeInstanceCap < FirstMIGCap || d.MIG.GPUInstanceCap == d.MIG.ComputeInstanceCap:
		return fmt.Errorf("has the capability nodes %d and %d, want two different ones from %d on",
			d.MIG.GPUInstanceCap, d.MIG.ComputeInstanceCap, FirstMIGCap)
	}
	return nil
}

func firstDuplicate(names []string) string {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			return name
		}
		seen[name] = true
	}
	return ""
}
