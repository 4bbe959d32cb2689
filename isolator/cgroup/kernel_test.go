package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/opener"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/rules"
)

func TestMain(m *testing.M) {
	opener.RunIfChild()
	os.Exit(m.Run())
}

// testedHierarchy is the common interface of both versions.
type testedHierarchy interface {
	CreateCgroup(path string) error
	ConfineCgroup(path string, list []rules.DeviceRule) error
	ReadRules(path string) ([]rules.DeviceRule, error)
	ProcessCgroup(procCgroup string) (string, error)
	AddProcess(path string, pid int) error
	DetachRules(path string) error
	IsOwned(path string) bool
	RemoveCgroup(path string) error
}

// requireV2Root skips the test without a mounted cgroup v2.
func requireV2Root(t testing.TB) string {
	t.Helper()
	testneeds.RequireRoot(t)
	root, err := FindV2MountPoint("/proc/self/mountinfo")
	if err != nil {
		t.Skipf("needs cgroup v2: mount -t cgroup2 none /sys/fs/cgroup/unified: %v", err)
	}
	return root
}

// onBothVersions runs a test on the real hierarchies of both versions, each with a new
// cgroup that is removed afterwards. Processes in it must end first, so start them after
// this call.
func onBothVersions(t *testing.T, test func(t *testing.T, c testedHierarchy, path string)) {
	for name, hierarchy := range map[string]func(t *testing.T) testedHierarchy{
		"v1": func(t *testing.T) testedHierarchy { return V1{Root: testneeds.RequireDevicesCgroup(t)} },
		"v2": func(t *testing.T) testedHierarchy { return V2{Root: requireV2Root(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			c := hierarchy(t)
			test(t, c, newCgroup(t, c))
		})
	}
}

func newCgroup(t *testing.T, c testedHierarchy) string {
	t.Helper()
	path := fmt.Sprintf("mesos-gpu-test-%d/%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	t.Cleanup(func() {
		if err := c.RemoveCgroup(filepath.Dir(path)); err != nil {
			t.Error(err)
		}
	})
	if err := c.CreateCgroup(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func grantedRules(t *testing.T, uuids ...string) []rules.DeviceRule {
	t.Helper()
	h := gpu.Host{Devices: []gpu.Device{{UUID: "GPU-0", Minor: 0}, {UUID: "GPU-1", Minor: 1}}}
	list, err := rules.RulesForGPUs(h, rules.MajorNumbers{UVM: 510}, uuids)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func confine(t *testing.T, c testedHierarchy, path string, list []rules.DeviceRule) {
	t.Helper()
	if err := c.ConfineCgroup(path, list); err != nil {
		t.Fatal(err)
	}
}

func addOpener(t *testing.T, c testedHierarchy, path string, o *opener.NodeOpener) {
	t.Helper()
	if err := c.AddProcess(path, o.PID); err != nil {
		t.Fatal(err)
	}
}

func wantOpen(t *testing.T, o *opener.NodeOpener, path string, want unix.Errno) {
	t.Helper()
	if got := o.OpenPath(t, path); got != want {
		t.Errorf("open %s: got %q, want %q", filepath.Base(path), got.Error(), want.Error())
	}
}

func TestRootConfinedProcess(t *testing.T) {
	onBothVersions(t, func(t *testing.T, c testedHierarchy, path string) {
		node0, node1 := opener.MakeNode(t, "nvidia0", 'c', 195, 0), opener.MakeNode(t, "nvidia1", 'c', 195, 1)
		o := opener.Start(t)
		wantOpen(t, o, node1, unix.ENXIO)

		confine(t, c, path, grantedRules(t, "GPU-0"))
		addOpener(t, c, path, o)
		wantOpen(t, o, node0, unix.ENXIO)
		wantOpen(t, o, node1, unix.EPERM)
		wantOpen(t, o, "/dev/null", 0)

		confine(t, c, path, grantedRules(t, "GPU-1"))
		wantOpen(t, o, node0, unix.EPERM)
		wantOpen(t, o, node1, unix.ENXIO)

		confine(t, c, path, grantedRules(t))
		wantOpen(t, o, node0, unix.EPERM)
		wantOpen(t, o, node1, unix.EPERM)
		wantOpen(t, o, "/dev/null", 0)
	})
}

func TestRootReadRulesReturnsWrittenRules(t *testing.T) {
	onBothVersions(t, func(t *testing.T, c testedHierarchy, path string) {
		now, err := c.ReadRules(path)
		if err != nil {
			t.Fatal(err)
		}
		if !rules.IsUnconfined(now) {
			t.Errorf("a fresh cgroup allows %v, want everything", now)
		}
		want := grantedRules(t, "GPU-1")
		confine(t, c, path, want)
		if now, err = c.ReadRules(path); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(rules.MergeRules(want), rules.MergeRules(now)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, err := c.ReadRules(path + "/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read a cgroup that is not there: %v", err)
		}
		if err := c.ConfineCgroup(path+"/none", want); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("confine a cgroup that is not there: %v", err)
		}
	})
}

// While a container grows and shrinks, devices that it keeps stay open to it.
func TestRootRuleChangesKeepCommonRules(t *testing.T) {
	onBothVersions(t, func(t *testing.T, c testedHierarchy, path string) {
		node0 := opener.MakeNode(t, "nvidia0", 'c', 195, 0)
		o := opener.Start(t)
		one, two := grantedRules(t, "GPU-0"), grantedRules(t, "GPU-1", "GPU-0")
		confine(t, c, path, one)
		addOpener(t, c, path, o)
		var tries atomic.Int64
		done := make(chan error, 1)
		go func() {
			var err error
			for n := 0; err == nil && (n < 100 || tries.Load() < 10); n++ { // the opener may get little CPU time
				err = errors.Join(c.ConfineCgroup(path, two), c.ConfineCgroup(path, one))
			}
			done <- err
		}()
		for {
			wantOpen(t, o, node0, unix.ENXIO)
			tries.Add(1)
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
				return
			default:
			}
		}
	})
}

func TestRootNestedCgroups(t *testing.T) {
	onBothVersions(t, func(t *testing.T, c testedHierarchy, path string) {
		node0, node1 := opener.MakeNode(t, "nvidia0", 'c', 195, 0), opener.MakeNode(t, "nvidia1", 'c', 195, 1)
		o := opener.Start(t)
		confine(t, c, path, grantedRules(t, "GPU-0"))
		nested := path + "/nested"
		if err := c.CreateCgroup(nested); err != nil {
			t.Fatal(err)
		}
		addOpener(t, c, nested, o)
		wantOpen(t, o, node0, unix.ENXIO)
		wantOpen(t, o, node1, unix.EPERM)
		inherited, err := c.ReadRules(nested)
		if minors, all := rules.GPUMinors(inherited); err != nil || all || len(minors) != 1 || minors[0] != 0 {
			t.Errorf("a nested cgroup is said to reach %v (all %v, %v), want its parent's GPU 0", minors, all, err)
		}

		err = c.ConfineCgroup(nested, grantedRules(t, "GPU-1"))
		if err == nil || !strings.Contains(err.Error(), "c 195:1 rw") {
			t.Errorf("a nested cgroup got more than its parent: %v", err)
		}
		wantOpen(t, o, node1, unix.EPERM)

		// The parent of an existing cgroup can still be restricted.
		confine(t, c, nested, grantedRules(t, "GPU-0"))
		wantOpen(t, o, node0, unix.ENXIO)
		confine(t, c, path, grantedRules(t))
		wantOpen(t, o, node0, unix.EPERM)
		now, err := c.ReadRules(nested)
		if minors, all := rules.GPUMinors(now); err != nil || all || len(minors) != 0 {
			t.Errorf("a nested cgroup whose parent lost its GPU is said to reach %v (all %v, %v)", minors, all, err)
		}
	})
}

func TestRootProcessesAndRemoval(t *testing.T) {
	onBothVersions(t, func(t *testing.T, c testedHierarchy, path string) {
		if !c.IsOwned(path) {
			t.Error("the cgroup is not marked as made here")
		}
		for _, strange := range []string{"", path + "/none"} {
			if c.IsOwned(strange) {
				t.Errorf("cgroup %q is marked as made here", strange)
			}
		}
		o := opener.Start(t)
		addOpener(t, c, path, o)
		at, err := c.ProcessCgroup(fmt.Sprintf("/proc/%d/cgroup", o.PID))
		if err != nil || at != "/"+path {
			t.Errorf("the process is in %q, %v; want /%s", at, err, path)
		}
		if err := c.RemoveCgroup(path); err == nil || !strings.Contains(err.Error(), "busy") {
			t.Errorf("remove a cgroup with a process: %v, want busy", err)
		}
		if err := c.AddProcess(path, 1<<30); err == nil {
			t.Error("a process that is not there was added")
		}
		if err := c.RemoveCgroup(path + "/none"); err != nil {
			t.Errorf("remove what is not there: %v", err)
		}
	})
}
