package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gogo/protobuf/proto"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"pgregory.net/rapid"
)

func spans(name string, bounds ...uint64) mesos.Resource {
	r := mesos.Resource{Name: name, Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{}}
	for i := 0; i < len(bounds); i += 2 {
		r.Ranges.Range = append(r.Ranges.Range, mesos.Value_Range{Begin: bounds[i], End: bounds[i+1]})
	}
	return r
}

func of(rs ...mesos.Resource) []mesos.Resource { return rs }

func provided(r mesos.Resource, provider string) mesos.Resource {
	r.ProviderID = &mesos.ResourceProviderID{Value: provider}
	return r
}

func static(r mesos.Resource, role string) mesos.Resource {
	r.Role = &role
	return r
}

func reserved(r mesos.Resource, role string) mesos.Resource {
	r.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &role}}
	return r
}

// show is a short form for comparing.
func show(rs []mesos.Resource) string {
	var out []string
	for _, r := range rs {
		value := ""
		switch r.GetType() {
		case mesos.SET:
			value = fmt.Sprint(r.Set.Item)
		case mesos.RANGES:
			for _, s := range r.Ranges.Range {
				value += fmt.Sprintf("[%d-%d]", s.Begin, s.End)
			}
		default:
			value = fmt.Sprint(r.Scalar.Value)
		}
		where := r.GetProviderID().GetValue()
		if role := r.ReservationRole(); role != "*" {
			where += "/" + role
		}
		out = append(out, r.Name+where+":"+value)
	}
	return strings.Join(out, " ")
}

func TestSumAndSubtract(t *testing.T) {
	for _, tc := range []struct {
		name            string
		a, b            []mesos.Resource
		sum, difference string
	}{
		{"scalars in thousandths", of(NewScalar("cpus", 0.3)), of(NewScalar("cpus", 0.1)), "cpus:0.4", "cpus:0.2"},
		{"never less than nothing", of(NewScalar("cpus", 1)), of(NewScalar("cpus", 2)), "cpus:3", ""},
		{"sets", of(NewSet("ids", "c", "a", "b")), of(NewSet("ids", "b")), "ids:[a b c]", "ids:[a c]"},
		{"ranges", of(spans("ports", 1, 9)), of(spans("ports", 3, 3, 10, 10)), "ports:[1-10]", "ports:[1-2][4-9]"},
		{"providers apart", of(provided(NewScalar("gpus", 1), "p")), of(NewScalar("gpus", 1)), "gpusp:1 gpus:1", "gpusp:1"},
		{"roles apart", of(static(NewScalar("cpus", 2), "r")), of(NewScalar("cpus", 1)), "cpus/r:2 cpus:1", "cpus/r:2"},
		{"both reservation formats", of(static(NewScalar("cpus", 2), "r")), of(reserved(NewScalar("cpus", 1), "r")), "cpus/r:3", "cpus/r:1"},
		{"default role said or not", of(static(NewScalar("cpus", 2), "*")), of(NewScalar("cpus", 1)), "cpus:3", "cpus:1"},
		{"unknown", of(NewScalar("cpus", 1)), of(NewScalar("mem", 1)), "cpus:1 mem:1", "cpus:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := show(tc.a), show(tc.b)
			if got := show(Sum(tc.a, tc.b)); got != tc.sum {
				t.Errorf("sum: got %q, want %q", got, tc.sum)
			}
			if got := show(Subtract(tc.a, tc.b)); got != tc.difference {
				t.Errorf("difference: got %q, want %q", got, tc.difference)
			}
			if show(tc.a) != a || show(tc.b) != b {
				t.Error("an argument was changed")
			}
		})
	}
}

