package container

import (
	"testing"

	"mesos-gpu/internal/testneeds"
)

// A cgroup that goes while its container starts, as that of a session whose
// task ends, is an error and nothing to wait for.
func TestCgroupGoneDuringLaunch(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	s := r.spec("true")
	s.Isolate = func(cgroup string) error { return r.engine.cgroups.clearCgroup(cgroup) }
	if _, err := r.engine.Launch(t.Context(), s); err == nil {
		t.Error("a container without its cgroup was launched")
	}
}
