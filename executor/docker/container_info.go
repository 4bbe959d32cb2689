package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/nat"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// rejectUnsupported returns an error for fields that are never supported.
func (s containerSpec) rejectUnsupported(_ task.TaskSpec, _ hostInfo, c *mesos.ContainerInfo) error {
	switch {
	case c.Docker.GetPrivileged():
		return errors.New("docker.privileged would open every GPU of the agent: remove it")
	case c.LinuxInfo != nil || c.RlimitInfo != nil || c.TTYInfo != nil:
		return errors.New("linux_info, rlimit_info and tty_info are for containers of type MESOS: use docker.parameters (ulimit, shm-size), or type MESOS")
	}
	return nil
}

// setHostUser makes the container run as a user of the machine, with the user's groups and no way to get other rights: no setuid
// program of the image or of a volume takes effect. It replaces the user and the groups of parameters.
func (s containerSpec) setHostUser(t task.TaskSpec, _ hostInfo, _ *mesos.ContainerInfo) error {
	u := t.HostUser
	if u == nil {
		return nil
	}
	s.config.User = fmt.Sprintf("%d:%d", u.UID, u.GID)
	s.host.SecurityOpt = append(s.host.SecurityOpt, "no-new-privileges")
	s.host.GroupAdd = nil
	for _, gid := range u.Groups {
		s.host.GroupAdd = append(s.host.GroupAdd, strconv.Itoa(gid))
	}
	return nil
}

// setOwnerHome sets HOME and the name of the user who owns the job, if a volume mounts the user's home at its path. The job's own
// values count. The login shell may not exist in the image.
func (s containerSpec) setOwnerHome(t task.TaskSpec, _ hostInfo, _ *mesos.ContainerInfo) error {
	if t.Account == nil || t.Account.Home == "" || !s.mountsAtItsPath(path.Clean(t.Account.Home)) {
		return nil
	}
	for _, name := range []string{"HOME", "USER", "LOGNAME"} {
		if slices.ContainsFunc(s.config.Env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) {
			continue
		}
		value := t.Account.Name
		if name == "HOME" {
			value = t.Account.Home
		}
		s.config.Env = append(s.config.Env, name+"="+value)
	}
	return nil
}

// mountsAtItsPath reports whether a path of the agent is the same file in the container. The innermost volume decides.
func (s containerSpec) mountsAtItsPath(name string) bool {
	inner, is := -1, false
	for _, bind := range s.host.Binds {
		source, rest, _ := strings.Cut(bind, ":")
		target, _, _ := strings.Cut(rest, ":")
		if target = path.Clean(target); isWithin(name, target) && len(target) > inner {
			inner, is = len(target), path.IsAbs(source) && path.Join(source, strings.TrimPrefix(name, target)) == name
		}
	}
	return is
}

// giveSandbox makes a user of the machine the owner of the sandbox and of the files in it, before the task starts.
func giveSandbox(sandbox string, u *job.HostUser) error {
	return filepath.WalkDir(sandbox, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("give the sandbox to user %d: %w", u.UID, err)
		}
		return os.Lchown(name, u.UID, u.GID)
	})
}

// addVolumes mounts the volumes of the ContainerInfo. The sandbox is mounted
// already.
func (s containerSpec) addVolumes(_ task.TaskSpec, f hostInfo, c *mesos.ContainerInfo) error {
	s.host.VolumeDriver = c.Docker.GetVolumeDriver()
	for _, v := range c.Volumes {
		if err := s.addVolume(f, v); err != nil {
			return fmt.Errorf("volume at %s: %w", v.ContainerPath, err)
		}
	}
	return nil
}

