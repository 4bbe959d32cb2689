package allocation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

// A rejection names the outermost holder of a device, and of those the first by name.
func TestRejectionNamesOutermostHolder(t *testing.T) {
	for range 20 { // allocations are visited in random order
		l := New(nil, shareOfHundred, nil)
		mustAssign(t, l, "p", DeviceRequest{Named: []string{"1"}})
		mustAssign(t, l, "p.a", DeviceRequest{Named: []string{"1"}})
		wantRejected(t, l, "q", DeviceRequest{Named: []string{"1"}}, "which container p holds")
		for _, id := range []string{"b", "a", "c"} {
			mustAssign(t, l, id, requestShares(newShare("h0", 10, 0)))
		}
		mustAssign(t, l, "a.a", requestShares(newShare("h0", 10, 0)))
		wantRejected(t, l, "q", DeviceRequest{Named: []string{"h0"}}, "of which container a holds a share")
	}
}

// A nested container gets devices of its nearest ancestor that has an own allocation, not of
// one that inherits, nor of one further outside.
func TestNestedContainerGetsDevicesOfNearestAncestor(t *testing.T) {
	l := newStockAllocator()
	mustAssign(t, l, "p", DeviceRequest{Named: []string{"1", "2"}})
	mustAssign(t, l, "p.own", DeviceRequest{Named: []string{"1"}})
	mustAssign(t, l, "p.inherits", DeviceRequest{})
	mustAssign(t, l, "p.own.x", DeviceRequest{Named: []string{"1"}})
	wantRejected(t, l, "p.own.y", DeviceRequest{Named: []string{"2"}}, "which is not among the 1 of container p.own")
	mustAssign(t, l, "p.inherits.x", DeviceRequest{Named: []string{"2"}})
	wantRejected(t, l, "p.inherits.y", DeviceRequest{Named: []string{"3"}}, "which is not among the 2 of container p")
}

// A container that gives devices up keeps those of nested containers longest.
func TestDevicesOfNestedContainersAreGivenUpLast(t *testing.T) {
	l := newStockAllocator()
	mustAssign(t, l, "p", DeviceRequest{Stock: 3})
	mustAssign(t, l, "p.x", DeviceRequest{Stock: 2})
	mustAssign(t, l, "p.y", DeviceRequest{Stock: 1})
	mustAssign(t, l, "q", DeviceRequest{Stock: 1})
	mustAssign(t, l, "q.x", DeviceRequest{Stock: 1})
	l.ReleaseContainer("p.x")
	mustAssign(t, l, "p", DeviceRequest{Stock: 2})
	wantDevices(t, l, "p", "a c")
	wantDevices(t, l, "p.y", "c")
	mustAssign(t, l, "p", DeviceRequest{Stock: 1})
	wantDevices(t, l, "p", "c")
	wantDevices(t, l, "p.y", "c")
}

func wantShares(t *testing.T, l *Allocator, container string, want ...gpu.DeviceShare) {
	t.Helper()
	if diff := cmp.Diff(want, l.allocations[container].Shares); diff != "" {
		t.Errorf("shares of %s (-want +got):\n%s", container, diff)
	}
}

// If a container gives up parts of its shares, nested containers are reduced to what is left,
// level by level, the last ones first. Those that still fit keep their shares.
func TestNestedSharesAreReducedLevelByLevel(t *testing.T) {
	l := New(nil, shareOfHundred, nil)
	mustAssign(t, l, "p", requestShares(newShare("h0", 60, 90)))
	mustAssign(t, l, "p.a", requestShares(newShare("h0", 30, 40)))
	mustAssign(t, l, "p.a.x", requestShares(newShare("h0", 20, 30)))
	mustAssign(t, l, "p.b", requestShares(newShare("h0", 30, 40)))
	mustAssign(t, l, "p", requestShares(newShare("h0", 60, 50)))
	wantShares(t, l, "p.a", newShare("h0", 30, 40))
	wantShares(t, l, "p.a.x", newShare("h0", 20, 30))
	wantShares(t, l, "p.b", newShare("h0", 30, 10))
	mustAssign(t, l, "p", requestShares(newShare("h0", 10, 50)))
	wantShares(t, l, "p.a", newShare("h0", 10, 40))
	wantShares(t, l, "p.a.x", newShare("h0", 10, 30))
	wantShares(t, l, "p.b")
}

// A container between two others that inherits does not change what the inner one has.
func TestSharesPassThroughInheritingContainer(t *testing.T) {
	l := New(nil, shareOfHundred, nil)
	mustAssign(t, l, "p", requestShares(newShare("h0", 50, 50)))
	mustAssign(t, l, "p.inherits", DeviceRequest{})
	mustAssign(t, l, "p.inherits.x", requestShares(newShare("h0", 20, 10)))
	mustAssign(t, l, "p", requestShares(newShare("h0", 30, 50)))
	wantShares(t, l, "p.inherits.x", newShare("h0", 20, 10))
}

// What containers nested in another one have is not taken of the own ancestor's share.
func TestSharesOfOtherTreesAreNotCounted(t *testing.T) {
	l := New(nil, shareOfHundred, nil)
	for _, id := range []string{"p", "q"} {
		mustAssign(t, l, id, requestShares(newShare("h0", 50, 50)))
	}
	mustAssign(t, l, "q.a", requestShares(newShare("h0", 20, 20)))
	mustAssign(t, l, "p.a", requestShares(newShare("h0", 30, 30)))
	wantRejected(t, l, "p.b", requestShares(newShare("h0", 21, 0)), "20 of its 50 MiB are free in container p")
	mustAssign(t, l, "p.b", requestShares(newShare("h0", 20, 20)))
}

// A container keeps a share that it has, or a part of it, when less of the device is shared
// than before. It gets no more.
func TestShareIsKeptWhenLessIsShared(t *testing.T) {
	total := int64(100)
	l := New(nil, func(d string) (gpu.DeviceShare, bool) { return newShare(d, total, 100), true }, nil)
	mustAssign(t, l, "q", requestShares(newShare("x", 60, 0)))
	total = 50
	mustAssign(t, l, "q", requestShares(newShare("x", 60, 0)))
	mustAssign(t, l, "q", requestShares(newShare("x", 55, 0)))
	wantRejected(t, l, "q", requestShares(newShare("x", 56, 0)), "requests 56 MiB of device x, 50 of its 50 MiB are free")
}

// Shares of unknown size, which are restored from cgroups, are kept when their container keeps
// the device.
func TestNestedShareOfUnknownSizeIsKept(t *testing.T) {
	l := New(nil, shareOfHundred, nil)
	l.SetAllocations(Allocation{
		Container: "p",
		Shares:    []gpu.DeviceShare{{UUID: "h0"}, {UUID: "h1"}},
	}, Allocation{Container: "p.a", Shares: []gpu.DeviceShare{{UUID: "h0"}}})
	mustAssign(t, l, "p", requestShares(gpu.DeviceShare{UUID: "h0"}))
	wantShares(t, l, "p.a", gpu.DeviceShare{UUID: "h0"})
}
