//go:build linux && cgo

package nvml

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/testing/layouttest"
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/isolator/layout"
)

// openWithMIG opens a host with two GPUs, the second of which is in MIG mode.
func openWithMIG(t *testing.T) (*nvmltest.FakeMachine, *Library) {
	t.Helper()
	m, l := openStandIn(t, v100s(2), LibraryConfig{})
	m.EnableMIG(uuid(1), layouttest.A100())
	return m, l
}

func placeLayout(t *testing.T, text string) []layout.GPUInstance {
	t.Helper()
	names, err := layout.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	list, err := layout.PlaceInstances(layouttest.A100(), nil, names)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func createAll(t *testing.T, l *Library, list []layout.GPUInstance) {
	t.Helper()
	for _, i := range list {
		if err := l.CreateInstance(uuid(1), i); err != nil {
			t.Fatal(err)
		}
	}
}

// The profiles of the one GPU in MIG mode are returned completely.
func TestListProfiles(t *testing.T) {
	_, l := openWithMIG(t)
	if got, err := l.ListMIGGPUs(); err != nil || len(got) != 1 || got[0].UUID != uuid(1) || got[0].Minor != 1 {
		t.Errorf("cuttable are %v, %v", got, err)
	}
	got, err := l.ListProfiles(uuid(1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(layouttest.A100(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := l.ListProfiles(uuid(0)); err != nil || len(got) != 0 {
		t.Errorf("of a GPU out of MIG mode: %v, %v", got, err)
	}
	if _, err := l.ListProfiles("GPU-none"); err == nil || !strings.Contains(err.Error(), "it is no GPU of this host") {
		t.Errorf("of no GPU: %v", err)
	}
}

// Instances become devices of the host with capabilities and memory, and can be
// destroyed. Creating an existing instance again succeeds.
func TestCreateAndDestroyInstance(t *testing.T) {
	m, l := openWithMIG(t)
	list := placeLayout(t, "3g.20gb,2g.10gb,1g.5gb")
	createAll(t, l, list)
	createAll(t, l, list) // everything exists already
	if got, err := l.ListInstances(uuid(1)); err != nil || !slices.Equal(got, list) {
		t.Errorf("instances %v, %v; want %v", got, err, list)
	}
	h, err := l.DescribeHost()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range h.Devices[1:] {
		got = append(got, fmt.Sprintf("%s %d of %s caps %t", d.MIG.Profile, d.MemMiB, d.MIG.Parent, d.MIG.GPUInstanceCap > 0 && d.MIG.ComputeInstanceCap > 0))
		if _, err := l.SampleDevice(d.UUID); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(got)
	want := []string{"1g.5gb 4864 of " + uuid(1) + " caps true", "2g.10gb 9728 of " + uuid(1) + " caps true", "3g.20gb 19456 of " + uuid(1) + " caps true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	for range 2 { // the second time nothing is left to destroy
		if err := l.DestroyInstance(uuid(1), list[1]); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := m.ListInstances(uuid(1)), []string{"19@6", "9@0"}; !slices.Equal(got, want) {
		t.Errorf("left are %v, want %v", got, want)
	}
	if h, err := l.DescribeHost(); err != nil || len(h.Devices) != 3 {
		t.Errorf("the host has %d devices, %v; want 3", len(h.Devices), err)
	}
}

// An instance in use is kept, and an instance without room is not created.
func TestPartitioningErrors(t *testing.T) {
	m, l := openWithMIG(t)
	list := placeLayout(t, "4g.20gb")
	createAll(t, l, list)
	m.MarkBusy(uuid(1), 0)
	if err := l.DestroyInstance(uuid(1), list[0]); err == nil ||
		!strings.Contains(err.Error(), "end MIG instance 4g.20gb at 0 of GPU "+uuid(1)+": end its compute instance: In use by another client") {
		t.Errorf("got %v", err)
	}
	m.ClearBusy()
	for _, c := range []struct {
		i    layout.GPUInstance
		want string
	}{
		{layout.GPUInstance{Profile: "3g.20gb", Start: 0, Size: 4}, "Insufficient Resources"},
		{layout.GPUInstance{Profile: "3g.20gb", Start: 2, Size: 4}, "Invalid Argument"},
		{layout.GPUInstance{Profile: "9g.1gb", Start: 0, Size: 1}, `no profile "9g.1gb"`},
	} {
		if err := l.CreateInstance(uuid(1), c.i); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.i, err, c.want)
		}
	}
	if got := m.ListInstances(uuid(1)); !slices.Equal(got, []string{"5@0"}) {
		t.Errorf("instances %v", got)
	}
}

// An instance without a compute instance, as a crash leaves it, is not a device: it is
// completed or destroyed. An instance whose compute instance cannot be created does not
// remain.
func TestInstanceWithoutComputeInstance(t *testing.T) {
	m, l := openWithMIG(t)
	list := placeLayout(t, "2g.10gb")
	createAll(t, l, list)
	m.SetFailures(nvmltest.FunctionFailure{Function: "nvmlGpuInstanceDestroy", Index: 1, Return: 999})
	if err := l.DestroyInstance(uuid(1), list[0]); err == nil {
		t.Fatal("no error")
	}
	if h, err := l.DescribeHost(); err != nil || len(h.Devices) != 1 {
		t.Errorf("the host has %v, %v", h.Devices, err)
	}
	m.SetFailures()
	createAll(t, l, list)
	if h, err := l.DescribeHost(); err != nil || len(h.Devices) != 2 {
		t.Errorf("the host has %v, %v", h.Devices, err)
	}
	m.SetFailures(nvmltest.FunctionFailure{Function: "nvmlGpuInstanceCreateComputeInstance", Index: 1, Return: 999})
	if err := l.CreateInstance(uuid(1), layout.GPUInstance{Profile: "3g.20gb", Start: 4, Size: 4}); err == nil ||
		!strings.Contains(err.Error(), "make its compute instance") {
		t.Errorf("got %v", err)
	}
	if got := m.ListInstances(uuid(1)); !slices.Equal(got, []string{"14@0"}) {
		t.Errorf("instances %v", got)
	}
}

// The driver creates every placement that Place returns, next to any existing instances.
func TestPlacedInstancesCanBeCreated(t *testing.T) {
	m, l := openWithMIG(t)
	for _, text := range []string{
		"7x1g.5gb", "7g.40gb", "4g.20gb,3g.20gb", "2x3g.20gb", "3x2g.10gb,1g.5gb", "4x1g.10gb", "1g.5gb+me,6x1g.5gb",
		"3g.20gb,1g.5gb,2x1g.5gb", "2g.10gb,1g.10gb,2x1g.5gb,1g.5gb+me",
	} {
		list := placeLayout(t, text)
		createAll(t, l, list)
		if got := m.ListInstances(uuid(1)); len(got) != len(list) {
			t.Errorf("%s: made %v", text, got)
		}
		for _, i := range list {
			if err := l.DestroyInstance(uuid(1), i); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// DiscoverMIGProfiles reports a host's GPUs in MIG mode and their profiles without a
// daemon.
func TestDiscoverMIGProfiles(t *testing.T) {
	m := nvmltest.ReportHost(t, v100s(2))
	m.EnableMIG(uuid(1), layouttest.A30())
	m.AddInstance(uuid(1), 5, 3, 2)
	list, err := DiscoverMIG(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot, ProcRoot: m.ProcRoot})
	if err != nil {
		t.Fatal(err)
	}
	want := []MIGGPU{{Device: v100s(2).Devices[1], Profiles: layouttest.A30(), Instances: []layout.GPUInstance{{Profile: "2g.12gb", Start: 2, Size: 2}}}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