// addVolume mounts one volume. A relative host path and a relative container
// path are both inside the sandbox, so at most one of the two may be relative.
func (s containerSpec) addVolume(f hostInfo, v mesos.Volume) error {
	source, err := s.volumeSource(v)
	if err != nil {
		return err
	}
	target := v.ContainerPath
	relative := !path.IsAbs(target)
	if relative {
		target = path.Join(sandboxInside, target)
	}
	if strings.Contains(source+target, ":") {
		return errors.New("a path has a colon, which separates paths in the engine's API: rename it")
	}
	if source == "" {
		s.host.Mounts = append(s.host.Mounts, mount.Mount{Type: mount.TypeVolume, Target: target, ReadOnly: v.GetMode() == mesos.RO})
		return nil
	}
	named := v.Source != nil && v.Source.Type == mesos.Volume_Source_DOCKER_VOLUME
	if !named && !path.IsAbs(source) {
		if relative {
			return fmt.Errorf("the container's and the host's path (%s) are both relative: make one absolute", source)
		}
		if !filepath.IsLocal(source) {
			return fmt.Errorf("host path %s leaves the sandbox: use an absolute path", source)
		}
		source = path.Join(f.sandbox, source)
	}
	mode := "rw"
	if v.GetMode() == mesos.RO {
		mode = "ro"
	}
	return s.addBind(source, target+":"+mode)
}

// addBind mounts source, which is a path on the host or the name of a volume.
func (s containerSpec) addBind(source, rest string) error {
	if path.IsAbs(source) && !s.hostIPC {
		if err := rejectSharedMemory(source); err != nil {
			return err
		}
	}
	s.host.Binds = append(s.host.Binds, source+":"+rest)
	return nil
}

// rejectSharedMemory rejects the folders of the agent's shared memory and
// message queues, everything in them, and the folders that contain them: a
// bind mount includes the mounts below its source. Tasks with such a mount
// would share memory as with ipc=host.
func rejectSharedMemory(source string) error {
	real, err := resolveLinks(path.Clean(source))
	if err != nil {
		return fmt.Errorf("resolve host path %s: %w", source, err)
	}
	for _, shared := range []string{"/dev/shm", "/dev/mqueue"} {
		if isWithin(real, shared) || isWithin(shared, real) {
			return fmt.Errorf("host path %s leads to %s, which the agent's processes share: mount less, or %s", source, shared, hostIPCAdvice)
		}
	}
	return nil
}

// resolveLinks follows links as the engine does. The engine creates missing
// folders, so a path need not exist.
func resolveLinks(source string) (string, error) {
	real, err := filepath.EvalSymlinks(source)
	if errors.Is(err, fs.ErrNotExist) && source != "/" {
		parent, err := resolveLinks(path.Dir(source))
		return path.Join(parent, path.Base(source)), err
	}
	return real, err
}

