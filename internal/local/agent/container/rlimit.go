package container

import (
	"fmt"
	"syscall"
)

// setRlimits sets the limits of this process, which a child inherits. restore
// resets them where that is permitted: raising a hard limit requires
// CAP_SYS_RESOURCE. This process has no other child and stays below the limits.
func setRlimits(rlimits []Rlimit) (restore func(), err error) {
	type was struct {
		resource int
		limit    syscall.Rlimit
	}
	var before []was
	restore = func() {
		for _, b := range before {
			_ = syscall.Setrlimit(b.resource, &b.limit)
		}
	}
	for _, r := range rlimits {
		old := was{resource: r.Resource}
		if err = syscall.Getrlimit(r.Resource, &old.limit); err == nil {
			err = syscall.Setrlimit(r.Resource, &syscall.Rlimit{Cur: r.Soft, Max: r.Hard})
		}
		if err != nil {
			restore()
			return nil, fmt.Errorf("set %s to %d:%d: %w", r.Name, r.Soft, r.Hard, err)
		}
		before = append(before, old)
	}
	return restore, nil
}
