package containers_test

import (
	gocmp "cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/share"
)

// limiter notes who is admitted with how much of GPU-0, and refuses what refuse
// says.
type limiter struct {
	share.None
	method   gpu.Method
	admitted map[string]int64
	refuse   error
}

func (l *limiter) Method() gpu.Method { return gocmp.Or(l.method, gpu.HeldByPreload) }

func (l *limiter) Admit(_ context.Context, container string, parts []gpu.Part) (share.Setup, error) {
	if l.refuse != nil {
		return share.Setup{}, l.refuse
	}
	l.admitted[container] = parts[0].MemMiB
	return share.Setup{
		OwnRootfs:   true,
		Mounts:      []share.Mount{{Source: "/limits", Target: "/limits", ReadOnly: true}},
		Environment: map[string]string{"OF": container},
	}, nil
}

func (l *limiter) Release(_ context.Context, container string) error {
	delete(l.admitted, container)
	return nil
}

// sharing is a machine whose GPU-0 is shared, as 100 MiB and 100 % of cores.
func sharing(t *testing.T) (*machine, *limiter) {
	t.Helper()
	m := newMachine(t)
	l := &limiter{admitted: map[string]int64{}}
	m.cfg.Limiter = l
	m.cfg.Shared = func(d string) (gpu.Part, bool) { return gpu.Part{UUID: d, MemMiB: 100, Cores: 100}, d == "GPU-0" }
	m.restart(t)
	return m, l
}

func part(mem, cores float64) []ledger.Resource {
	return []ledger.Resource{{Name: "gpu_mem.GPU-0", Scalar: mem}, {Name: "gpu_cores.GPU-0", Scalar: cores}}
}

func (l *limiter) has(t *testing.T, when, want string) {
	t.Helper()
	got := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(l.admitted), "map["), "]")
	if got != want {
		t.Errorf("%s: admitted are %q, want %q", when, got, want)
	}
}

// Two containers open one device, each with its limit; a third is refused, as
// is who wants the device whole.
func TestPartsOfADevice(t *testing.T) {
	m, l := sharing(t)
	got, err := m.Prepare(t.Context(), containers.Launch{Container: "a", Resources: part(60, 30), Rootfs: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]containers.Mount{{Source: "/limits", Target: "/limits", ReadOnly: true}}, got.Mounts); diff != "" || got.Environment["OF"] != "a" {
		t.Errorf("environment %v, mounts (-want +got):\n%s", got.Environment, diff)
	}
	m.launch(t, "b", part(40, 70))
	if err := m.Isolate("a", 1); err != nil {
		t.Fatal(err)
	}
	m.holds(t, "a", "GPU-0")
	m.holds(t, "b", "GPU-0")
	l.has(t, "both", "a:60 b:40")
	for _, c := range []struct {
		resources []ledger.Resource
		why       string
	}{
		{part(1, 0), "wants 1 MiB of device GPU-0, 0 of its 100 MiB are free"},
		{resources(1, "GPU-0"), "GPU-0, which container a holds a part of"},
	} {
		if _, err := m.Prepare(t.Context(), containers.Launch{Container: "c", Resources: c.resources}); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("got %v, want %q", err, c.why)
		}
	}
	if diff := cmp.Diff(map[string]share.Use{"GPU-0": {Part: true}}, m.Uses()); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	if err := m.Cleanup("a"); err != nil {
		t.Fatal(err)
	}
	l.has(t, "one ended", "b:40")
	m.launch(t, "c", part(60, 0))
}

// A task in the host's own file system would run unheld: it is refused, and
// leaves nothing. An executor is not: its tasks are looked at one by one.
func TestPartsNeedAnImage(t *testing.T) {
	m, l := sharing(t)
	const why = "has part of a GPU and no image, and preload holds processes only in a file system of their own: give the task an image"
	_, err := m.Prepare(t.Context(), containers.Launch{Container: "a", Task: "t", Resources: part(60, 30)})
	if refused := (*ledger.Refusal)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want %q", err, why)
	}
	l.has(t, "after it was refused", "")
	m.launch(t, "e", part(60, 30))
	if _, err := m.Prepare(t.Context(), containers.Launch{Container: "e.task"}); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("nested: got %v, want %q", err, why)
	}
	if s, err := m.Prepare(t.Context(), containers.Launch{Container: "e.imaged", Rootfs: true}); err != nil || len(s.Mounts) != 1 {
		t.Errorf("nested, with an image: got %v and error %v, want the limit's mount", s.Mounts, err)
	}
	l.has(t, "in the end", "e:60")
}