func isWithin(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// volumeSource returns a path on the host or the name of a volume. It is empty
// for a volume without a name.
func (s containerSpec) volumeSource(v mesos.Volume) (string, error) {
	if v.Image != nil {
		return "", errors.New("a volume from an image is for containers of type MESOS")
	}
	if v.Source == nil {
		return v.GetHostPath(), nil
	}
	switch v.Source.Type {
	case mesos.Volume_Source_DOCKER_VOLUME:
		return s.namedVolume(v.Source.DockerVolume)
	case mesos.Volume_Source_HOST_PATH:
		if v.Source.HostPath == nil || v.Source.HostPath.MountPropagation != nil {
			return "", errors.New("source HOST_PATH has no path, or a mount propagation, which is not supported")
		}
		return v.Source.HostPath.Path, nil
	case mesos.Volume_Source_SANDBOX_PATH:
		if p := v.Source.SandboxPath; p != nil && p.Type == mesos.Volume_Source_SandboxPath_SELF && filepath.IsLocal(p.Path) {
			return p.Path, nil
		}
	}
	return "", fmt.Errorf("source %s is not supported: use host_path, DOCKER_VOLUME, or SANDBOX_PATH of SELF", v.Source.Type)
}

func (s containerSpec) namedVolume(d *mesos.Volume_Source_DockerVolume) (string, error) {
	switch {
	case d == nil || d.Name == "" || strings.Contains(d.Name, "/"):
		return "", errors.New("source DOCKER_VOLUME has no name, or one with a slash")
	case d.DriverOptions != nil:
		return "", errors.New("driver options are not supported: create the volume by docker volume create first")
	case d.Driver == nil:
	case s.host.VolumeDriver != "" && s.host.VolumeDriver != *d.Driver:
		return "", fmt.Errorf("volume driver %s, and another volume has %s: the engine supports one driver for a container", *d.Driver, s.host.VolumeDriver)
	default:
		s.host.VolumeDriver = *d.Driver
	}
	return d.Name, nil
}

// findNewVolumes returns the named volumes in a container's mounts that the
// engine does not have. It creates them, empty, with the container.
func findNewVolumes(ctx context.Context, engine *client.Client, binds []string) (names []string) {
	for _, bind := range binds {
		name, _, _ := strings.Cut(bind, ":")
		if path.IsAbs(name) {
			continue
		}
		if _, err := engine.VolumeInspect(ctx, name); errdefs.IsNotFound(err) {
			names = append(names, name)
		}
	}
	return names
}

// chooseNetwork sets the network. A docker parameter may replace it.
func (s containerSpec) chooseNetwork(_ task.TaskSpec, _ hostInfo, c *mesos.ContainerInfo) error {
	switch n := c.Docker.GetNetwork(); n {
	case mesos.ContainerInfo_DockerInfo_HOST:
	case mesos.ContainerInfo_DockerInfo_BRIDGE:
		s.host.NetworkMode = network.NetworkBridge
	case mesos.ContainerInfo_DockerInfo_NONE:
		s.host.NetworkMode = network.NetworkNone
	case mesos.ContainerInfo_DockerInfo_USER:
		if len(c.NetworkInfos) != 1 || c.NetworkInfos[0].GetName() == "" {
			return fmt.Errorf("docker.network USER with %d network_infos: name the network in exactly one", len(c.NetworkInfos))
		}
		if err := s.setNetwork(c.NetworkInfos[0].GetName()); err != nil {
			return fmt.Errorf("network_infos has %s: %w", c.NetworkInfos[0].GetName(), err)
		}
	default:
		return fmt.Errorf("docker.network %s is unknown: use HOST, BRIDGE, NONE or USER", n)
	}
	s.config.Hostname = c.GetHostname()
	return nil
}

// publishPorts publishes the port mappings. Each host port must be in the
// task's ports resources.
func (s containerSpec) publishPorts(t task.TaskSpec, _ hostInfo, c *mesos.ContainerInfo) error {
	if s.config.Hostname != "" && s.host.NetworkMode.IsHost() {
		return errors.New("hostname is set, and the network is the host's: remove one")
	}
	if len(c.Docker.PortMappings) == 0 {
		return nil
	}
	if s.host.NetworkMode.IsHost() || s.host.NetworkMode.IsNone() {
		return fmt.Errorf("docker.port_mappings need a network BRIDGE or USER, this is %s", s.host.NetworkMode)
	}
	s.config.ExposedPorts, s.host.PortBindings = nat.PortSet{}, nat.PortMap{}
	for _, m := range c.Docker.PortMappings {
		if !coversPort(t.Ports, m.HostPort) {
			return fmt.Errorf("host port %d is not among the task's ports resources: take it from the offer", m.HostPort)
		}
		protocol := strings.ToLower(m.GetProtocol())
		if protocol == "" {
			protocol = "tcp"
		}
		port, err := nat.NewPort(protocol, strconv.Itoa(int(m.ContainerPort)))
		if err != nil {
			return fmt.Errorf("container port %d/%s: %w", m.ContainerPort, protocol, err)
		}
		s.config.ExposedPorts[port] = struct{}{}
		s.host.PortBindings[port] = append(s.host.PortBindings[port], nat.PortBinding{HostPort: strconv.Itoa(int(m.HostPort))})
	}
	return nil
}

func coversPort(ranges []mesos.Value_Range, port uint32) bool {
	for _, r := range ranges {
		if uint64(port) >= r.Begin && uint64(port) <= r.End {
			return true
		}
	}
	return false
}
