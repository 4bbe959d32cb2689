package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// newContainerSpec is all that the engine is told of a container.
type containerSpec struct {
	config  *container.Config
	host    *container.HostConfig
	network *network.NetworkingConfig
	hostIPC bool // whether it may be asked for
}

// newContainerSpec describes the container of a task. What a ContainerInfo asks
// for beyond an image is served as Mesos's own docker executor does, or
// refused: docs/executor.md has the table.
func newContainerSpec(t task.TaskSpec, f hostInfo) (containerSpec, error) {
	s := containerSpec{newContainerConfig(t, f), newHostConfig(t, f), &network.NetworkingConfig{}, f.hostIPC}
	c := t.MesosContainer
	if c == nil || c.GetType() != mesos.ContainerInfo_DOCKER {
		return s, nil
	}
	for _, step := range []func(task.TaskSpec, hostInfo, *mesos.ContainerInfo) error{s.rejectUnsupported, s.addVolumes, s.chooseNetwork, s.applyParameters, s.publishPorts} {
		if err := step(t, f, c); err != nil {
			return containerSpec{}, fmt.Errorf("docker task: %w", err)
		}
	}
	return s, nil
}

// rejectUnsupported names what is never served.
func (s containerSpec) rejectUnsupported(_ task.TaskSpec, _ hostInfo, c *mesos.ContainerInfo) error {
	switch {
	case c.Docker.GetPrivileged():
		return errors.New("docker.privileged would open every GPU of the agent: leave it out")
	case c.LinuxInfo != nil || c.RlimitInfo != nil || c.TTYInfo != nil:
		return errors.New("linux_info, rlimit_info and tty_info are for containers of type MESOS: use docker.parameters (ulimit, shm-size), or type MESOS")
	}
	return nil
}

// addVolumes mounts what is asked for beside the sandbox.
func (s containerSpec) addVolumes(_ task.TaskSpec, f hostInfo, c *mesos.ContainerInfo) error {
	s.host.VolumeDriver = c.Docker.GetVolumeDriver()
	for _, v := range c.Volumes {
		if err := s.addVolume(f, v); err != nil {
			return fmt.Errorf("volume at %s: %w", v.ContainerPath, err)
		}
	}
	return nil
}

// addVolume mounts one. A relative path on the host is in the sandbox, as is a
// relative one in the container; both at once name the same file twice.
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
		return errors.New("a path holds a colon, which separates paths for the engine: rename it")
	}
	if source == "" {
		s.host.Mounts = append(s.host.Mounts, mount.Mount{Type: mount.TypeVolume, Target: target, ReadOnly: v.GetMode() == mesos.RO})
		return nil
	}
	named := v.Source != nil && v.Source.Type == mesos.Volume_Source_DOCKER_VOLUME
	if !named && !path.IsAbs(source) {
		if relative {
			return fmt.Errorf("both paths are relative, the host's %s, too: make one absolute", source)
		}
		if !filepath.IsLocal(source) {
			return fmt.Errorf("host path %s leaves the sandbox: name it absolutely", source)
		}
		source = path.Join(f.sandbox, source)
	}
	mode := "rw"
	if v.GetMode() == mesos.RO {
		mode = "ro"
	}
	return s.addBind(source, target+":"+mode)
}

// addBind mounts what is at source, a path on the host or a volume's name.
func (s containerSpec) addBind(source, rest string) error {
	if path.IsAbs(source) && !s.hostIPC {
		if err := rejectSharedMemory(source); err != nil {
			return err
		}
	}
	s.host.Binds = append(s.host.Binds, source+":"+rest)
	return nil
}

// rejectSharedMemory refuses the folders of the agent's shared memory and message
// queues, what lies in them and what they lie in: tasks that mount them share
// memory as by ipc=host. A bind takes along what is mounted below its source.
func rejectSharedMemory(source string) error {
	real, err := resolveLinks(path.Clean(source))
	if err != nil {
		return fmt.Errorf("learn where host path %s leads: %w", source, err)
	}
	for _, shared := range []string{"/dev/shm", "/dev/mqueue"} {
		if isWithin(real, shared) || isWithin(shared, real) {
			return fmt.Errorf("host path %s leads to %s, which the agent's processes share: mount less, or %s", source, shared, hostIPCAdvice)
		}
	}
	return nil
}

// resolveLinks follows links as the engine will, which makes what is not there.
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

// volumeSource is a path on the host or the name of a volume, empty for a volume
// without a name.
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
			return "", errors.New("source HOST_PATH has no path, or a mount propagation: leave the latter out")
		}
		return v.Source.HostPath.Path, nil
	case mesos.Volume_Source_SANDBOX_PATH:
		if p := v.Source.SandboxPath; p != nil && p.Type == mesos.Volume_Source_SandboxPath_SELF && filepath.IsLocal(p.Path) {
			return p.Path, nil
		}
	}
	return "", fmt.Errorf("source %s is not served: use host_path, DOCKER_VOLUME, or SANDBOX_PATH of SELF", v.Source.Type)
}

func (s containerSpec) namedVolume(d *mesos.Volume_Source_DockerVolume) (string, error) {
	switch {
	case d == nil || d.Name == "" || strings.Contains(d.Name, "/"):
		return "", errors.New("source DOCKER_VOLUME has no name, or one with a slash")
	case d.DriverOptions != nil:
		return "", errors.New("driver options are not served: make the volume by docker volume create first")
	case d.Driver == nil:
	case s.host.VolumeDriver != "" && s.host.VolumeDriver != *d.Driver:
		return "", fmt.Errorf("volume driver %s, and another one has %s: the engine takes one for a container", *d.Driver, s.host.VolumeDriver)
	default:
		s.host.VolumeDriver = *d.Driver
	}
	return d.Name, nil
}

// chooseNetwork chooses the network; a parameter may choose another.
func (s containerSpec) chooseNetwork(_ task.TaskSpec, _ hostInfo, c *mesos.ContainerInfo) error {
	switch n := c.Docker.GetNetwork(); n {
	case mesos.ContainerInfo_DockerInfo_HOST:
	case mesos.ContainerInfo_DockerInfo_BRIDGE:
		s.host.NetworkMode = network.NetworkBridge
	case mesos.ContainerInfo_DockerInfo_NONE:
		s.host.NetworkMode = network.NetworkNone
	case mesos.ContainerInfo_DockerInfo_USER:
		if len(c.NetworkInfos) != 1 || c.NetworkInfos[0].GetName() == "" {
			return fmt.Errorf("docker.network USER comes with %d network_infos: name the network in one", len(c.NetworkInfos))
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

// publishPorts publishes those of the container's ports that the task's resources
// cover on the host.
func (s containerSpec) publishPorts(t task.TaskSpec, _ hostInfo, c *mesos.ContainerInfo) error {
	if s.config.Hostname != "" && s.host.NetworkMode.IsHost() {
		return errors.New("hostname is set, and the network is the host's: leave one out")
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
