package container

import (
	"fmt"
	"syscall"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// RlimitNumbers returns the kernel's numbers of the resource limits.
func RlimitNumbers() map[string]int {
	return map[string]int{
		"RLIMIT_AS": unix.RLIMIT_AS, "RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_CPU": unix.RLIMIT_CPU, "RLIMIT_DATA": unix.RLIMIT_DATA,
		"RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_LOCKS": unix.RLIMIT_LOCKS, "RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK,
		"RLIMIT_MSGQUEUE": unix.RLIMIT_MSGQUEUE, "RLIMIT_NICE": unix.RLIMIT_NICE, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE,
		"RLIMIT_NPROC": unix.RLIMIT_NPROC, "RLIMIT_RSS": unix.RLIMIT_RSS, "RLIMIT_RTPRIO": unix.RLIMIT_RTPRIO,
		"RLIMIT_RTTIME": unix.RLIMIT_RTTIME, "RLIMIT_SIGPENDING": unix.RLIMIT_SIGPENDING, "RLIMIT_STACK": unix.RLIMIT_STACK,
	}
}

// setRlimits sets the limits of this process, which a child inherits. restore
// resets them where that is permitted: raising a hard limit requires
// CAP_SYS_RESOURCE. This process has no other child and stays below the limits.
func setRlimits(rlimits []specs.POSIXRlimit) (restore func(), err error) {
	before := map[int]syscall.Rlimit{}
	restore = func() {
		for resource, limit := range before {
			_ = syscall.Setrlimit(resource, &limit)
		}
	}
	for _, r := range rlimits {
		var old syscall.Rlimit
		resource := RlimitNumbers()[r.Type]
		if err = syscall.Getrlimit(resource, &old); err == nil {
			err = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: r.Soft, Max: r.Hard})
		}
		if err != nil {
			restore()
			return nil, fmt.Errorf("set %s to %d:%d: %w", r.Type, r.Soft, r.Hard, err)
		}
		if _, again := before[resource]; !again {
			before[resource] = old
		}
	}
	return restore, nil
}
