package agent

import (
	"errors"
	"fmt"
	"math"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"mesos-gpu/internal/local/agent/container"
)

// checkContainer returns the container's image, or "" for none. It rejects
// settings that this agent does not support.
func (a *EmbeddedAgent) checkContainer(info *mesos.ContainerInfo) (image string, err error) {
	if info == nil {
		return "", nil
	}
	img := info.GetMesos().GetImage()
	switch {
	case info.GetType() != mesos.ContainerInfo_MESOS:
		return "", errors.New("nested containers are of type MESOS; Docker containers are an executor's to run")
	case len(info.NetworkInfos) > 0 || info.Hostname != nil:
		return "", errors.New("this agent's containers have the host's network and name")
	case info.TTYInfo != nil:
		return "", errors.New("tty_info is not supported by this agent")
	case info.RlimitInfo != nil && !a.cfg.Root:
		return "", errors.New("rlimit_info needs an agent that runs as root and isolates")
	case img == nil && len(info.Volumes) > 0:
		return "", errors.New("volumes need an image on this agent")
	}
	if err := ownMemory(info.LinuxInfo, img != nil); err != nil || img == nil {
		return "", err
	}
	if img.GetType() != mesos.Image_DOCKER {
		return "", fmt.Errorf("images of type %v are not supported, only DOCKER", img.GetType())
	}
	return img.GetDocker().GetName(), nil
}

// ownMemory checks linux_info. A container with an image always has its own
// System V IPC namespace and its own /dev/shm, whose size it may set.
func ownMemory(l *mesos.LinuxInfo, image bool) error {
	switch {
	case l == nil:
		return nil
	case l.CapabilityInfo != nil || l.BoundingCapabilities != nil || l.EffectiveCapabilities != nil || l.Seccomp != nil || l.GetSharePIDNamespace():
		return errors.New("capabilities, seccomp and a shared PID namespace (linux_info) are not supported by this agent")
	case l.GetIPCMode() == mesos.LinuxInfo_SHARE_PARENT && image:
		return errors.New("a container with an image has its own shared memory on this agent: ipc_mode PRIVATE")
	case (l.GetIPCMode() == mesos.LinuxInfo_PRIVATE || l.SHMSize != nil) && !image:
		return errors.New("shared memory of its own (ipc_mode PRIVATE, shm_size) needs an image on this agent")
	}
	return nil
}

// rlimitsOf converts rlimits. Each must have both values or, for unlimited,
// none.
func rlimitsOf(info *mesos.RLimitInfo) ([]specs.POSIXRlimit, error) {
	var list []specs.POSIXRlimit
	for _, r := range info.GetRlimits() {
		limit := specs.POSIXRlimit{Type: "RLIMIT_" + strings.TrimPrefix(r.Type.String(), "RLMT_"), Soft: math.MaxUint64, Hard: math.MaxUint64}
		if _, ok := container.RlimitNumbers()[limit.Type]; !ok || (r.Soft == nil) != (r.Hard == nil) {
			return nil, fmt.Errorf("limit %s is unknown, or has one number of two", r.Type)
		}
		if r.Soft != nil {
			limit.Soft, limit.Hard = *r.Soft, *r.Hard
		}
		if limit.Soft > limit.Hard {
			return nil, fmt.Errorf("limit %s is %d, above its hard limit %d", r.Type, limit.Soft, limit.Hard)
		}
		list = append(list, limit)
	}
	return list, nil
}