func TestContains(t *testing.T) {
	have := of(NewScalar("cpus", 2), NewSet("ids", "a", "b"), spans("ports", 1, 5, 7, 9), provided(NewScalar("gpus", 2), "p"))
	for _, tc := range []struct {
		name string
		want []mesos.Resource
		ok   bool
	}{
		{"nothing", nil, true},
		{"all", have, true},
		{"too many cpus", of(NewScalar("cpus", 2.001)), false},
		{"several that sum up to too many", of(NewScalar("cpus", 1), NewScalar("cpus", 1.5)), false},
		{"item it lacks", of(NewSet("ids", "a", "c")), false},
		{"part of a range", of(spans("ports", 2, 3, 8, 8)), true},
		{"range across a gap", of(spans("ports", 5, 7)), false},
		{"without the provider", of(NewScalar("gpus", 1)), false},
		{"nothing of an unknown name", of(NewScalar("mem", 0)), true},
		{"allocated", Allocate(of(NewScalar("cpus", 1)), "r"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Contains(have, tc.want); got != tc.ok {
				t.Errorf("got %v, want %v", got, tc.ok)
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	for _, tc := range []struct {
		name   string
		groups [][]mesos.Resource
		want   bool
	}{
		{"scalars never", [][]mesos.Resource{of(NewScalar("cpus", 1)), of(NewScalar("cpus", 1))}, false},
		{"item twice", [][]mesos.Resource{of(NewSet("ids", "a")), of(NewSet("ids", "a", "b"))}, true},
		{"other items", [][]mesos.Resource{of(NewSet("ids", "a")), of(NewSet("ids", "b"))}, false},
		{"neighbouring ranges", [][]mesos.Resource{of(spans("ports", 1, 2)), of(spans("ports", 3, 4))}, false},
		{"port twice", [][]mesos.Resource{of(spans("ports", 1, 3)), of(spans("ports", 3, 4))}, true},
	} {
		if got := Overlaps(tc.groups...); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		rs   []mesos.Resource
		want string
	}{
		{"fine", of(NewScalar("cpus", 0.5), NewSet("ids", "a"), spans("ports", 1, 2), NewScalar("gpus", 2)), ""},
		{"fractional GPUs", of(NewScalar("gpus", 0.5)), "unsigned integer"},
		{"GPUs that sum up to a fraction", of(NewScalar("gpus", 1), provided(NewScalar("gpus", 0.5), "p")), "unsigned integer"},
		{"no type", of(mesos.Resource{Name: "cpus"}), "type"},
		{"negative", of(NewScalar("cpus", -1)), "cpus"},
		{"item twice", of(NewSet("ids", "a", "a")), "ids"},
		{"no number", of(NewScalar("cpus", nan())), "number"},
		{"end of numbers", of(spans("ports", 1, ^uint64(0))), "beyond"},
	} {
		err := Validate(tc.rs)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

func TestFormats(t *testing.T) {
	dynamic := NewScalar("cpus", 1)
	dynamic.Role, dynamic.Reservation = proto.String("r"), &mesos.Resource_ReservationInfo{Principal: proto.String("p")}
	for _, r := range of(NewScalar("cpus", 1), static(NewScalar("cpus", 1), "r"), dynamic) {
		refined := Refined(of(r))
		if refined[0].Role != nil || refined[0].Reservation != nil {
			t.Errorf("refined: got %v", refined)
		}
		plain := Plain(refined)
		if plain[0].Role == nil || len(plain[0].Reservations) != 0 || !Equal(plain, of(r)) {
			t.Errorf("plain: got %v, want %v", plain, r)
		}
	}
	if diff := cmp.Diff("cpus:1 cpus/a:1", show(UsableBy(of(NewScalar("cpus", 1), static(NewScalar("cpus", 1), "a"), static(NewScalar("cpus", 1), "b")),
		"a/child"))); diff != "" {
		t.Error(diff)
	}
	mine := Allocate(of(NewScalar("cpus", 1)), "r")
	if mine[0].GetAllocationInfo().GetRole() != "r" || Allocate(mine, "other")[0].GetAllocationInfo().GetRole() != "r" {
		t.Errorf("got %v", mine)
	}
	if Unallocate(mine)[0].AllocationInfo != nil || mine[0].AllocationInfo == nil {
		t.Error("unallocate left the mark, or changed its argument")
	}
}

// What is added can be taken away again, and is contained in between.
func TestArithmeticHolds(t *testing.T) {
	resources := rapid.Custom(func(t *rapid.T) []mesos.Resource {
		return of(
			NewScalar("cpus", float64(rapid.IntRange(0, 9000).Draw(t, "cpus"))/1000),
			NewSet("ids", rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4, rapid.ID).Draw(t, "ids")...),
			spans("ports", 1, uint64(rapid.IntRange(1, 9).Draw(t, "end"))),
		)
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := resources.Draw(t, "a"), resources.Draw(t, "b")
		sum := Sum(a, b)
		if !Contains(sum, a) || !Contains(sum, b) {
			t.Fatalf("%s holds not both %s and %s", show(sum), show(a), show(b))
		}
		left := Subtract(sum, a)
		if !Overlaps(a, b) && !Equal(left, b) {
			t.Fatalf("%s - %s = %s, want %s", show(sum), show(a), show(left), show(b))
		}
		if !Contains(a, Subtract(a, b)) || len(Subtract(a, a)) != 0 || !Equal(Sum(b, a), sum) {
			t.Fatalf("a = %s, b = %s", show(a), show(b))
		}
	})
}
