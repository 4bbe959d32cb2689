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

// cgroupHierarchy is what the versions of cgroups have in common.
type cgroupHierarchy interface {
	CreateCgroup(path string) error
	ConfineCgroup(path string, list []rules.DeviceRule) error
	SetDefaultRules(path string, list []rules.DeviceRule) error
	ReadRules(path string) ([]rules.DeviceRule, error)
	ProcessCgroup(procCgroup string) (path string, err error)
	AddProcess(path string, pid int) error
	ListChildCgroups(path string) ([]string, error)
	IsOwned(path string) bool
	IsConfined(path string) (bool, error)
	DetachRules(path string) error
	RemoveCgroup(path string) error
}

// mesosV2MountPoint is where cgroup version 2 is mounted if Mesos's agent uses it
// (its own rule); beside it somebody may have mounted hierarchies of version 1.
const mesosV2MountPoint = "/sys/fs/cgroup"

// chooseHierarchy finds the hierarchy of that version.
func chooseHierarchy(version, mountinfo string) (cgroupHierarchy, error) {
	v1, noV1 := cgroup.FindV1MountPoint(mountinfo)
	v2, noV2 := cgroup.FindV2MountPoint(mountinfo)
	switch {
	case version != "" && version != "v1" && version != "v2":
		return nil, fmt.Errorf("cgroups %q is neither v1 nor v2", version)
	case version == "v1" && noV1 != nil:
		return nil, noV1
	case version == "v2" && noV2 != nil:
		return nil, noV2
	case version == "" && v2 == mesosV2MountPoint:
		return cgroup.V2{Root: v2}, nil
	case version != "v2" && noV1 == nil:
		return cgroup.V1{Root: v1}, nil
	case noV2 == nil:
		return cgroup.V2{Root: v2}, nil
	}
	return missingHierarchy{noV1}, nil // an agent may isolate nothing
}

// CgroupVersion is the version in use, "v1" or "v2"; empty where there is none.
func (i *Isolator) CgroupVersion() string {
	switch i.cgroups.(type) {
	case cgroup.V1:
		return "v1"
	case cgroup.V2:
		return "v2"
	}
	return ""
}

// missingHierarchy is the hierarchy of a machine that has none, as its error says.
type missingHierarchy struct{ error }

func (n missingHierarchy) CreateCgroup(string) error                        { return n }
func (n missingHierarchy) ConfineCgroup(string, []rules.DeviceRule) error   { return n }
func (n missingHierarchy) SetDefaultRules(string, []rules.DeviceRule) error { return n }
func (n missingHierarchy) ReadRules(string) ([]rules.DeviceRule, error)     { return nil, n }
func (n missingHierarchy) ProcessCgroup(string) (string, error)             { return "", n }
func (n missingHierarchy) AddProcess(string, int) error                     { return n }
func (n missingHierarchy) ListChildCgroups(string) ([]string, error)        { return nil, n }
func (n missingHierarchy) IsOwned(string) bool                              { return false }
func (n missingHierarchy) IsConfined(string) (bool, error)                  { return false, n }
func (n missingHierarchy) DetachRules(string) error                         { return n }
func (n missingHierarchy) RemoveCgroup(string) error                        { return n }

// DenyGPUsByDefault confines the containers below a cgroup, the agent's root of them,
// to no GPU until they are isolated, and stays when this process ends. It
// needs cgroup version 2: in version 1 Mesos's cgroups/devices does so.
func (i *Isolator) DenyGPUsByDefault(root string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.cgroups.SetDefaultRules(root, rules.StandardRules())
}

// replaceGPURules gives a cgroup the GPUs of a list. The caller holds mu.
func (i *Isolator) replaceGPURules(cgroupPath string, list []rules.DeviceRule) error {
	now, err := i.cgroups.ReadRules(cgroupPath)
	if err != nil {
		return err
	}
	return i.cgroups.ConfineCgroup(cgroupPath, rules.ReplaceGPURules(now, list, i.driver.majors))
}

// MoveProcess moves a process into the cgroup unless it is there, or below.
func (i *Isolator) MoveProcess(cgroupPath string, pid int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	at, err := i.cgroups.ProcessCgroup(filepath.Join(i.procRoot, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return fmt.Errorf("enter device cgroup %s: %w", cgroupPath, err)
	}
	within := strings.TrimSuffix(filepath.Clean("/"+cgroupPath), "/") + "/"
	if strings.HasPrefix(at+"/", within) {
		return nil
	}
	return i.cgroups.AddProcess(cgroupPath, pid)
}

// AllowedDevices is the devices that the cgroup's processes may open, in the host's
// order, as the kernel has it. It returns ErrUnconfined where they may open
// any, and fs.ErrNotExist if there is no such cgroup.
func (i *Isolator) AllowedDevices(cgroupPath string) ([]string, error) {
	list, err := i.DeviceRules(cgroupPath)
	if err != nil {
		return nil, err
	}
	if rules.IsUnconfined(list) {
		return nil, fmt.Errorf("tell the GPUs of device cgroup %s: %w", cgroupPath, ErrUnconfined)
	}
	return rules.AllowedDevices(i.host, i.driver.majors, list), nil
}

// DeviceRules are what the cgroup's processes may open. It returns fs.ErrNotExist if
// there is no such cgroup.
func (i *Isolator) DeviceRules(cgroupPath string) ([]rules.DeviceRule, error) {
	return i.cgroups.ReadRules(cgroupPath)
}

// ListChildCgroups are the names of the cgroups right below that one; none if there is
// no such cgroup.
func (i *Isolator) ListChildCgroups(cgroupPath string) ([]string, error) {
	return i.cgroups.ListChildCgroups(cgroupPath)
}

// ReleaseCgroup takes back what Isolate made: the GPUs at once, then the cgroup if
// Isolate created it, this process's or one before. Its processes must have
// ended by then. A cgroup of another's is left to its maker, and one that is
// gone is no error.
func (i *Isolator) ReleaseCgroup(cgroupPath string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	confined, err := i.cgroups.IsConfined(cgroupPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && confined {
		err = i.replaceGPURules(cgroupPath, nil)
	}
	switch {
	case err != nil:
		return fmt.Errorf("take GPUs back: %w", err)
	case i.cgroups.IsOwned(cgroupPath):
		return i.cgroups.RemoveCgroup(cgroupPath)
	}
	return i.cgroups.DetachRules(cgroupPath)
}
