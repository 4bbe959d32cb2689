// Package memorycgroup reads how much memory a cgroup may use, how much it has used at most, and how often the kernel killed
// one of its processes for lack of memory. It reads cgroups of both versions and changes nothing.
package memorycgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/internal/mounttable"
)

// Group is a cgroup with a memory controller.
type Group struct {
	dir   string
	files controlFiles
}

// controlFiles are the names of a version's files. events has the line "oom_kill N".
type controlFiles struct{ limit, peak, events string }

var (
	version1 = controlFiles{"memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"}
	version2 = controlFiles{"memory.max", "memory.peak", "memory.events"}
)

// Usage contains the memory limit and the peak usage of a cgroup. LimitBytes is 0 if there is no limit, and PeakBytes if the kernel does not
// measure it.
type Usage struct{ LimitBytes, PeakBytes, OOMKills int64 }

// String returns the limit and the peak, without what is unknown.
func (u Usage) String() string {
	text := fmt.Sprintf("the limit is %s", formatMiB(u.LimitBytes))
	if u.PeakBytes > 0 {
		text += fmt.Sprintf(", the peak was %s", formatMiB(u.PeakBytes))
	}
	return text
}

func formatMiB(bytes int64) string {
	return strconv.FormatFloat(float64(bytes*10/(1<<20))/10, 'f', -1, 64) + " MiB"
}

// FindOwn returns the cgroup of this process, whose procfs is at proc. It returns an error if the cgroup is not visible.
func FindOwn(proc string) (Group, error) {
	memberships, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if err != nil {
		return Group{}, err
	}
	mounts, err := mounttable.ReadFile(filepath.Join(proc, "self", "mountinfo"))
	if len(mounts) == 0 {
		return Group{}, errors.Join(err, errors.New("nothing is mounted"))
	}
	return findMember(mounts, memberships)
}

// FindNamed returns the visible cgroup whose name contains the id of a container. Engines and their cgroup drivers use
// different names and parents.
func FindNamed(proc, id string) (Group, error) {
	mounts, err := mounttable.ReadFile(filepath.Join(proc, "self", "mountinfo"))
	for _, m := range mounts {
		for _, v := range versions() {
			if !v.isMountedAt(&m) {
				continue
			}
			if dir := findFolder(m.Point, id, maxNamedDepth); dir != "" {
				return Group{dir, v.files}, nil
			}
		}
	}
	return Group{}, errors.Join(err, fmt.Errorf("no memory cgroup of %s is visible", id))
}

// maxNamedDepth is the depth at which engines create cgroups at most: /machine.slice/user.slice/libpod-ID.scope/container.
const maxNamedDepth = 4

// findFolder returns a folder below dir whose name contains a word, or "".
func findFolder(dir, word string, depth int) string {
	if depth == 0 {
		return ""
	}
	entries, _ := os.ReadDir(dir) // it may be removed meanwhile
	var folders []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() && strings.Contains(e.Name(), word) {
			return path
		}
		if e.IsDir() {
			folders = append(folders, path)
		}
	}
	for _, path := range folders {
		if found := findFolder(path, word, depth-1); found != "" {
			return found
		}
	}
	return ""
}

// HasName reports whether a part of the cgroup's path is a name.
func (g Group) HasName(name string) bool {
	return slices.Contains(strings.Split(g.dir, "/"), name)
}

// Open returns the cgroup at a path of version 1's memory hierarchy.
func Open(dir string) Group { return Group{dir, version1} }

// cgroupVersion is a version of cgroups. A controller has a hierarchy of its own in version 1 only.
type cgroupVersion struct {
	fileSystem, controller string
	files                  controlFiles
}

func versions() []cgroupVersion {
	return []cgroupVersion{{"cgroup", "memory", version1}, {"cgroup2", "", version2}}
}

func (v *cgroupVersion) isMountedAt(m *mounttable.Mount) bool {
	return m.FileSystem == v.fileSystem && (v.controller == "" || slices.Contains(m.SuperOptions, v.controller))
}

func findMember(mounts []mounttable.Mount, memberships []byte) (Group, error) {
	for _, v := range versions() {
		path, ok := memberPath(memberships, v.controller)
		if !ok {
			continue
		}
		for _, m := range mounts {
			if !v.isMountedAt(&m) {
				continue
			}
			inside, ok := strings.CutPrefix(path, strings.TrimSuffix(m.Root, "/"))
			g := Group{filepath.Join(m.Point, inside), v.files}
			if _, err := os.Stat(filepath.Join(g.dir, g.files.events)); ok && err == nil {
				return g, nil
			}
		}
	}
	return Group{}, errors.New("the memory cgroup is not visible")
}

// memberPath returns the path of a process's cgroup in the hierarchy with a controller; version 2's has none.
func memberPath(memberships []byte, controller string) (string, bool) {
	for line := range strings.Lines(string(memberships)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if ok && slices.Contains(strings.Split(controllers, ","), controller) {
			return path, true
		}
	}
	return "", false
}

// ReadUsage returns an error once the cgroup is removed.
func (g Group) ReadUsage() (u Usage, err error) {
	if u.LimitBytes, err = g.readBytes(g.files.limit); err != nil {
		return u, err
	}
	if u.PeakBytes, err = g.readBytes(g.files.peak); err != nil && !errors.Is(err, os.ErrNotExist) {
		return u, err
	}
	u.OOMKills, err = g.readOOMKills()
	return u, err
}

// noLimit is above the memory of any machine: version 1 has no word for a missing limit.
const noLimit = 1 << 60

func (g Group) readBytes(file string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	word := string(bytes.TrimSpace(text))
	if word == "max" {
		return 0, nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	if n > noLimit {
		return 0, nil
	}
	return n, nil
}

func (g Group) readOOMKills() (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.files.events))
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if count, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			return strconv.ParseInt(count, 10, 64)
		}
	}
	return 0, nil // a kernel that does not count them
}
