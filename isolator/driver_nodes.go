package isolator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/simulated"
)

// simulatedCapsMajor is the major number of the capability nodes of simulated MIG devices. The
// real one is dynamic.
const simulatedCapsMajor = 509

// modprobeTimeout bounds a run of nvidia-modprobe, which may wait for the kernel to initialize
// every GPU of the host.
const modprobeTimeout = 60 * time.Second

// driverNodes are the NVIDIA driver's device numbers and nodes on this host.
type driverNodes struct {
	majors rules.MajorNumbers
	nodes  []rules.DeviceNode
}

// findDriver finds the driver's device numbers in /proc/devices and its nodes in /dev. It runs
// nvidia-modprobe if something that CUDA needs is missing.
func findDriver(cfg HostConfig) (driverNodes, error) {
	switch {
	case cfg.Host.Simulated:
		m := rules.MajorNumbers{UVM: simulated.UVMMajor, Caps: simulatedCapsMajor}
		return driverNodes{m, rules.HostNodes(cfg.Host, m)}, nil
	case len(cfg.Host.Devices) == 0:
		return driverNodes{}, nil
	}
	d, missing, err := cfg.scanDriverNodes()
	if err != nil || len(missing) == 0 {
		return d, err
	}
	args := modprobeArguments(cfg.Host, missing)
	if err := cfg.runModprobe(args); err != nil {
		return driverNodes{}, fmt.Errorf("%s: %w; as root, run: nvidia-modprobe %s", missing[0].why, err, strings.Join(args, " "))
	}
	if d, missing, err = cfg.scanDriverNodes(); err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s, although nvidia-modprobe %s succeeded: see the kernel's log (dmesg)",
			missing[0].why, strings.Join(args, " "))
	}
	return d, err
}

// missingPrerequisite is something that CUDA needs and that the host lacks.
type missingPrerequisite struct {
	gpuMinor int // the minor number of the GPU, or -1
	why      string
}

func (c HostConfig) scanDriverNodes() (driverNodes, []missingPrerequisite, error) {
	file := filepath.Join(c.procRoot, "devices")
	text, err := os.ReadFile(file)
	if err != nil {
		return driverNodes{}, nil, fmt.Errorf("find the device numbers of the NVIDIA driver: %w", err)
	}
	d := driverNodes{majors: rules.MajorNumbers{
		UVM: parseMajor(string(text), "nvidia-uvm"), Caps: parseMajor(string(text), "nvidia-caps"), Switch: parseMajor(string(text), "nvidia-nvswitch"),
	}}
	var missing []missingPrerequisite
	if d.majors.UVM == 0 {
		missing = append(missing, missingPrerequisite{-1, fmt.Sprintf("no character device in %s is named nvidia-uvm: its module is not loaded", file)})
	}
	for _, n := range rules.HostNodes(c.Host, d.majors) {
		switch there := c.hasNode(n); {
		case there || n.Name != "nvidia-modeset" && n.Name != "nvidia-uvm-tools":
			d.nodes = append(d.nodes, n)
			// The driver makes a capability node with its MIG device, and a
			// container's own node is made from the number.
			if !there && n.Major != d.majors.Caps {
				missing = append(missing, missingPrerequisite{nodeGPUMinor(n), fmt.Sprintf("no node %s (%d:%d)", filepath.Join(c.devRoot, n.Name), n.Major, n.Minor)})
			}
		}
	}
	switches, err := c.listSwitchNodes(d.majors)
	d.nodes = append(d.nodes, switches...)
	return d, missing, err
}

func nodeGPUMinor(n rules.DeviceNode) int {
	if n.UUID == "" {
		return -1
	}
	return int(n.Minor)
}

// hasNode reports whether the node exists with the device number that the driver has now. Nodes
// of an earlier load of the driver may have other numbers.
func (c HostConfig) hasNode(n rules.DeviceNode) bool {
	var st unix.Stat_t
	return unix.Stat(filepath.Join(c.devRoot, n.Name), &st) == nil &&
		st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(n.Major, n.Minor)
}

func (c HostConfig) listSwitchNodes(m rules.MajorNumbers) ([]rules.DeviceNode, error) {
	entries, err := os.ReadDir(c.devRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find NVSwitch nodes: %w", err)
	}
	var nodes []rules.DeviceNode
	for _, e := range entries {
		if n, ok := rules.SwitchNode(e.Name(), m); ok && c.hasNode(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// modprobeArguments returns nvidia-modprobe's arguments that load nvidia-uvm and make the
// missing nodes.
func modprobeArguments(h gpu.Host, missing []missingPrerequisite) []string {
	args := []string{"-u"}
	for _, l := range missing {
		if l.gpuMinor >= 0 {
			args = append(args, "-c="+strconv.Itoa(l.gpuMinor))
		}
	}
	if len(args) == 1 { // without a GPU argument nvidia-modprobe makes no control node
		args = append(args, "-c="+strconv.Itoa(h.Devices[0].Minor))
	}
	return args
}

func (c HostConfig) runModprobe(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), modprobeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.modprobe, args...)
	cmd.WaitDelay = time.Second
	switch out, err := cmd.CombinedOutput(); {
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end within %v", c.modprobe, modprobeTimeout)
	case err != nil && len(out) > 0:
		return fmt.Errorf("run %s: %w: %s", c.modprobe, err, strings.TrimSpace(string(out)))
	case err != nil:
		return fmt.Errorf("run %s: %w", c.modprobe, err)
	}
	return nil
}

// parseMajor returns a character device's major number from the text of /proc/devices, 0 if it
// has none.
func parseMajor(devices, name string) uint32 {
	characters := false
	for line := range strings.Lines(devices) {
		switch fields := strings.Fields(line); {
		case len(fields) != 2:
		case fields[1] == "devices:":
			characters = fields[0] == "Character"
		case characters && fields[1] == name:
			major, err := strconv.ParseUint(fields[0], 10, 12) // as many bits as Linux has
			if err != nil {
				return 0
			}
			return uint32(major)
		}
	}
	return 0
}
