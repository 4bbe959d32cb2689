package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/isolator/simulated"
)

// visibleDevices is the variable with the UUIDs of a task's GPUs.
const visibleDevices = "NVIDIA_VISIBLE_DEVICES="

// listGPUProcesses returns the processes on this machine whose environment has the
// UUIDs of GPUs. It omits those that this process may not read.
func listGPUProcesses() (list []simulated.Process) {
	entries, _ := os.ReadDir("/proc") // without /proc there are no processes to see
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		environ, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue // it has ended or belongs to another user
		}
		devices := findVisibleDevices(environ)
		if len(devices) == 0 {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if p, ok := parseProcessStat(string(stat)); ok && err == nil {
			p.PID, p.Devices = pid, devices
			list = append(list, p)
		}
	}
	return list
}

// findVisibleDevices returns the UUIDs in an environment.
func findVisibleDevices(environ []byte) (uuids []string) {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		text, ok := bytes.CutPrefix(entry, []byte(visibleDevices))
		if !ok {
			continue
		}
		for name := range strings.SplitSeq(string(text), ",") {
			if strings.HasPrefix(name, "GPU-") {
				uuids = append(uuids, name)
			}
		}
	}
	return uuids
}

// kernelTick is the unit of CPU times in /proc, USER_HZ, which is 100 on all
// architectures that Linux and this program have in common.
const kernelTick = 10 * time.Millisecond

// parseProcessStat parses /proc/PID/stat. The name of the program, in parentheses,
// may contain blanks and parentheses.
func parseProcessStat(stat string) (p simulated.Process, ok bool) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return p, false
	}
	const user, system, resident = 11, 12, 21 // fields after the name
	fields := strings.Fields(stat[end+1:])
	if len(fields) <= resident {
		return p, false
	}
	var numbers [3]int64
	for i, n := range []int{user, system, resident} {
		v, err := strconv.ParseInt(fields[n], 10, 64)
		if err != nil || v < 0 {
			return p, false
		}
		numbers[i] = v
	}
	p.CPUTime = time.Duration(numbers[0]+numbers[1]) * kernelTick
	p.ResidentBytes = numbers[2] * int64(os.Getpagesize())
	return p, true
}
