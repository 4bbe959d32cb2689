package ledger

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

var (
	stockNames  = []string{"s0", "s1", "s2", "s3", "s4"}
	freeNames   = []string{"n0", "n1", "n2", "n3"}
	allNames    = slices.Concat(stockNames, freeNames)
	containers  = []string{"p", "q", "r", "p.a", "p.b", "p.a.x", "p.a.y", "q.a", "q.b.x"}
	sharedNames = []string{"h0", "h1"}
	drawWant    = rapid.Custom(func(t *rapid.T) Want { return want(t, freeNames) })
	drawAnyWant = rapid.Custom(func(t *rapid.T) Want { return want(t, allNames) })
)

func want(t *rapid.T, names []string) Want {
	named := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "named")
	slices.Sort(named)
	w := Want{Named: named, Stock: rapid.IntRange(0, 4).Draw(t, "stock")}
	for _, d := range sharedNames {
		if rapid.Bool().Draw(t, "a part") {
			w.Parts = append(w.Parts, gpu.Part{UUID: d, MemMiB: rapid.Int64Range(1, 100).Draw(t, "mem"), Cores: rapid.IntRange(0, 100).Draw(t, "cores")})
		}
	}
	return w
}

// hundred shares the shared devices, each as 100 MiB and 100 % of the cores.
func hundred(device string) (gpu.Part, bool) {
	return gpu.Part{UUID: device, MemMiB: 100, Cores: 100}, slices.Contains(sharedNames, device)
}

// Whatever is asked for, in whatever order: related containers share, others
// never do but for parts, which come to no more than there is; what is granted is what was asked for; what is kept was not moved;
// a refusal and a second time change nothing.
func TestNoDeviceHasTwoHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New(stockNames, hundred)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { sound(t, l) },
			"assign": func(t *rapid.T) {
				id, w := rapid.SampledFrom(containers).Draw(t, "container"), drawWant.Draw(t, "want")
				if nested(id) && rapid.Bool().Draw(t, "any") {
					w = drawAnyWant.Draw(t, "nested want")
				}
				assignSoundly(t, l, id, w)
			},
			"release": func(t *rapid.T) {
				id := rapid.SampledFrom(containers).Draw(t, "container")
				others := maps.Clone(l.held)
				maps.DeleteFunc(others, func(c string, _ Holding) bool { return c == id || Within(c, id) })
				l.Release(id)
				if diff := cmp.Diff(others, l.held); diff != "" {
					t.Fatalf("release %s changed others:\n%s", id, diff)
				}
			},
			"restore": func(t *rapid.T) {
				id := rapid.SampledFrom(containers).Draw(t, "container")
				if l.knows(id) {
					t.Skip("known")
				}
				d := rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Concat(allNames, sharedNames)), 0, 3, rapid.ID).Draw(t, "devices")
				if h, err := l.Restore(id, d); err == nil {
					l.Set(h)
					if !Same(l.Devices(id), d) {
						t.Fatalf("restored %v as %v", d, l.Devices(id))
					}
				}
			},
			"recover": func(t *rapid.T) {
				alive := rapid.SliceOfDistinct(rapid.SampledFrom(containers), rapid.ID).Draw(t, "alive")
				for _, id := range l.Strangers(alive) {
					l.Release(id)
				}
				for id := range l.held {
					if !slices.Contains(alive, id) {
						t.Fatalf("%s is kept", id)
					}
				}
			},
		})
	})
}

func assignSoundly(t *rapid.T, l *Ledger, id string, w Want) {
	before, now := maps.Clone(l.held), l.held[id]
	holdings, err := l.Assign(id, w, nil)
	if diff := cmp.Diff(before, l.held); diff != "" {
		t.Fatalf("Assign changed the books:\n%s", diff)
	}
	if err != nil {
		return
	}
	l.Set(holdings...)
	h := l.held[id]
	if !h.Inherits && !h.Meets(w) {
		t.Fatalf("%s wants %+v, got %+v", id, w, h)
	}
	if n := min(len(now.Stock), w.Stock); !h.Inherits && len(within(h.Stock, without(now.Stock, w.Named))) < n-len(within(now.Stock, w.Named)) {
		t.Fatalf("%s held %v and wants %d: what it could keep was moved, to %v", id, now.Stock, w.Stock, h.Stock)
	}
	for c, b := range before {
		if c != id && !Within(c, id) && !cmp.Equal(b, l.held[c]) {
			t.Fatalf("assign to %s changed %s from %+v to %+v", id, c, b, l.held[c])
		}
	}
	again, err := l.Assign(id, w, nil)
	if err != nil || len(again) != 1 || !cmp.Equal(again[0], h) {
		t.Fatalf("the second time: %+v, %v; the first: %+v", again, err, h)
	}
}

func sound(t *rapid.T, l *Ledger) {
	held := map[string]string{}
	for _, h := range l.All() {
		if name := twice(h.Devices()); name != "" {
			t.Fatalf("%s holds %s twice: %+v", h.Container, name, h)
		}
		for _, d := range h.whole() {
			if slices.Contains(sharedNames, d) {
				t.Fatalf("%s holds shared device %s whole", h.Container, d)
			}
			switch other, taken := held[d]; {
			case nested(h.Container) && !slices.Contains(l.Devices(Parent(h.Container)), d):
				t.Fatalf("%s holds %s, its parent does not", h.Container, d)
			case taken && !Within(h.Container, other):
				t.Fatalf("%s and %s both hold %s", other, h.Container, d)
			}
			held[d] = h.Container // of related ones the deepest, siblings clash with it
		}
	}
	soundParts(t, l)
}

// soundParts adds the parts up by whom they are taken from: the host, or an
// ancestor.
func soundParts(t *rapid.T, l *Ledger) {
	sums := map[string]map[string]gpu.Part{} // by lender, by device
	for _, h := range l.All() {
		lender := ""
		if nested(h.Container) {
			lender = l.lender(h.Container)
		}
		if sums[lender] == nil {
			sums[lender] = map[string]gpu.Part{}
		}
		for _, p := range h.Parts {
			s := sums[lender][p.UUID]
			sums[lender][p.UUID] = gpu.Part{MemMiB: s.MemMiB + p.MemMiB, Cores: s.Cores + p.Cores}
		}
	}
	for lender, devices := range sums {
		for d, sum := range devices {
			all := gpu.Part{MemMiB: 100, Cores: 100}
			if lender != "" {
				all, _ = partOf(l.held[lender].Parts, d)
			}
			unknown := lender != "" && all.MemMiB == 0 // it was found again from its cgroup
			if !unknown && !fits(sum, all) {
				t.Fatalf("of device %s in %q there are %+v, granted are %+v", d, lender, all, sum)
			}
		}
	}
}
