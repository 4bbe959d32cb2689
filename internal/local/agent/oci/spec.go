// Package oci writes OCI runtime specifications for runc. It is pure: it maps
// an image configuration, a command and devices to a specification. It also
// decides the privileges of a container, which are Docker's defaults: limited
// capabilities, no new privileges and masked kernel secrets.
package oci

import (
	"os"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"mesos-gpu/isolator/rules"
)

// Sandbox is the path of the sandbox inside a container with an image, and
// Driver the path of the driver volume.
const (
	Sandbox = "/mnt/mesos/sandbox"
	Driver  = "/usr/local/nvidia"
)

// ContainerSpec contains the settings that differ between containers.
type ContainerSpec struct {
	Args, Env []string
	Dir       string
	User      syscall.Credential
	// Cgroup is the container's cgroup path in every hierarchy.
	Cgroup string
	// Nodes are created in the container's /dev. Rules decide which can be
	// opened.
	Nodes []rules.DeviceNode
	Rules []rules.DeviceRule
	// Binds are mounted after the default mounts.
	Binds []BindMount
	// ShmMiB is the size of /dev/shm. 0 selects the kernel's default, half of
	// the machine's memory.
	ShmMiB  uint32
	Rlimits []specs.POSIXRlimit
}

// BindMount mounts a host file or folder in the container.
type BindMount struct {
	Host, Path string
	ReadOnly   bool
}

// BuildSpec returns the runtime specification. The root file system is the
// bundle's folder rootfs. The specification requests no PID namespace: the
// container uses that of the process that starts runc, which is private to the
// container.
func BuildSpec(c ContainerSpec) *specs.Spec {
	return &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "rootfs"},
		Process: &specs.Process{
			Args: c.Args, Env: c.Env, Cwd: c.Dir,
			User:            specs.User{UID: c.User.Uid, GID: c.User.Gid, AdditionalGids: c.User.Groups},
			Capabilities:    defaultCapabilities(c.User.Uid),
			NoNewPrivileges: true,
			Rlimits:         c.Rlimits,
		},
		Mounts: append(defaultMounts(c.ShmMiB), bindMounts(c.Binds)...),
		Linux: &specs.Linux{
			CgroupsPath:   c.Cgroup,
			Namespaces:    []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.IPCNamespace}},
			Devices:       linuxDevices(c.Nodes),
			Resources:     &specs.LinuxResources{Devices: deviceRules(c.Rules)},
			MaskedPaths:   maskedPaths(),
			ReadonlyPaths: readOnly(),
		},
	}
}

// defaultCapabilities returns Docker's default capabilities. A user other than
// root would gain them only through a program with file capabilities, which
// no_new_privileges prevents.
func defaultCapabilities(uid uint32) *specs.LinuxCapabilities {
	all := []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
	if uid != 0 {
		return &specs.LinuxCapabilities{Bounding: all}
	}
	return &specs.LinuxCapabilities{Bounding: all, Effective: all, Permitted: all}
}

func linuxDevices(nodes []rules.DeviceNode) []specs.LinuxDevice {
	list := make([]specs.LinuxDevice, 0, len(nodes))
	for _, n := range nodes {
		mode := os.FileMode(0o666)
		list = append(list, specs.LinuxDevice{
			Path: "/dev/" + n.Name, Type: "c", Major: int64(n.Major), Minor: int64(n.Minor), FileMode: &mode,
			UID: new(uint32), GID: new(uint32),
		})
	}
	return list
}

// deviceRules denies all devices and then adds the given rules.
func deviceRules(list []rules.DeviceRule) []specs.LinuxDeviceCgroup {
	out := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	for _, r := range list {
		rule := specs.LinuxDeviceCgroup{Allow: true, Type: string(r.Kind), Access: r.Access}
		if r.Major != rules.AnyNumber {
			rule.Major = &r.Major
		}
		if r.Minor != rules.AnyNumber {
			rule.Minor = &r.Minor
		}
		out = append(out, rule)
	}
	return out
}
