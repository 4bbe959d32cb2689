package master

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/job"
)

// convertContainer converts a job's container. ports are the host ports of the
// task. It returns nil for a task that runs in the agent's file system without
// limits.
func convertContainer(s *job.Spec, ports []int) *mesos.ContainerInfo {
	if s.Containerizer == job.Docker {
		return convertDockerContainer(s, ports)
	}
	if s.Image == "" && len(s.Ulimits) == 0 {
		return nil
	}
	c := &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), Volumes: convertVolumes(s), RlimitInfo: convertUlimits(s.Ulimits)}
	if s.Image != "" {
		image := &mesos.Image{Type: mesos.Image_DOCKER.Enum(), Docker: &mesos.Image_Docker{Name: s.Image}}
		if s.ForcePull {
			image.Cached = new(bool)
		}
		c.Mesos = &mesos.ContainerInfo_MesosInfo{Image: image}
	}
	if s.ShmMiB > 0 {
		mebibytes := uint32(min(math.MaxUint32, math.Ceil(s.ShmMiB)))
		c.LinuxInfo = &mesos.LinuxInfo{IPCMode: mesos.LinuxInfo_PRIVATE.Enum(), SHMSize: &mebibytes}
	}
	return c
}

// executorContainer returns the container of a task's executor, nil for a plain
// one. The executor joins the task's CNI network, and the nested container of
// the task shares it, as in the pods of Mesos: so checks by HTTP and TCP reach
// the task, and the agent reports its addresses.
func executorContainer(s *job.Spec, ports []int) *mesos.ContainerInfo {
	name := s.CNINetwork()
	if name == "" {
		return nil
	}
	n := mesos.NetworkInfo{Name: &name, Labels: convertLabels(s.NetworkLabels)}
	for _, m := range portMappings(s.Ports, ports) {
		n.PortMappings = append(n.PortMappings, mesos.NetworkInfo_PortMapping(m))
	}
	return &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), NetworkInfos: []mesos.NetworkInfo{n}}
}

// sandboxInContainer is where the sandbox of a docker task is mounted, as by Mesos's own
// docker executor.
const sandboxInContainer = "/mnt/mesos/sandbox"

// convertDockerContainer converts the container of a task of the Docker engine. What Mesos has no field for becomes
// parameters, which are options of docker run; those of the job come last and have precedence.
func convertDockerContainer(s *job.Spec, ports []int) *mesos.ContainerInfo {
	d := &mesos.ContainerInfo_DockerInfo{Image: s.Image}
	c := &mesos.ContainerInfo{Type: mesos.ContainerInfo_DOCKER.Enum(), Docker: d, Volumes: convertVolumes(s)}
	if s.ForcePull {
		d.ForcePullImage = &s.ForcePull
	}
	switch s.Network {
	case "", job.HostNetwork:
		d.Network = mesos.ContainerInfo_DockerInfo_HOST.Enum()
	case job.BridgeNetwork:
		d.Network = mesos.ContainerInfo_DockerInfo_BRIDGE.Enum()
	case job.NoNetwork:
		d.Network = mesos.ContainerInfo_DockerInfo_NONE.Enum()
	default:
		name := string(s.Network)
		d.Network = mesos.ContainerInfo_DockerInfo_USER.Enum()
		c.NetworkInfos = []mesos.NetworkInfo{{Name: &name}}
	}
	if !s.Network.IsHost() {
		d.PortMappings = portMappings(s.Ports, ports)
	}
	parameter := func(key, value string) {
		d.Parameters = append(d.Parameters, mesos.Parameter{Key: key, Value: value})
	}
	if s.ShmMiB > 0 {
		parameter("shm-size", strconv.FormatInt(int64(s.ShmMiB*(1<<20)), 10))
	}
	if s.IPC != "" {
		parameter("ipc", string(s.IPC))
	}
	for _, u := range s.Ulimits {
		parameter("ulimit", fmt.Sprintf("%s=%d:%d", u.Name, u.Soft, u.Hard))
	}
	if s.Entrypoint != "" {
		parameter("entrypoint", s.Entrypoint)
	}
	if s.User != "" {
		parameter("user", s.User)
	}
	if s.Workdir != "" {
		parameter("workdir", sandboxInContainer) // an option of the job replaces it
	}
	for _, p := range s.Parameters {
		parameter(p.Key, p.Value)
	}
	return c
}

