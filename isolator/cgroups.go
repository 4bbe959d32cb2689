package isolator

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/rules"
)

// ErrUnconfined is returned by Holding for a cgroup that may open every
// device there is.
var ErrUnconfined = errors.New("nobody confined it")

// hierarchy is what the versions of cgroups have in common.
type hierarchy interface {
	Create(path string) error
	Confine(path string, list []rules.Rule) error
	Default(path string, list []rules.Rule) error
	Read(path string) ([]rules.Rule, error)
	Of(procCgroup string) (path string, err error)
	AddProcess(path string, pid int) error
	Below(path string) ([]string, error)
	Made(path string) bool
	Confined(path string) (bool, error)
	Release(path string) error
	Remove(path string) error
}

// mesosUnified is where cgroup version 2 is mounted if Mesos's agent uses it
// (its own rule); beside it somebody may have mounted hierarchies of version 1.
const mesosUnified = "/sys/fs/cgroup"

// choose finds the hierarchy of that version.
func choose(version, mountinfo string) (hierarchy, error) {
	v1, noV1 := cgroup.Mounted(mountinfo)
	v2, noV2 := cgroup.Unified(mountinfo)
	switch {
	case version != "" && version != "v1" && version != "v2":
		return nil, fmt.Errorf("cgroups %q is neither v1 nor v2", version)
	case version == "v1" && noV1 != nil:
		return nil, noV1
	case version == "v2" && noV2 != nil:
		return nil, noV2
	case version == "" && v2 == mesosUnified:
		return cgroup.V2{Root: v2}, nil
	case version != "v2" && noV1 == nil:
		return cgroup.V1{Root: v1}, nil
	case noV2 == nil:
		return cgroup.V2{Root: v2}, nil
	}
	return nowhere{noV1}, nil // an agent may isolate nothing
}

// Cgroups is the version in use, "v1" or "v2"; empty where there is none.
func (i *Isolator) Cgroups() string {
	switch i.cgroups.(type) {
	case cgroup.V1:
		return "v1"
	case cgroup.V2:
		return "v2"
	}
	return ""
}

// nowhere is the hierarchy of a machine that has none, as its error says.
type nowhere struct{ error }

func (n nowhere) Create(string) error                { return n }
func (n nowhere) Confine(string, []rules.Rule) error { return n }
func (n nowhere) Default(string, []rules.Rule) error { return n }
func (n nowhere) Read(string) ([]rules.Rule, error)  { return nil, n }
func (n nowhere) Of(string) (string, error)          { return "", n }
func (n nowhere) AddProcess(string, int) error       { return n }
func (n nowhere) Below(string) ([]string, error)     { return nil, n }
func (n nowhere) Made(string) bool                   { return false }
func (n nowhere) Confined(string) (bool, error)      { return false, n }
func (n nowhere) Release(string) error               { return n }
func (n nowhere) Remove(string) error                { return n }

// Default confines the containers below a cgroup, the agent's root of them,
// to no GPU until they are isolated, and stays when this process ends. It
// needs cgroup version 2: in version 1 Mesos's cgroups/devices does so.
func (i *Isolator) Default(root string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.cgroups.Default(root, rules.Standard())
}

// regrant gives a cgroup the GPUs of a list. The caller holds mu.
func (i *Isolator) regrant(cgroupPath string, list []rules.Rule) error {
	now, err := i.cgroups.Read(cgroupPath)
	if err != nil {
		return err
	}
	return i.cgroups.Confine(cgroupPath, rules.Regrant(now, list, i.driver.majors))
}

// Enter moves a process into the cgroup unless it is there, or below.
func (i *Isolator) Enter(cgroupPath string, pid int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	at, err := i.cgroups.Of(filepath.Join(i.procRoot, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return fmt.Errorf("enter device cgroup %s: %w", cgroupPath, err)
	}
	within := strings.TrimSuffix(filepath.Clean("/"+cgroupPath), "/") + "/"
	if strings.HasPrefix(at+"/", within) {
		return nil
	}
	return i.cgroups.AddProcess(cgroupPath, pid)
}

// Holding is the devices that the cgroup's processes may open, in the host's
// order, as the kernel has it. It returns ErrUnconfined where they may open
// any, and fs.ErrNotExist if there is no such cgroup.
func (i *Isolator) Holding(cgroupPath string) ([]string, error) {
	list, err := i.Rules(cgroupPath)
	if err != nil {
		return nil, err
	}
	if rules.Unconfined(list) {
		return nil, fmt.Errorf("tell the GPUs of device cgroup %s: %w", cgroupPath, ErrUnconfined)
	}
	return rules.Holding(i.host, i.driver.majors, list), nil
}

// Rules are what the cgroup's processes may open. It returns fs.ErrNotExist if
// there is no such cgroup.
func (i *Isolator) Rules(cgroupPath string) ([]rules.Rule, error) {
	return i.cgroups.Read(cgroupPath)
}

// Below are the names of the cgroups right below that one; none if there is
// no such cgroup.
func (i *Isolator) Below(cgroupPath string) ([]string, error) {
	return i.cgroups.Below(cgroupPath)
}

// Remove takes back what Isolate made: the GPUs at once, then the cgroup if
// Isolate created it, this process's or one before. Its processes must have
// ended by then. A cgroup of another's is left to its maker, and one that is
// gone is no error.
func (i *Isolator) Remove(cgroupPath string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	confined, err := i.cgroups.Confined(cgroupPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && confined {
		err = i.regrant(cgroupPath, nil)
	}
	switch {
	case err != nil:
		return fmt.Errorf("take GPUs back: %w", err)
	case i.cgroups.Made(cgroupPath):
		return i.cgroups.Remove(cgroupPath)
	}
	return i.cgroups.Release(cgroupPath)
}
