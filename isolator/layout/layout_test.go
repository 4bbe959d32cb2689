package layout_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/testing/layouttest"
	"mesos-gpu/isolator/layout"
)

var gpus = map[string][]layout.InstanceProfile{"A100": layouttest.A100(), "H100": layouttest.H100(), "A30": layouttest.A30()}

// Combinations that NVIDIA's MIG guide allows and forbids.
func TestPlaceInstances(t *testing.T) {
	for _, c := range []struct {
		gpu, layout string
		stay        []layout.GPUInstance
		want        string
	}{
		{gpu: "A100", layout: "7x1g.5gb", want: "1g.5gb at 0, 1g.5gb at 1, 1g.5gb at 2, 1g.5gb at 3, 1g.5gb at 4, 1g.5gb at 5, 1g.5gb at 6"},
		{gpu: "A100", layout: "8x1g.5gb", want: "MIG layout has 8 of profile 1g.5gb, a GPU at most 7"},
		{gpu: "A100", layout: "4g.20gb,3g.20gb", want: "4g.20gb at 0, 3g.20gb at 4"},
		{gpu: "A100", layout: "3g.20gb,4g.20gb", want: "4g.20gb at 0, 3g.20gb at 4"},
		{gpu: "A100", layout: "2x3g.20gb", want: "3g.20gb at 0, 3g.20gb at 4"},
		{gpu: "A100", layout: "2x3g.20gb,1g.5gb", want: "MIG layout 2x3g.20gb,1g.5gb does not fit on the GPU"},
		{gpu: "A100", layout: "1g.5gb,3g.20gb,2g.10gb", want: "3g.20gb at 0, 2g.10gb at 4, 1g.5gb at 6"},
		{gpu: "A100", layout: "3x2g.10gb,1g.10gb", want: "2g.10gb at 0, 2g.10gb at 2, 2g.10gb at 4, 1g.10gb at 6"},
		{gpu: "A100", layout: "3x2g.10gb,2x1g.5gb", want: "MIG layout 3x2g.10gb,2x1g.5gb does not fit on the GPU"},
		{gpu: "A100", layout: "2x1g.5gb+me", want: "MIG layout has 2 of profile 1g.5gb+me, a GPU at most 1"},
		{gpu: "A100", layout: "3g.40gb", want: `this GPU has no MIG profile "3g.40gb", but 1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb`},
		{gpu: "A100", layout: "3g.20gb", stay: []layout.GPUInstance{{Profile: "1g.5gb", Start: 0, Size: 1}}, want: "3g.20gb at 4"},
		{
			gpu: "A100", layout: "3g.20gb", stay: []layout.GPUInstance{{Profile: "1g.5gb", Start: 0, Size: 1}, {Profile: "1g.5gb", Start: 4, Size: 1}},
			want: "MIG layout 3g.20gb does not fit on the GPU in addition to the instances that stay: 1g.5gb at 0, 1g.5gb at 4",
		},
		{gpu: "H100", layout: "4x1g.20gb", want: "1g.20gb at 0, 1g.20gb at 2, 1g.20gb at 4, 1g.20gb at 6"},
		{gpu: "H100", layout: "7g.80gb", want: "7g.80gb at 0"},
		{gpu: "H100", layout: "7g.80gb,1g.10gb", want: "MIG layout 7g.80gb,1g.10gb does not fit on the GPU"},
		{gpu: "A30", layout: "2g.12gb,2x1g.6gb", want: "2g.12gb at 0, 1g.6gb at 2, 1g.6gb at 3"},
		{gpu: "A30", layout: "4g.24gb,1g.6gb", want: "MIG layout 4g.24gb,1g.6gb does not fit on the GPU"},
	} {
		t.Run(c.gpu+" "+c.layout, func(t *testing.T) {
			names, err := layout.ParseLayout(c.layout)
			if err != nil {
				t.Fatal(err)
			}
			placed, err := layout.PlaceInstances(gpus[c.gpu], c.stay, names)
			var got []string
			for _, i := range placed {
				got = append(got, i.String())
			}
			if err != nil {
				got = []string{err.Error()}
			}
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseLayout(t *testing.T) {
	for text, want := range map[string]string{
		"3g.20gb": "3g.20gb", " 1g.5gb , 2x3g.20gb": "2x3g.20gb,1g.5gb", "1g.5gb+me,1g.5gb,1x1g.5gb": "1g.5gb+me,2x1g.5gb",
		"": "", ",": "", "0x1g.5gb": "", "17x1g.5gb": "", "-1x1g.5gb": "", "9x1g.5gb,9x1g.5gb": "", "99999999999999999999x1g.5gb": "99999999999999999999x1g.5gb",
	} {
		names, err := layout.ParseLayout(text)
		if err != nil && want != "" || err == nil && layout.FormatLayout(names) != want {
			t.Errorf("%q: got %q, %v; want %q", text, names, err, want)
		}
	}
}

// fitsByExhaustiveSearch reports whether all profiles fit, by trying every placement.
func fitsByExhaustiveSearch(wanted []layout.InstanceProfile, stand []layout.GPUInstance) bool {
	if len(wanted) == 0 {
		return true
	}
	for _, start := range wanted[0].Starts {
		i := layout.GPUInstance{Profile: wanted[0].Name, Start: start, Size: wanted[0].Size}
		if !slices.ContainsFunc(stand, i.OverlapsWith) && fitsByExhaustiveSearch(wanted[1:], append(slices.Clone(stand), i)) {
			return true
		}
	}
	return false
}

// For any request and any existing instances: the placements match the request, are valid
// for their profiles and do not overlap; a rejected request has no solution; the order of
// the request does not matter.
func FuzzPlace(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		profiles := gpus[[]string{"A100", "H100", "A30"}[random.IntN(3)]]
		pick := func(n int) (names []string, picked []layout.InstanceProfile) {
			for range n {
				p := profiles[random.IntN(len(profiles))]
				names, picked = append(names, p.Name), append(picked, p)
			}
			return names, picked
		}
		few, _ := pick(random.IntN(3))
		stay, err := layout.PlaceInstances(profiles, nil, few)
		if err != nil {
			stay = nil
		}
		if len(stay) > 1 {
			stay = stay[1:] // the instances before it have ended
		}
		names, picked := pick(random.IntN(6))
		got, err := layout.PlaceInstances(profiles, stay, names)
		if err != nil {
			if fitsByExhaustiveSearch(picked, stay) && !strings.Contains(err.Error(), "at most") {
				t.Fatalf("%v with %v: %v, and there is a place", names, stay, err)
			}
			return
		}
		checkPlacement(t, profiles, stay, names, got)
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		if again, err := layout.PlaceInstances(profiles, stay, names); err != nil || !slices.Equal(got, again) {
			t.Fatalf("in another order %v, %v; before %v", again, err, got)
		}
	})
}

func checkPlacement(t *testing.T, profiles []layout.InstanceProfile, stay []layout.GPUInstance, names []string, got []layout.GPUInstance) {
	t.Helper()
	var placed []string
	for n, i := range got {
		placed = append(placed, i.Profile)
		at := slices.IndexFunc(profiles, func(p layout.InstanceProfile) bool { return p.Name == i.Profile })
		if at < 0 || profiles[at].Size != i.Size || !slices.Contains(profiles[at].Starts, i.Start) {
			t.Fatalf("%v is at no place of its profile", i)
		}
		if slices.ContainsFunc(append(slices.Clone(stay), got[:n]...), i.OverlapsWith) {
			t.Fatalf("%v overlaps: %v with %v", i, got, stay)
		}
	}
	if layout.FormatLayout(placed) != layout.FormatLayout(names) {
		t.Fatalf("requested %v, placed %v", names, placed)
	}
}

// PlanChange destroys no more than necessary, and never an instance of another program.
func TestPlanChange(t *testing.T) {
	at := func(profile string, start, size int) layout.GPUInstance {
		return layout.GPUInstance{Profile: profile, Start: start, Size: size}
	}
	left, right, two := at("3g.20gb", 0, 4), at("3g.20gb", 4, 4), at("2g.10gb", 0, 2)
	for _, c := range []struct {
		name, layout string
		has, made    []layout.GPUInstance
		end, create  []layout.GPUInstance
		err          string
	}{
		{name: "from nothing", layout: "2x3g.20gb", create: []layout.GPUInstance{left, right}},
		{name: "as wanted", layout: "2x3g.20gb", has: []layout.GPUInstance{left, right}, made: []layout.GPUInstance{left, right}},
		{name: "after a boot", layout: "2x3g.20gb", made: []layout.GPUInstance{left, right}, create: []layout.GPUInstance{left, right}},
		{name: "one is missing", layout: "2x3g.20gb", has: []layout.GPUInstance{right}, made: []layout.GPUInstance{left, right}, create: []layout.GPUInstance{left}},
		{name: "one stays", layout: "3g.20gb,2g.10gb", has: []layout.GPUInstance{left, right},
			made: []layout.GPUInstance{left, right}, end: []layout.GPUInstance{right},
			create: []layout.GPUInstance{at("2g.10gb", 4, 2)}},
		{name: "one must move", layout: "4g.20gb,2g.10gb", has: []layout.GPUInstance{two}, made: []layout.GPUInstance{two},
			end: []layout.GPUInstance{two}, create: []layout.GPUInstance{at("4g.20gb", 0, 4), at("2g.10gb", 4, 2)}},
		{name: "with another container's", layout: "3g.20gb", has: []layout.GPUInstance{two}, create: []layout.GPUInstance{right}},
		{name: "another's in the way", layout: "7g.40gb", has: []layout.GPUInstance{two},
			err: "does not fit on the GPU in addition to the instances that stay: 2g.10gb at 0"},
		{name: "another's of that kind", layout: "3g.20gb", has: []layout.GPUInstance{left}, create: []layout.GPUInstance{right}},
	} {
		t.Run(c.name, func(t *testing.T) {
			names, err := layout.ParseLayout(c.layout)
			if err != nil {
				t.Fatal(err)
			}
			end, create, err := layout.PlanChange(layouttest.A100(), c.has, c.made, names)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(end, c.end) || !slices.Equal(create, c.create) {
				t.Errorf("ends %v and makes %v; want %v and %v", end, create, c.end, c.create)
			}
		})
	}
}

// From any state to any layout: instances of other programs remain, the other instances
// match the request, and planning again changes nothing.
func FuzzChange(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 2))
		profiles := gpus[[]string{"A100", "H100", "A30"}[random.IntN(3)]]
		names := func(n int) (list []string) {
			for range n {
				list = append(list, profiles[random.IntN(len(profiles))].Name)
			}
			return list
		}
		has, _ := layout.PlaceInstances(profiles, nil, names(random.IntN(5)))
		random.Shuffle(len(has), func(i, j int) { has[i], has[j] = has[j], has[i] })
		made := has[:random.IntN(len(has)+1)]
		others := has[len(made):]
		want := names(1 + random.IntN(4))
		end, create, err := layout.PlanChange(profiles, has, made, want)
		if err != nil {
			if _, possible := layout.PlaceInstances(profiles, others, want); possible == nil {
				t.Fatalf("%v to %v with %v: %v, and there is a place", made, want, others, err)
			}
			return
		}
		var now []layout.GPUInstance
		for _, i := range made {
			if !slices.Contains(end, i) {
				now = append(now, i)
			}
		}
		now = append(now, create...)
		checkPlacement(t, profiles, others, want, now)
		if end, create, err := layout.PlanChange(profiles, append(slices.Clone(others), now...), now, want); err != nil || len(end)+len(create) > 0 {
			t.Fatalf("%v is as wanted, and yet ends %v and makes %v, %v", now, end, create, err)
		}
	})
}
