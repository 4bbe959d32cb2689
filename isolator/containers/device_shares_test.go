package containers_test

import (
	gocmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/share"
)

// fakeLimiter records the admitted containers and their shares of GPU-0, and rejects
// those in refuse.
type fakeLimiter struct {
	share.NoLimiter
	method   gpu.EnforcementMethod
	admitted map[string]int64
	refuse   error
}

func (l *fakeLimiter) Method() gpu.EnforcementMethod {
	return gocmp.Or(l.method, gpu.EnforcedByPreload)
}

func (l *fakeLimiter) AdmitContainer(_ context.Context, container string, shares []gpu.DeviceShare) (share.LimitSetup, error) {
	if l.refuse != nil {
		return share.LimitSetup{}, l.refuse
	}
	l.admitted[container] = shares[0].MemMiB
	return share.LimitSetup{
		OwnRootfs:   true,
		Mounts:      []share.LimitMount{{Source: "/limits", Target: "/limits", ReadOnly: true}},
		Environment: map[string]string{"OF": container},
	}, nil
}

func (l *fakeLimiter) ReleaseContainer(_ context.Context, container string) error {
	delete(l.admitted, container)
	return nil
}

// newSharingFixture is a host whose GPU-0 is shared, with 100 MiB and 100 % of its cores.
func newSharingFixture(t *testing.T) (*managerFixture, *fakeLimiter) {
	t.Helper()
	m := newManagerFixture(t)
	l := &fakeLimiter{admitted: map[string]int64{}}
	m.cfg.Limiter = l
	m.cfg.LookUpShare = func(d string) (gpu.DeviceShare, bool) {
		return gpu.DeviceShare{UUID: d, MemMiB: 100, Cores: 100}, d == "GPU-0"
	}
	m.restart(t)
	return m, l
}

func shareResources(mem, cores float64) []allocation.MesosResource {
	return []allocation.MesosResource{{Name: "gpu_mem.GPU-0", Scalar: mem}, {Name: "gpu_cores.GPU-0", Scalar: cores}}
}

func (l *fakeLimiter) wantAdmitted(t *testing.T, when, want string) {
	t.Helper()
	got := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(l.admitted), "map["), "]")
	if got != want {
		t.Errorf("%s: admitted are %q, want %q", when, got, want)
	}
}

// Two containers share a device, each with its own limit. A third is rejected, and so is
// a container that requests the whole device.
func TestSharesOfOneDevice(t *testing.T) {
	m, l := newSharingFixture(t)
	got, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "a", Resources: shareResources(60, 30), Rootfs: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]containers.BindMount{{Source: "/limits", Target: "/limits", ReadOnly: true}}, got.Mounts); diff != "" || got.Environment["OF"] != "a" {
		t.Errorf("environment %v, mounts (-want +got):\n%s", got.Environment, diff)
	}
	m.launch(t, "b", shareResources(40, 70))
	if err := m.Isolate("a", 1); err != nil {
		t.Fatal(err)
	}
	m.wantDevices(t, "a", "GPU-0")
	m.wantDevices(t, "b", "GPU-0")
	l.wantAdmitted(t, "both", "a:60 b:40")
	for _, c := range []struct {
		resources []allocation.MesosResource
		why       string
	}{
		{shareResources(1, 0), "requests 1 MiB of device GPU-0, 0 of its 100 MiB are free"},
		{resources(1, "GPU-0"), "GPU-0, of which container a holds a share"},
	} {
		if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "c", Resources: c.resources}); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("got %v, want %q", err, c.why)
		}
	}
	if diff := cmp.Diff(map[string]share.DeviceUse{"GPU-0": {Shared: true}}, m.DeviceUses()); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	if err := m.Cleanup("a"); err != nil {
		t.Fatal(err)
	}
	l.wantAdmitted(t, "one ended", "b:40")
	m.launch(t, "c", shareResources(60, 0))
}

// A task in the host's file system could not be limited, so it is rejected and leaves no
// record. An executor is accepted: each of its tasks is checked separately.
func TestSharesNeedAnImage(t *testing.T) {
	m, l := newSharingFixture(t)
	const why = "has a share of a GPU and no image, and preload limits only processes in a root file system of their own: give the task an image"
	_, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "a", Task: "t", Resources: shareResources(60, 30)})
	if refused := (*allocation.RejectedError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want %q", err, why)
	}
	l.wantAdmitted(t, "after it was refused", "")
	m.launch(t, "e", shareResources(60, 30))
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "e.task"}); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("nested: got %v, want %q", err, why)
	}
	if s, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "e.imaged", Rootfs: true}); err != nil || len(s.Mounts) != 1 {
		t.Errorf("nested, with an image: got %v and error %v, want the limit's mount", s.Mounts, err)
	}
	l.wantAdmitted(t, "in the end", "e:60")
}

