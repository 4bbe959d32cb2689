package docker

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxHostDevices limits the nodes of one task: a folder may have many.
const maxHostDevices = 1000

// listHostDevices returns the character devices at the wanted paths: the node itself, or those in a folder and the folders
// below it, without links. It returns an error for paths that the agent's operator does not allow, and for nodes of GPUs,
// which a task gets by its allocation alone. devicesFile is /proc/devices.
func listHostDevices(wanted, allowed []string, devicesFile string) (nodes []string, err error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	gpuMajors, err := readGPUMajors(devicesFile)
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(allowed, func(prefix string) bool { return name == prefix || strings.HasPrefix(name, prefix+"/") }) {
			return nil, fmt.Errorf("devices: %s: the operator of this agent does not allow it to tasks: add it to MESOS_GPU_ALLOW_DEVICES of the agent's executors",
				name)
		}
		found := len(nodes)
		err := filepath.WalkDir(name, func(at string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Type() != fs.ModeDevice|fs.ModeCharDevice {
				return err
			}
			if err := checkHostDevice(at, gpuMajors); err != nil {
				return err
			}
			if nodes = append(nodes, at); len(nodes) > maxHostDevices {
				return fmt.Errorf("%s: more than %d nodes", name, maxHostDevices)
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, fmt.Errorf("devices: %w", err)
		case len(nodes) == found:
			return nil, fmt.Errorf("devices: %s has no character device on this agent", name)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), nil
}

// checkHostDevice rejects a node of a GPU, whatever its name is.
func checkHostDevice(node string, gpuMajors map[uint32]string) error {
	var info unix.Stat_t
	if err := unix.Lstat(node, &info); err != nil {
		return &os.PathError{Op: "lstat", Path: node, Err: err}
	}
	if driver, is := gpuMajors[unix.Major(info.Rdev)]; is {
		return fmt.Errorf("%s is a node of the driver %s: tasks get GPUs by gpus", node, driver)
	}
	return nil
}

// readGPUMajors returns the drivers of GPU nodes by their major numbers.
func readGPUMajors(devicesFile string) (map[uint32]string, error) {
	file, err := os.Open(devicesFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	majors := map[uint32]string{195: "nvidia", 226: "drm"} // registered numbers, also if the driver is not loaded yet
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		number, name, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		major, err := strconv.ParseUint(number, 10, 32)
		if err == nil && strings.HasPrefix(name, "nvidia") && name != "nvidia-fs" {
			majors[uint32(major)] = name
		}
	}
	return majors, lines.Err()
}
