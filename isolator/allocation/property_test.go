package allocation

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

var (
	stockNames     = []string{"s0", "s1", "s2", "s3", "s4"}
	freeNames      = []string{"n0", "n1", "n2", "n3"}
	allNames       = slices.Concat(stockNames, freeNames)
	containers     = []string{"p", "q", "r", "p.a", "p.b", "p.a.x", "p.a.y", "q.a", "q.b.x"}
	sharedNames    = []string{"h0", "h1"}
	anyFreeRequest = rapid.Custom(func(t *rapid.T) DeviceRequest { return drawRequest(t, freeNames) })
	anyRequest     = rapid.Custom(func(t *rapid.T) DeviceRequest { return drawRequest(t, allNames) })
)

func drawRequest(t *rapid.T, names []string) DeviceRequest {
	named := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "named")
	slices.Sort(named)
	w := DeviceRequest{Named: named, Stock: rapid.IntRange(0, 4).Draw(t, "stock")}
	for _, d := range sharedNames {
		if rapid.Bool().Draw(t, "a part") {
			w.Shares = append(w.Shares, gpu.DeviceShare{UUID: d, MemMiB: rapid.Int64Range(1, 100).Draw(t, "mem"), Cores: rapid.IntRange(0, 100).Draw(t, "cores")})
		}
	}
	return w
}

// shareOfHundred returns 100 MiB and 100 % of the cores for each shared device.
func shareOfHundred(device string) (gpu.DeviceShare, bool) {
	return gpu.DeviceShare{UUID: device, MemMiB: 100, Cores: 100}, slices.Contains(sharedNames, device)
}

// For any requests in any order: only related containers hold the same whole device;
// shares never exceed a device; a container gets what it requested; kept devices do not
// move; a rejected or repeated request changes nothing.
func TestNoDeviceHasTwoUnrelatedHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New(stockNames, shareOfHundred, nil)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { checkExclusive(t, l) },
			"assign": func(t *rapid.T) {
				id, w := rapid.SampledFrom(containers).Draw(t, "container"), anyFreeRequest.Draw(t, "want")
				if isNested(id) && rapid.Bool().Draw(t, "any") {
					w = anyRequest.Draw(t, "nested want")
				}
				checkedAssign(t, l, id, w)
			},
			"release": func(t *rapid.T) {
				id := rapid.SampledFrom(containers).Draw(t, "container")
				others := maps.Clone(l.allocations)
				maps.DeleteFunc(others, func(c string, _ Allocation) bool { return c == id || IsNestedIn(c, id) })
				l.ReleaseContainer(id)
				if diff := cmp.Diff(others, l.allocations); diff != "" {
					t.Fatalf("release %s changed others:\n%s", id, diff)
				}
			},
			"restore": func(t *rapid.T) {
				id := rapid.SampledFrom(containers).Draw(t, "container")
				if l.isKnown(id) {
					t.Skip("known")
				}
				d := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Concat(allNames, sharedNames)), 0, 3, rapid.ID).Draw(t, "devices")
				if h, err := l.RestoreAllocation(id, d); err == nil {
					l.SetAllocations(h)
					if !SameDevices(l.EffectiveDevices(id), d) {
						t.Fatalf("restored %v as %v", d, l.EffectiveDevices(id))
					}
				}
			},
			"recover": func(t *rapid.T) {
				alive := rapid.SliceOfDistinct(rapid.SampledFrom(containers), rapid.ID).Draw(t, "alive")
				for _, id := range l.FindOrphans(alive) {
					l.ReleaseContainer(id)
				}
				for id := range l.allocations {
					if !slices.Contains(alive, id) {
						t.Fatalf("%s is kept", id)
					}
				}
			},
		})
	})
}

func checkedAssign(t *rapid.T, l *Allocator, id string, w DeviceRequest) {
	before, now := maps.Clone(l.allocations), l.allocations[id]
	holdings, err := l.AssignDevices(id, w, nil)
	if diff := cmp.Diff(before, l.allocations); diff != "" {
		t.Fatalf("AssignDevices changed the allocations:\n%s", diff)
	}
	if err != nil {
		return
	}
	l.SetAllocations(holdings...)
	h := l.allocations[id]
	if !h.Inherits && !h.MatchesRequest(w) {
		t.Fatalf("%s wants %+v, got %+v", id, w, h)
	}
	if n := min(len(now.Stock), w.Stock); !h.Inherits && len(keepDevices(h.Stock, excludeDevices(now.Stock, w.Named))) < n-len(keepDevices(now.Stock, w.Named)) {
		t.Fatalf("%s held %v and wants %d: what it could keep was moved, to %v", id, now.Stock, w.Stock, h.Stock)
	}
	for c, b := range before {
		if c != id && !IsNestedIn(c, id) && !cmp.Equal(b, l.allocations[c]) {
			t.Fatalf("assign to %s changed %s from %+v to %+v", id, c, b, l.allocations[c])
		}
	}
	again, err := l.AssignDevices(id, w, nil)
	if err != nil || len(again) != 1 || !cmp.Equal(again[0], h) {
		t.Fatalf("the second time: %+v, %v; the first: %+v", again, err, h)
	}
}

func checkExclusive(t *rapid.T, l *Allocator) {
	held := map[string]string{}
	for _, h := range l.ListAll() {
		if name := findDuplicate(h.Devices()); name != "" {
			t.Fatalf("%s holds %s twice: %+v", h.Container, name, h)
		}
		for _, d := range h.exclusiveDevices() {
			if slices.Contains(sharedNames, d) {
				t.Fatalf("%s holds shared device %s whole", h.Container, d)
			}
			switch other, taken := held[d]; {
			case isNested(h.Container) && !slices.Contains(l.EffectiveDevices(ParentID(h.Container)), d):
				t.Fatalf("%s holds %s, its parent does not", h.Container, d)
			case taken && !IsNestedIn(h.Container, other):
				t.Fatalf("%s and %s both hold %s", other, h.Container, d)
			}
			held[d] = h.Container // the deepest of related containers; siblings conflict with it
		}
	}
	checkShareSums(t, l)
}

// checkShareSums adds up the shares by source: the host or an ancestor.
func checkShareSums(t *rapid.T, l *Allocator) {
	sums := map[string]map[string]gpu.DeviceShare{} // by source, then by device
	for _, h := range l.ListAll() {
		lender := ""
		if isNested(h.Container) {
			lender = l.allocatingAncestor(h.Container)
		}
		if sums[lender] == nil {
			sums[lender] = map[string]gpu.DeviceShare{}
		}
		for _, p := range h.Shares {
			s := sums[lender][p.UUID]
			sums[lender][p.UUID] = gpu.DeviceShare{MemMiB: s.MemMiB + p.MemMiB, Cores: s.Cores + p.Cores}
		}
	}
	for lender, devices := range sums {
		for d, sum := range devices {
			all := gpu.DeviceShare{MemMiB: 100, Cores: 100}
			if lender != "" {
				all, _ = findShare(l.allocations[lender].Shares, d)
			}
			unknown := lender != "" && all.MemMiB == 0 // restored from its cgroup with an unknown size
			if !unknown && !fitsWithin(sum, all) {
				t.Fatalf("of device %s in %q there are %+v, granted are %+v", d, lender, all, sum)
			}
		}
	}
}