// convertLimits returns nil if the task has no limits above its resources.
func convertLimits(s *job.Spec) map[string]mesos.Value_Scalar {
	limits := map[string]mesos.Value_Scalar{}
	for name, limit := range map[string]float64{"cpus": s.Limits.CPUs, "mem": s.Limits.MemMiB} {
		switch limit {
		case 0:
		case job.Unlimited:
			limits[name] = mesos.Value_Scalar{Value: math.Inf(1)}
		default:
			limits[name] = mesos.Value_Scalar{Value: limit}
		}
	}
	if len(limits) == 0 {
		return nil
	}
	return limits
}

// executorURIs are the files that the agent fetches into the executor's
// sandbox, which its docker task shares. A nested container has its own
// sandbox, and the executor fetches files into that.
func executorURIs(s *job.Spec, files []job.FetchArtifact) []mesos.CommandInfo_URI {
	if s.Containerizer != job.Docker {
		return nil
	}
	return fetchURIs(files)
}

// portMappings publishes the container's ports. The scheduler may have added a
// port for a gang's peers, which has the same number in the container.
func portMappings(wanted []job.Port, ports []int) []mesos.ContainerInfo_DockerInfo_PortMapping {
	var list []mesos.ContainerInfo_DockerInfo_PortMapping
	for i, host := range ports {
		var p job.Port
		if i < len(wanted) {
			p = wanted[i]
		}
		m := mesos.ContainerInfo_DockerInfo_PortMapping{HostPort: uint32(host), ContainerPort: uint32(containerPort(p, host))}
		if p.Protocol != "" {
			protocol := string(p.Protocol)
			m.Protocol = &protocol
		}
		list = append(list, m)
	}
	return list
}

// containerPort returns a port's number in the container.
func containerPort(p job.Port, host int) int {
	if p.Container != 0 {
		return p.Container
	}
	return host
}

// convertVolumes converts host paths and named volumes.
func convertVolumes(s *job.Spec) []mesos.Volume {
	var list []mesos.Volume
	for _, v := range s.Volumes {
		volume := mesos.Volume{Mode: mesos.RW.Enum(), ContainerPath: v.Target}
		if v.ReadOnly {
			volume.Mode = mesos.RO.Enum()
		}
		if v.IsNamed() {
			named := &mesos.Volume_Source_DockerVolume{Name: v.Source}
			if v.Driver != "" {
				named.Driver = &v.Driver
			}
			volume.Source = &mesos.Volume_Source{Type: mesos.Volume_Source_DOCKER_VOLUME, DockerVolume: named}
		} else {
			volume.HostPath = &v.Source
		}
		list = append(list, volume)
	}
	return list
}

// convertUlimits sets both numbers of each limit, as Mesos requires. The
// kernel's infinity is a number.
func convertUlimits(ulimits []job.Ulimit) *mesos.RLimitInfo {
	if len(ulimits) == 0 {
		return nil
	}
	number := func(n int64) *uint64 {
		u := uint64(n) // -1 becomes RLIM_INFINITY
		return &u
	}
	info := &mesos.RLimitInfo{}
	for _, u := range ulimits {
		kind := mesos.RLimitInfo_RLimit_Type(mesos.RLimitInfo_RLimit_Type_value["RLMT_"+strings.ToUpper(u.Name)])
		info.Rlimits = append(info.Rlimits, mesos.RLimitInfo_RLimit{Type: kind, Soft: number(u.Soft), Hard: number(u.Hard)})
	}
	return info
}

// fetchURIs converts files that an agent or an executor fetches.
func fetchURIs(list []job.FetchArtifact) []mesos.CommandInfo_URI {
	uris := make([]mesos.CommandInfo_URI, 0, len(list))
	for _, a := range list {
		uri := mesos.CommandInfo_URI{Value: a.URI, Executable: &a.Executable, Extract: &a.Extract, Cache: &a.Cache}
		if a.Path != "" {
			uri.OutputFile = &a.Path
		}
		uris = append(uris, uri)
	}
	return uris
}
