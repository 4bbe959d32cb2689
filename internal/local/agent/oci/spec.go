// Package oci writes down how a container with an image runs, for runc. It
// is pure: image configuration, command and devices in, an OCI runtime
// specification out. What a container may do is decided here, and is what
// Docker gives one by default: no more capabilities, no new privileges, the
// kernel's secrets masked.
package oci

import (
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"mesos-gpu/isolator/rules"
)

// Sandbox is where a container with an image sees its sandbox, and Driver
// where it sees the driver volume.
const (
	Sandbox = "/mnt/mesos/sandbox"
	Driver  = "/usr/local/nvidia"
)

// ContainerSpec is what differs between containers.
type ContainerSpec struct {
	Args, Env []string
	Dir       string
	UID, GID  uint32
	Groups    []uint32
	// Cgroup is the path of its cgroup in every hierarchy.
	Cgroup string
	// Nodes are made in its /dev; Rules say which can be opened.
	Nodes []rules.DeviceNode
	Rules []rules.DeviceRule
	// Binds are mounted over the usual mounts.
	Binds []BindMount
	// ShmMiB is the size of /dev/shm; 0 is the kernel's default, half of the
	// machine's memory.
	ShmMiB  uint32
	Rlimits []specs.POSIXRlimit
}

// BindMount makes a host's file or folder appear in the container.
type BindMount struct {
	Host, Path string
	ReadOnly   bool
}

// BuildSpec describes the container to runc. Its root file system is the folder
// rootfs of the bundle. There is no PID namespace among its own: it runs in
// that of the process that starts runc, which is made for it alone.
func BuildSpec(c ContainerSpec) *specs.Spec {
	return &specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: "rootfs"},
		Process: &specs.Process{
			Args: c.Args, Env: c.Env, Cwd: c.Dir,
			User:            specs.User{UID: c.UID, GID: c.GID, AdditionalGids: c.Groups},
			Capabilities:    defaultCapabilities(c.UID),
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

// defaultCapabilities are Docker's. Those of a user other than root take effect
// only through a program that carries them, which no_new_privileges forbids.
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

// deviceRules denies everything, then allows what the list does.
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
