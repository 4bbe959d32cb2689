package agent

import (
	"errors"
	"fmt"
	"math"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

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

// rlimitNumbers maps Mesos's rlimit types to the kernel's numbers.
func rlimitNumbers() map[mesos.RLimitInfo_RLimit_Type]int {
	return map[mesos.RLimitInfo_RLimit_Type]int{
		mesos.RLimitInfo_RLimit_RLMT_AS: unix.RLIMIT_AS, mesos.RLimitInfo_RLimit_RLMT_CORE: unix.RLIMIT_CORE, mesos.RLimitInfo_RLimit_RLMT_CPU: unix.RLIMIT_CPU, mesos.RLimitInfo_RLimit_RLMT_DATA: unix.RLIMIT_DATA,
		mesos.RLimitInfo_RLimit_RLMT_FSIZE: unix.RLIMIT_FSIZE, mesos.RLimitInfo_RLimit_RLMT_LOCKS: unix.RLIMIT_LOCKS, mesos.RLimitInfo_RLimit_RLMT_MEMLOCK: unix.RLIMIT_MEMLOCK,
		mesos.RLimitInfo_RLimit_RLMT_MSGQUEUE: unix.RLIMIT_MSGQUEUE, mesos.RLimitInfo_RLimit_RLMT_NICE: unix.RLIMIT_NICE, mesos.RLimitInfo_RLimit_RLMT_NOFILE: unix.RLIMIT_NOFILE,
		mesos.RLimitInfo_RLimit_RLMT_NPROC: unix.RLIMIT_NPROC, mesos.RLimitInfo_RLimit_RLMT_RSS: unix.RLIMIT_RSS, mesos.RLimitInfo_RLimit_RLMT_RTPRIO: unix.RLIMIT_RTPRIO,
		mesos.RLimitInfo_RLimit_RLMT_RTTIME: unix.RLIMIT_RTTIME, mesos.RLimitInfo_RLimit_RLMT_SIGPENDING: unix.RLIMIT_SIGPENDING, mesos.RLimitInfo_RLimit_RLMT_STACK: unix.RLIMIT_STACK,
	}
}

// rlimitsOf converts rlimits. Each must have both values or, for unlimited,
// none.
func rlimitsOf(info *mesos.RLimitInfo) ([]container.Rlimit, error) {
	var list []container.Rlimit
	for _, r := range info.GetRlimits() {
		number, ok := rlimitNumbers()[r.Type]
		if !ok || (r.Soft == nil) != (r.Hard == nil) {
			return nil, fmt.Errorf("limit %s is unknown, or has one number of two", r.Type)
		}
		limit := container.Rlimit{Name: "RLIMIT_" + strings.TrimPrefix(r.Type.String(), "RLMT_"), Resource: number, Soft: math.MaxUint64, Hard: math.MaxUint64}
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

func ociLimits(list []container.Rlimit) []specs.POSIXRlimit {
	var limits []specs.POSIXRlimit
	for _, r := range list {
		limits = append(limits, specs.POSIXRlimit{Type: r.Name, Soft: r.Soft, Hard: r.Hard})
	}
	return limits
}
