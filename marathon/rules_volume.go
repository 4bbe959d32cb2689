package marathon

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// Sandbox is the path of a task's sandbox in its container.
const Sandbox = "/mnt/mesos/sandbox"

// TargetPath returns the volume's path in the container. A relative one is in the sandbox.
func (v Volume) TargetPath() string {
	if path.IsAbs(v.ContainerPath) {
		return path.Clean(v.ContainerPath)
	}
	return path.Join(Sandbox, v.ContainerPath)
}

// reservedPaths are paths that every container has, or that must not be replaced.
func reservedPaths() []string {
	return []string{"/", "/dev", "/proc", "/sys", Sandbox, "/usr/local/nvidia"}
}

// resourceName matches the names of volumes and networks.
var resourceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// checkJobContainer rejects what the container of a job does not support.
func (norm *appNormalizer) checkJobContainer(c *Container) {
	norm.checkCount("/container/volumes", len(c.Volumes), maxListItems)
	if c.Docker != nil {
		norm.checkCount("/container/docker/parameters", len(c.Docker.Parameters), maxListItems)
		if err := job.CheckImageName(c.Docker.Image); err != nil {
			norm.addError("/container/docker/image", "%s", err)
		}
	}
	norm.checkSharedMemory(c)
	if c.Type == MesosType && c.Docker == nil && slices.ContainsFunc(c.Volumes, func(v Volume) bool { return v.Secret == "" || path.IsAbs(v.ContainerPath) }) {
		norm.addError("/container/volumes", "not served: without container.docker.image a task sees its agent's own files, and gets secrets in its sandbox only")
	}
	targets, driver := map[string]bool{}, ""
	for i, v := range c.Volumes {
		place := elementPath("/container/volumes", i)
		norm.checkVolumeTarget(place, c.Type, v)
		if targets[v.TargetPath()] {
			norm.addError(place+"/containerPath", "two volumes are at %s", v.TargetPath())
		}
		targets[v.TargetPath()] = true
		if v.HostPath != "" && (!path.IsAbs(v.HostPath) || strings.ContainsAny(v.HostPath, ":\x00")) {
			norm.addError(place+"/hostPath", "not served: %q: it is an absolute path of the agent, without colons", v.HostPath)
		}
		if v.External == nil {
			continue
		}
		own := v.External.DriverName()
		if driver != "" && own != "" && own != driver {
			norm.addError(place+"/external/options", "drivers %s and %s: the docker engine supports one per container", driver, own)
		}
		driver = max(driver, own)
	}
}

func (norm *appNormalizer) checkVolumeTarget(place, container string, v Volume) {
	target := v.TargetPath()
	relative := !path.IsAbs(v.ContainerPath)
	switch {
	case strings.ContainsAny(target, ":\x00"):
		norm.addError(place+"/containerPath", "%q: a colon separates paths: use another name", v.ContainerPath)
	case slices.Contains(reservedPaths(), target), relative && !strings.HasPrefix(target, Sandbox+"/"):
		norm.addError(place+"/containerPath", "%q is a path that the container has already, or leaves the sandbox", v.ContainerPath)
	case v.Secret != "" && !job.IsSecretPath(path.Clean(v.ContainerPath)):
		norm.addError(place+"/containerPath", "%q is too long, or not a path", v.ContainerPath)
	case relative && container == MesosType && v.Secret == "":
		norm.addError(place+"/containerPath", "not served: %q is relative, which is for DOCKER containers: write /%s", v.ContainerPath, v.ContainerPath)
	}
}

func (norm *appNormalizer) checkSharedMemory(c *Container) {
	const place = "/container/linuxInfo/ipcInfo/shmSize"
	if c.LinuxInfo == nil || c.LinuxInfo.IPCInfo == nil || c.LinuxInfo.IPCInfo.ShmSizeMiB == nil {
		return
	}
	size := *c.LinuxInfo.IPCInfo.ShmSizeMiB
	switch {
	case float64(size) > norm.app.MemMiB:
		norm.addError(place, "%d MiB are more than the mem of %s, which they count as", size, formatNumber(norm.app.MemMiB))
	case c.Type == MesosType && c.Docker == nil:
		norm.addError(place, "not served: without container.docker.image a task has its agent's own shared memory")
	case c.Type == MesosType && size > maxMesosShm:
		norm.addError(place, "not served: Mesos counts the bytes in 32 bits, which is %d MiB at most: use DOCKER, or leave it out", maxMesosShm)
	}
}
