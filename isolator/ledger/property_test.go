package ledger

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	stockNames  = []string{"s0", "s1", "s2", "s3", "s4"}
	freeNames   = []string{"n0", "n1", "n2", "n3"}
	allNames    = slices.Concat(stockNames, freeNames)
	containers  = []string{"p", "q", "r", "p.a", "p.b", "p.a.x", "p.a.y", "q.a", "q.b.x"}
	drawWant    = rapid.Custom(func(t *rapid.T) Want { return want(t, freeNames) })
	drawAnyWant = rapid.Custom(func(t *rapid.T) Want { return want(t, allNames) })
)

func want(t *rapid.T, names []string) Want {
	named := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "named")
	slices.Sort(named)
	return Want{Named: named, Stock: rapid.IntRange(0, 4).Draw(t, "stock")}
}

// Whatever is asked for, in whatever order: related containers share, others
// never do; what is granted is what was asked for; what is kept was not moved;
// a refusal and a second time change nothing.
func TestNoDeviceHasTwoHolders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New(stockNames)
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
				d := rapid.SliceOfNDistinct(rapid.SampledFrom(allNames), 0, 3, rapid.ID).Draw(t, "devices")
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
		for _, d := range h.Devices() {
			switch other, taken := held[d]; {
			case nested(h.Container) && !slices.Contains(l.Devices(Parent(h.Container)), d):
				t.Fatalf("%s holds %s, its parent does not", h.Container, d)
			case taken && !Within(h.Container, other):
				t.Fatalf("%s and %s both hold %s", other, h.Container, d)
			}
			held[d] = h.Container // of related ones the deepest, siblings clash with it
		}
	}
}
