package container

import (
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// A cgroup that is removed while its container starts, for example because the
// task of a session has ended, fails the launch immediately.
func TestCgroupGoneDuringLaunch(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	s := r.spec("true")
	s.Isolate = func(cgroup string) error { return r.engine.cgroups.clearCgroup(cgroup) }
	if _, err := r.engine.Launch(t.Context(), s); err == nil {
		t.Error("a container without its cgroup was launched")
	}
}