// Mesos reports a custom executor's GPUs by an update, which admits the executor. Another
// update changes the limit, and one without shares releases it. A nested container uses
// its parent's limit.
func TestUpdateShares(t *testing.T) {
	m, l := newSharingFixture(t)
	m.launch(t, "p", nil)
	update := func(r []allocation.MesosResource) {
		t.Helper()
		if _, err := m.Update("p", r); err != nil {
			t.Fatal(err)
		}
	}
	update(shareResources(50, 10))
	m.wantDevices(t, "p", "GPU-0")
	l.wantAdmitted(t, "grown", "p:50")
	got, err := m.Share(t.Context(), "p.nested")
	want := containers.ContainerShare{
		Method: gpu.EnforcedByPreload, Shares: []gpu.DeviceShare{{UUID: "GPU-0", MemMiB: 50, Cores: 10}},
		Mounts: []containers.BindMount{{Source: "/limits", Target: "/limits", ReadOnly: true}}, Environment: map[string]string{"OF": "p"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	update(shareResources(20, 10))
	l.wantAdmitted(t, "shrunk", "p:20")
	m.launch(t, "q", shareResources(80, 0))
	l.refuse = errors.New("MPS does not answer")
	if _, err := m.Update("p", shareResources(10, 0)); err == nil || !strings.Contains(err.Error(), "MPS does not answer") {
		t.Errorf("got %v", err)
	}
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{
		Container: "r",
		Resources: []allocation.MesosResource{{Name: "gpu_mem.GPU-0", Scalar: 1}},
	}); err == nil {
		t.Error("a container without a limit is launched, of memory that is taken")
	}
	l.refuse = nil
	update(nil)
	m.wantDevices(t, "p", "")
	l.wantAdmitted(t, "given back", "q:80")
}

// A container that the limiter rejects holds no devices.
func TestPrepareFailsWhenLimiterRejects(t *testing.T) {
	m, l := newSharingFixture(t)
	l.refuse = errors.New("MPS does not answer")
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "a", Resources: shareResources(100, 100)}); err == nil ||
		!strings.Contains(err.Error(), "enforce shares of container a by preload: MPS does not answer") {
		t.Errorf("got %v", err)
	}
	l.refuse = nil
	m.launch(t, "b", shareResources(100, 100))
}

// After a restart the shares are restored from the records. If a record is lost, the
// device is restored from the cgroup, with a share of unknown size.
func TestSharesSurviveRestart(t *testing.T) {
	m, l := newSharingFixture(t)
	m.launch(t, "a", shareResources(60, 30))
	m.launch(t, "b", shareResources(40, 0))
	l.admitted = map[string]int64{}
	m.restart(t)
	l.wantAdmitted(t, "after a restart", "a:60 b:40")
	if err := os.Remove(filepath.Join(m.cfg.Dir, "b.json")); err != nil {
		t.Fatal(err)
	}
	m.restart(t)
	m.wantDevices(t, "b", "GPU-0")
	if shares, err := m.DeviceShares("b"); err != nil || len(shares) != 1 || shares[0].MemMiB != 0 {
		t.Errorf("got %+v, %v", shares, err)
	}
	if _, err := m.Share(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("got %v", err)
	}
	if _, err := m.Update("b", shareResources(40, 0)); err != nil { // the agent sends the resources again
		t.Error(err)
	}
	l.wantAdmitted(t, "told again", "a:60 b:40")
	if err := m.Recover([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	l.wantAdmitted(t, "recovered without b", "a:60")
}

// The records and answers of release 0.1.0 have the shares under another name.
func TestSharesOfEarlierRelease(t *testing.T) {
	m, l := newSharingFixture(t)
	m.launch(t, "a", shareResources(60, 30))
	record := filepath.Join(m.cfg.Dir, "a.json")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(text), `"shares"`, `"parts"`, 1)
	if old == string(text) {
		t.Fatalf("the record has no shares: %s", text)
	}
	if err := os.WriteFile(record, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	l.admitted = map[string]int64{}
	m.restart(t)
	l.wantAdmitted(t, "after an upgrade", "a:60")
	var answer containers.ContainerShare
	if err := json.Unmarshal([]byte(`{"method":"mps","parts":[{"uuid":"GPU-a","mem_mib":60}]}`), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Shares) != 1 || answer.Shares[0].MemMiB != 60 || answer.Method != gpu.EnforcedByMPS {
		t.Errorf("got %+v", answer)
	}
}
