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

// ErrUnconfined is returned by AllowedDevices for a cgroup that may open every device.
var ErrUnconfined = errors.New("the cgroup is not confined")

// cgroupHierarchy is implemented by cgroup.V1 and cgroup.V2.
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

// mesosV2MountPoint is where cgroup version 2 is mounted if Mesos's agent uses it. The agent
// has the same rule. Hierarchies of version 1 may be mounted in addition.
const mesosV2MountPoint = "/sys/fs/cgroup"

// chooseHierarchy returns the hierarchy of that version, "v1", "v2" or "" for the version that
// Mesos's agent uses.
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

// CgroupVersion returns the version in use, "v1" or "v2"; empty if none exists.
func (i *Isolator) CgroupVersion() string {
	switch i.cgroups.(type) {
	case cgroup.V1:
		return "v1"
	case cgroup.V2:
		return "v2"
	}
	return ""
}

// missingHierarchy is the hierarchy of a host that has none. All its methods return the error.
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

// DenyGPUsByDefault denies GPUs to the containers below a cgroup, the agent's root of
// containers, until they are isolated. The rule stays when this process ends. It needs cgroup
// version 2: with version 1 Mesos's cgroups/devices isolator does the same.
func (i *Isolator) DenyGPUsByDefault(root string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.cgroups.SetDefaultRules(root, rules.StandardRules())
}

// MoveProcess moves a process into the cgroup unless it is there, or in a cgroup below.
func (i *Isolator) MoveProcess(cgroupPath string, pid int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	at, err := i.cgroups.ProcessCgroup(filepath.Join(i.procRoot, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return fmt.Errorf("move process to device cgroup %s: %w", cgroupPath, err)
	}
	within := strings.TrimSuffix(filepath.Clean("/"+cgroupPath), "/") + "/"
	if strings.HasPrefix(at+"/", within) {
		return nil
	}
	return i.cgroups.AddProcess(cgroupPath, pid)
}

// AllowedDevices returns the devices that the cgroup's processes may open, read from the
// kernel, in the host's order. It returns ErrUnconfined if they may open every device, and
// fs.ErrNotExist if the cgroup does not exist.
func (i *Isolator) AllowedDevices(cgroupPath string) ([]string, error) {
	list, err := i.DeviceRules(cgroupPath)
	if err != nil {
		return nil, err
	}
	if rules.IsUnconfined(list) {
		return nil, fmt.Errorf("list the GPUs of device cgroup %s: %w", cgroupPath, ErrUnconfined)
	}
	return rules.AllowedDevices(i.host, i.driver.majors, list), nil
}

// DeviceRules returns what the cgroup's processes may open. It returns fs.ErrNotExist if the
// cgroup does not exist.
func (i *Isolator) DeviceRules(cgroupPath string) ([]rules.DeviceRule, error) {
	return i.cgroups.ReadRules(cgroupPath)
}

// ListChildCgroups returns the names of the cgroups directly below the cgroup, none if it does
// not exist.
func (i *Isolator) ListChildCgroups(cgroupPath string) ([]string, error) {
	return i.cgroups.ListChildCgroups(cgroupPath)
}

// ReleaseCgroup undoes ApplyGrant: it denies the GPUs, then removes the cgroup if this or an
// earlier process created it. The cgroup's processes must have ended. A cgroup of another
// program is left to that program, and one that does not exist is no error.
func (i *Isolator) ReleaseCgroup(cgroupPath string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	confined, err := i.cgroups.IsConfined(cgroupPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && confined {
		var now []rules.DeviceRule
		if now, err = i.cgroups.ReadRules(cgroupPath); err == nil {
			err = i.cgroups.ConfineCgroup(cgroupPath, rules.ReplaceGPURules(now, nil, i.driver.majors))
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("release GPUs: %w", err)
	case i.cgroups.IsOwned(cgroupPath):
		return i.cgroups.RemoveCgroup(cgroupPath)
	}
	return i.cgroups.DetachRules(cgroupPath)
}
