package clusterview

import (
	"fmt"
	"slices"
	"testing"

	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

// TestInventoryDigest: the digest depends on what the API shows of agents and GPUs, but not
// on the order in Mesos's list or on which task holds a GPU.
func TestInventoryDigest(t *testing.T) {
	list := func(change func(a, b *master.ListedAgent)) []master.ListedAgent {
		a := master.ListedAgent{
			ID:        "a",
			Hostname:  "h",
			Active:    true,
			GPUs:      2,
			GPUsFree:  2,
			DeviceIDs: []string{"1", "2"},
			Shared:    []sched.SharedDevice{{UUID: "3", MemMiB: 8}},
		}
		b := master.ListedAgent{ID: "b", Hostname: "i", Active: true, GPUs: 2}
		change(&a, &b)
		return []master.ListedAgent{a, b}
	}
	withheld := func(cause gpu.WithheldCause, note string) func(a, b *master.ListedAgent) {
		return func(a, _ *master.ListedAgent) {
			a.GPUs, a.DeviceIDs, a.Withheld = 1, a.DeviceIDs[:1], []gpu.WithheldDevice{{UUID: "2", Cause: cause, Note: note}}
		}
	}
	same := func(_, _ *master.ListedAgent) {}
	var known InventoryDigest
	for i, step := range []struct {
		what string
		list []master.ListedAgent
		want bool
	}{
		{"the first", list(same), false},
		{"the same", list(same), false},
		{"tasks began", list(func(a, b *master.ListedAgent) {
			a.GPUsFree, a.DevicesHeld, a.SharedFree, b.GPUsFree = 1, []string{"1"}, []sched.SharedDevice{{UUID: "3", MemMiB: 4}}, 0
		}), false},
		{"another order", func() []master.ListedAgent {
			all := list(func(a, _ *master.ListedAgent) { a.DeviceIDs = []string{"2", "1"} })
			slices.Reverse(all)
			return all
		}(), false},
		{"a device is sick", list(withheld(gpu.WithheldUnhealthy, "XID 79")), true},
		{"it is cordoned", list(withheld(gpu.WithheldCordoned, "")), true},
		{"for a reason", list(withheld(gpu.WithheldCordoned, "fan")), true},
		{"it is back", list(same), true},
		{"devices change places", list(func(a, b *master.ListedAgent) { a.DeviceIDs, b.DeviceIDs = nil, a.DeviceIDs }), true},
		{"an agent has gone", list(same)[:1], true},
		{"it is back", list(same), true},
		{"it is away", list(func(_, b *master.ListedAgent) { b.Active = false }), true},
		{"it is drained", list(func(_, b *master.ListedAgent) { b.Active, b.Draining = false, true }), true},
		{"a shared device has gone", list(func(a, b *master.ListedAgent) { a.Shared, b.Active, b.Draining = nil, false, true }), true},
		{"none", nil, true},
		{"none still", nil, false},
	} {
		if got := known.UpdateAndCompare(step.list); got != step.want {
			t.Errorf("%d, %s: changed is %t, want %t", i, step.what, got, step.want)
		}
	}
}

// BenchmarkInventoryDigest computes the digest of 1,000 agents with 8 GPUs each and compares it with the last one.
func BenchmarkInventoryDigest(b *testing.B) {
	agents := make([]master.ListedAgent, 1000)
	for i := range agents {
		a := &agents[i]
		a.ID, a.Hostname, a.GPUs = fmt.Sprintf("c1d9a6f0-S%d", i), fmt.Sprintf("gpu-%03d.example.org", i), 8
		for d := range 8 {
			a.DeviceIDs = append(a.DeviceIDs, fmt.Sprintf("GPU-5a1c7d3e-0000-4000-%04d-%012d", i, d))
		}
	}
	var known InventoryDigest
	b.ReportAllocs()
	for b.Loop() {
		if known.UpdateAndCompare(agents) {
			b.Fatal("the digest has not changed")
		}
	}
}