// Mesos tells of a custom executor's GPUs by an update: that admits it, another
// changes it, and one without parts releases it. A nested container shares its
// parent's limit.
func TestUpdateParts(t *testing.T) {
	m, l := sharing(t)
	m.launch(t, "p", nil)
	update := func(r []ledger.Resource) {
		t.Helper()
		if _, err := m.Update("p", r); err != nil {
			t.Fatal(err)
		}
	}
	update(part(50, 10))
	m.holds(t, "p", "GPU-0")
	l.has(t, "grown", "p:50")
	got, err := m.Share(t.Context(), "p.nested")
	want := containers.Share{
		Method: gpu.HeldByPreload, Parts: []gpu.Part{{UUID: "GPU-0", MemMiB: 50, Cores: 10}},
		Mounts: []containers.Mount{{Source: "/limits", Target: "/limits", ReadOnly: true}}, Environment: map[string]string{"OF": "p"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	update(part(20, 10))
	l.has(t, "shrunk", "p:20")
	m.launch(t, "q", part(80, 0))
	l.refuse = errors.New("MPS does not answer")
	if _, err := m.Update("p", part(10, 0)); err == nil || !strings.Contains(err.Error(), "MPS does not answer") {
		t.Errorf("got %v", err)
	}
	if _, err := m.Prepare(t.Context(), containers.Launch{Container: "r", Resources: []ledger.Resource{{Name: "gpu_mem.GPU-0", Scalar: 1}}}); err == nil {
		t.Error("a container without a limit is launched, of memory that is taken")
	}
	l.refuse = nil
	update(nil)
	m.holds(t, "p", "")
	l.has(t, "given back", "q:80")
}

// A container that cannot be held claims nothing.
func TestNotAdmitted(t *testing.T) {
	m, l := sharing(t)
	l.refuse = errors.New("MPS does not answer")
	if _, err := m.Prepare(t.Context(), containers.Launch{Container: "a", Resources: part(100, 100)}); err == nil || !strings.Contains(err.Error(), "hold container a to its parts by preload: MPS does not answer") {
		t.Errorf("got %v", err)
	}
	l.refuse = nil
	m.launch(t, "b", part(100, 100))
}

// The next daemon knows the parts by the files, and where one is lost the
// device by the cgroup: its part stays, of a size that nobody knows.
func TestPartsAfterRestart(t *testing.T) {
	m, l := sharing(t)
	m.launch(t, "a", part(60, 30))
	m.launch(t, "b", part(40, 0))
	l.admitted = map[string]int64{}
	m.restart(t)
	l.has(t, "after a restart", "a:60 b:40")
	if err := os.Remove(filepath.Join(m.cfg.Dir, "b.json")); err != nil {
		t.Fatal(err)
	}
	m.restart(t)
	m.holds(t, "b", "GPU-0")
	if parts, err := m.Parts("b"); err != nil || len(parts) != 1 || parts[0].MemMiB != 0 {
		t.Errorf("got %+v, %v", parts, err)
	}
	if _, err := m.Share(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("got %v", err)
	}
	if _, err := m.Update("b", part(40, 0)); err != nil { // the agent tells it
		t.Error(err)
	}
	l.has(t, "told again", "a:60 b:40")
	if err := m.Recover([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	l.has(t, "recovered without b", "a:60")
}

// A limit of the cgroup's is set again once the cgroup is there, and a container
// that it cannot be set for does not start.
func TestLimitOfTheCgroup(t *testing.T) {
	m, l := sharing(t)
	l.method = gpu.HeldByDriver
	for _, c := range []string{"a", "b"} {
		if _, err := m.Prepare(t.Context(), containers.Launch{Container: c, Resources: part(40, 30)}); err != nil {
			t.Fatal(err)
		}
	}
	clear(l.admitted)
	if err := m.Isolate("a", 4711); err != nil {
		t.Fatal(err)
	}
	l.has(t, "a has its cgroup", "a:40")
	l.refuse = errors.New("the driver does not answer")
	if err := m.Isolate("b", 4712); !errors.Is(err, l.refuse) {
		t.Errorf("got %v", err)
	}
}
