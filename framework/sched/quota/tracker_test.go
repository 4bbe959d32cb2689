package quota

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func requestOf(gpus int, types ...string) gpu.Request {
	return gpu.Request{GPUs: gpus, Types: gpu.TypeSelector{Include: types}}
}

func jobOf(role string, r gpu.Request, gang bool) *job.Spec {
	return &job.Spec{Name: "train", Role: role, Request: r, Gang: gang}
}

// ofSameType requires that all GPUs of all tasks are of one type.
func ofSameType(r gpu.Request) gpu.Request {
	r.Types.Same = true
	return r
}

// describe returns a limit as "ROLE TYPE=MAX, holds HELD", and "" for none.
func describe(l *Limit) string {
	if l == nil {
		return ""
	}
	return l.Role + " " + Quota{l.Type: l.Max / MilliPerGPU}.String() + ", holds " + FormatMilliGPUs(l.Held)
}

// Usage that is removed is free again, by type and in total.
func TestRemovedUsageIsFree(t *testing.T) {
	tracker := NewTracker(nil, nil)
	shares := []gpu.DeviceShare{{Type: "T4", MilliDevices: 250}}
	tracker.AddUsage("team", map[string]int{"V100": 3, "": 1}, shares, 1)
	if got := tracker.TotalHeld("team"); got != 4250 {
		t.Errorf("holds %d thousandths, want 4250", got)
	}
	tracker.AddUsage("team", map[string]int{"V100": 2}, shares, -1)
	if diff := cmp.Diff(map[string]int{AllTypes: 2000, "V100": 1000, "T4": 0}, tracker.UsageByType("team")); diff != "" {
		t.Errorf("usage by type (-want +got):\n%s", diff)
	}
}

// The usage of a role has that of the roles below it, but of no role whose name only begins
// with the same letters.
func TestUsageByTypeHasRolesBelow(t *testing.T) {
	tracker := NewTracker(nil, nil)
	tracker.AddUsage("team", map[string]int{"V100": 1, "": 2}, nil, 1)
	tracker.AddUsage("team/a", map[string]int{"V100": 4, "T4": 8}, nil, 1)
	tracker.AddUsage("teams", map[string]int{"V100": 16}, nil, 1)
	for role, want := range map[string]map[string]int{
		"team":   {AllTypes: 15000, "V100": 5000, "T4": 8000},
		"team/a": {AllTypes: 12000, "V100": 4000, "T4": 8000},
		"other":  {},
	} {
		if diff := cmp.Diff(want, tracker.UsageByType(role)); diff != "" {
			t.Errorf("usage of %s (-want +got):\n%s", role, diff)
		}
	}
}

// The usage is divided by the weight. Weight 0 and a role without an entry mean weight 1.
func TestWeightedShare(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "heavy", Weight: 4}, {Role: "default"}}, nil)
	for role, want := range map[string]float64{"heavy": 500, "default": 2000, "unknown": 2000} {
		tracker.AddUsage(role, map[string]int{"V100": 2}, nil, 1)
		if got := tracker.WeightedShare(role); got != want {
			t.Errorf("share of %s is %g, want %g", role, got, want)
		}
	}
}

// What a task counts for depends on the devices that its request accepts.
func TestMilliPerTask(t *testing.T) {
	device := func(model string, memMiB int64) gpu.Device { return gpu.Device{Model: model, MemMiB: memMiB} }
	slice := gpu.Device{Model: "NVIDIA A100", MemMiB: 4864, MIG: &gpu.MIG{}}
	mig := []fit.Attribute{{Name: "gpu_share_limit", Value: string(gpu.EnforcedByMIG)}}
	for _, c := range []struct {
		name   string
		agents []fit.AgentResources
		share  gpu.ShareRequest
		types  []string
		of     string
		want   int
	}{
		{"whole devices", nil, gpu.ShareRequest{}, nil, AllTypes, 2000},
		{"cores on a device of unknown memory", nil, gpu.ShareRequest{Cores: 25}, nil, AllTypes, 500},
		{"memory on a device of unknown memory counts as a device", nil, gpu.ShareRequest{MemMiB: 1}, nil, AllTypes, 2000},
		{"memory on the smallest device",
			[]fit.AgentResources{{Inventory: []gpu.Device{device("Tesla V100", 32000), device("Tesla T4", 16000)}}},
			gpu.ShareRequest{MemMiB: 4000}, nil, AllTypes, 500},
		{"memory on the smallest device, listed first",
			[]fit.AgentResources{{Inventory: []gpu.Device{device("Tesla T4", 16000), device("Tesla T4", 32000)}}},
			gpu.ShareRequest{MemMiB: 4000}, nil, AllTypes, 500},
		{"memory on a device of the given type",
			[]fit.AgentResources{{Inventory: []gpu.Device{device("Tesla V100", 32000), device("Tesla T4", 16000)}}},
			gpu.ShareRequest{MemMiB: 4000}, nil, "V100", 250},
		{"memory on a device of the requested type",
			[]fit.AgentResources{{Inventory: []gpu.Device{device("Tesla V100", 32000), device("Tesla T4", 16000)}}},
			gpu.ShareRequest{MemMiB: 4000}, []string{"V100"}, AllTypes, 250},
		{"devices without memory are ignored",
			[]fit.AgentResources{{Inventory: []gpu.Device{device("Tesla V100", 0), device("Tesla T4", 16000)}}},
			gpu.ShareRequest{MemMiB: 4000}, nil, AllTypes, 500},
		{"devices without memory are ignored within a model",
			[]fit.AgentResources{{Inventory: []gpu.Device{device("Tesla T4", 16000), device("Tesla T4", 0)}}},
			gpu.ShareRequest{MemMiB: 4000}, nil, AllTypes, 500},
		{"MIG devices are taken whole",
			[]fit.AgentResources{{Attributes: mig, Inventory: []gpu.Device{slice, device("NVIDIA A100", 40000)}}},
			gpu.ShareRequest{MemMiB: 4000}, nil, AllTypes, 2000},
		{"another device of an agent with MIG is shared",
			[]fit.AgentResources{{Attributes: mig, Inventory: []gpu.Device{device("Tesla T4", 16000)}}},
			gpu.ShareRequest{MemMiB: 4000}, nil, AllTypes, 500},
		{"MIG devices are shared by other means", []fit.AgentResources{{Inventory: []gpu.Device{slice}}}, gpu.ShareRequest{MemMiB: 2432}, nil, AllTypes, 1000},
		{"more memory than the device has counts as a device",
			[]fit.AgentResources{{Inventory: []gpu.Device{device("Tesla T4", 16000)}}}, gpu.ShareRequest{MemMiB: 64000}, nil,
			AllTypes, 2000},
		{"percent of the memory need no device", nil, gpu.ShareRequest{MemPercent: 10}, nil, AllTypes, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := requestOf(2, c.types...)
			r.Share = c.share
			for range 20 { // models are visited in random order
				if got := NewTracker(nil, c.agents).MilliPerTask(&r, c.of); got != c.want {
					t.Fatalf("got %d, want %d", got, c.want)
				}
			}
		})
	}
}

// GPUs that an agent hands out by count as one of several types count for each of them.
func TestCombinedTypesCountForEach(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: Quota{"V100": 4, "T4": 4, "K80": 4}}}, nil)
	tracker.AddUsage("team", map[string]int{"Tesla V100|Tesla T4": 1, "": 1}, nil, 1)
	var got []string
	for _, l := range tracker.limitsWithUsage(User{Role: "team"}) {
		got = append(got, describe(&l))
	}
	if diff := cmp.Diff([]string{"team K80=4, holds 0", "team T4=4, holds 1", "team V100=4, holds 1"}, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// Restrict marks a limit that one task exceeds even if the role holds nothing.
func TestRestrictReportsTooSmallLimits(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: Quota{"V100": 2}}}, nil)
	tracker.AddUsage("team", map[string]int{"V100": 1}, nil, 1)
	for gpus, want := range map[int]string{
		2: "; role team may hold 2 V100 and holds 1",
		3: "; role team may hold 2 V100 and holds 1: it can never start on those",
	} {
		if _, _, limit := tracker.Restrict(User{Role: "team"}, requestOf(gpus)); limit.ExcludedTypeNote() != want {
			t.Errorf("%d GPUs: got %q, want %q", gpus, limit.ExcludedTypeNote(), want)
		}
	}
	if got := (*Limit)(nil).ExcludedTypeNote(); got != "" {
		t.Errorf("no limit is described as %q", got)
	}
}

// The number of tasks is limited by the tightest of all limits that apply.
func TestRestrictCountsTasksByTightestLimit(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: Quota{"V100": 6, AllTypes: 8}}, {Role: "team/a", Quota: Quota{AllTypes: 10}}}, nil)
	for _, c := range []struct {
		name  string
		types []string
		tasks int
	}{{"any type", nil, 3}, {"the limited type", []string{"V100"}, 3}, {"another type", []string{"T4"}, 4}} {
		if _, got, limit := tracker.Restrict(User{Role: "team/a"}, requestOf(2, c.types...)); got != c.tasks || limit != nil {
			t.Errorf("%s: %d tasks within %s, want %d without a limit", c.name, got, describe(limit), c.tasks)
		}
	}
}

// A request for two types of which one is at its quota continues with the other one.
func TestRestrictContinuesWithTypeThatIsLeft(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: Quota{"V100": 1, "T4": 1}}}, nil)
	tracker.AddUsage("team", map[string]int{"V100": 1}, nil, 1)
	r, tasks, limit := tracker.Restrict(User{Role: "team"}, requestOf(1, "V100", "T4"))
	if diff := cmp.Diff([]string{"V100"}, r.Types.Exclude); diff != "" || tasks != 1 || describe(limit) != "team V100=1, holds 1" {
		t.Errorf("got %d tasks without %v because of %s", tasks, r.Types.Exclude, describe(limit))
	}
	tracker.AddUsage("team", map[string]int{"T4": 1}, nil, 1)
	if _, tasks, _ := tracker.Restrict(User{Role: "team"}, requestOf(1, "V100", "T4")); tasks != 0 {
		t.Errorf("with both types at their quotas %d tasks may start, want 0", tasks)
	}
}

// The rest of a quota that blocks a job is kept for it: later jobs of its role do not take
// it, and their explanation names the job that is first. Other roles are not affected.
func TestRestOfQuotaIsKeptForBlockedJob(t *testing.T) {
	for _, c := range []struct {
		name   string
		gpus   int
		gang   bool
		tasks  int
		usage  int // when the job is blocked
		after  int // what the gang that was undone had held
		why    LimitExplanation
		blocks bool // later jobs of the role
	}{
		{"job that fits an empty quota", 4, false, 9, 2, 0,
			LimitExplanation{Needs: "room in the quota of role team for 4 more", Available: "it may hold 4 GPUs and holds 2"},
			true},
		{"gang that fits an empty quota", 2, true, 2, 2, 0,
			LimitExplanation{Needs: "room in the quota of role team for 4 more", Available: "it may hold 4 GPUs and holds 2"},
			true},
		{"gang that has returned its GPUs", 2, true, 2, 2, 2,
			LimitExplanation{Needs: "room in the quota of role team for 4 more", Available: "it may hold 4 GPUs and holds 2"},
			true},
		{"job that can never start", 5, false, 1, 2, 0,
			LimitExplanation{Needs: "room in the quota of role team for 5 more", Available: "it may hold 4 GPUs and holds 2: it can never start"},
			false},
		{"gang that can never start", 2, true, 3, 2, 0,
			LimitExplanation{Needs: "room in the quota of role team for 6 more", Available: "it may hold 4 GPUs and holds 2: it can never start"},
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: Quota{AllTypes: 4}}, {Role: "team/a"}}, nil)
			tracker.AddUsage("team", map[string]int{"": c.usage}, nil, 1)
			limit := &Limit{Role: "team", Type: AllTypes, Max: 4 * MilliPerGPU, Held: (c.usage + c.after) * MilliPerGPU}
			if diff := cmp.Diff(c.why, tracker.KeepRest(jobOf("team", requestOf(c.gpus), c.gang), c.tasks, limit)); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
			_, tasks, blocking := tracker.Restrict(User{Role: "team"}, requestOf(1))
			if c.blocks != (tasks == 0) {
				t.Fatalf("%d tasks of a later job may start", tasks)
			}
			if _, tasks, _ := tracker.Restrict(User{Role: "team/a"}, requestOf(1)); tasks != 2 {
				t.Errorf("%d tasks of another role may start, want 2", tasks)
			}
			if !c.blocks {
				return
			}
			why, never := tracker.Explain(jobOf("team", requestOf(1), false), 1, blocking)
			if !why.KeptForEarlier || never || !strings.HasSuffix(why.Available, " holds 2, and train goes first") {
				t.Errorf("a later job waits because %+v", why)
			}
			later := jobOf("team", requestOf(1), false)
			later.Name = "later"
			tracker.KeepRest(later, 1, blocking)
			if _, _, blocking := tracker.Restrict(User{Role: "team"}, requestOf(1)); blocking.KeptFor != "train" {
				t.Errorf("the rest is kept for %q, want train", blocking.KeptFor)
			}
		})
	}
}

// Only the limit that blocks a job is kept for it: a job of its role may use other types.
func TestOtherLimitsAreNotKeptForBlockedJob(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: Quota{"V100": 4, "T4": 4}}}, nil)
	tracker.KeepRest(jobOf("team", requestOf(4, "V100"), false), 1, &Limit{Role: "team", Type: "V100", Max: 4 * MilliPerGPU})
	for gpuType, want := range map[string]int{"V100": 0, "T4": 4} {
		if _, got, _ := tracker.Restrict(User{Role: "team"}, requestOf(1, gpuType)); got != want {
			t.Errorf("%d tasks may start on %s, want %d", got, gpuType, want)
		}
	}
}

// A job is impossible if it could not start with all of its quota free.
func TestImpossibleLimit(t *testing.T) {
	entitlements := []RoleEntitlement{
		{Role: "team", Quota: Quota{AllTypes: 8, "V100": 4, "T4": 2}},
		{Role: "team/a", Quota: Quota{"V100": 3}},
	}
	for _, c := range []struct {
		name, role string
		r          gpu.Request
		gang       bool
		tasks      int
		want       string
	}{
		{"one task of all GPUs", "team", requestOf(8), false, 1, ""},
		{"one task of more than all GPUs", "team", requestOf(9), false, 1, "team *=8, holds 1"},
		{"tasks that start one by one", "team", requestOf(8), false, 5, ""},
		{"gang of all GPUs", "team", requestOf(4), true, 2, ""},
		{"gang of more than all GPUs", "team", requestOf(4), true, 3, "team *=8, holds 1"},
		{"as many as the type has", "team", requestOf(4, "V100"), false, 1, ""},
		{"more than the type has", "team", requestOf(5, "V100"), false, 1, "team V100=4, holds 1"},
		{"more than the type has in the role below", "team/a", requestOf(4, "V100"), false, 1, "team/a V100=3, holds 0"},
		{"gang on two types together", "team", requestOf(1, "V100", "T4"), true, 6, ""},
		{"gang larger than two types together", "team", requestOf(1, "V100", "T4"), true, 7, "team T4=2, holds 0"},
		{"gang on one of two types", "team", ofSameType(requestOf(1, "V100", "T4")), true, 4, ""},
		{"gang larger than each of two types", "team", ofSameType(requestOf(1, "V100", "T4")), true, 5, "team T4=2, holds 0"},
		{"gang on one type in either order", "team", ofSameType(requestOf(1, "T4", "V100")), true, 4, ""},
		{"type without a limit of its own", "team", requestOf(8, "A100"), false, 1, ""},
		{"type with a limit or one without", "team", requestOf(8, "V100", "A100"), false, 1, ""},
		{"excluded type does not count", "team",
			gpu.Request{GPUs: 3, Types: gpu.TypeSelector{Include: []string{"V100", "T4"}, Exclude: []string{"V100"}}}, false, 1,
			"team T4=2, holds 0"},
		{"any type, larger than each limit", "team", requestOf(6), false, 1, ""},
		{"no GPUs", "team", requestOf(0, "V100"), true, 99, ""},
		{"role without quota", "free", requestOf(99, "V100"), false, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := NewTracker(entitlements, nil)
			tracker.AddUsage("team", map[string]int{"V100": 1}, nil, 1)
			if got := describe(tracker.ImpossibleLimit(jobOf(c.role, c.r, c.gang), c.tasks)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Tasks that start together on GPUs of one type need room for all of them in the limit of that type. RestrictJob counts
// other tasks one by one.
func TestRestrictTogether(t *testing.T) {
	const all = job.MaxTasks
	for _, c := range []struct {
		name     string
		quota    Quota
		r        gpu.Request
		n        int
		kept     string // the job for which the rest of the V100 is kept
		tasks    int
		excluded []string
		limit    string
		tooSmall bool
	}{
		{"no limits", nil, ofSameType(requestOf(1)), 9, "", 9, nil, "", false},
		{"room for all", Quota{AllTypes: 5, "V100": 5}, ofSameType(requestOf(2)), 2, "", 2, nil, "", false},
		{"one more than all types allow", Quota{AllTypes: 5, "V100": 9}, ofSameType(requestOf(1)), 5, "", 0, nil, "team *=5, holds 1", false},
		{"more than all types ever allow", Quota{AllTypes: 5}, ofSameType(requestOf(3)), 2, "", 0, nil, "team *=5, holds 1", true},
		{"as many as all types ever allow", Quota{AllTypes: 4}, ofSameType(requestOf(2)), 2, "", 0, nil, "team *=4, holds 1", false},
		{"one more than a type allows", Quota{AllTypes: 9, "V100": 4}, ofSameType(requestOf(2)), 2, "", 2, []string{"V100"}, "team V100=4, holds 1", false},
		{"more than a type ever allows", Quota{"V100": 3}, ofSameType(requestOf(2)), 2, "", 2, []string{"V100"}, "team V100=3, holds 1", true},
		{"the only type has no room", Quota{"V100": 4}, ofSameType(requestOf(2, "V100")), 2, "", 0, []string{"V100"}, "team V100=4, holds 1", false},
		{"one of two types has room", Quota{"T4": 4, "V100": 4}, ofSameType(requestOf(2, "V100", "T4")), 2, "", 2, []string{"V100"}, "team V100=4, holds 1", false},
		{"other types do not matter", Quota{"V100": 2}, ofSameType(requestOf(2, "T4")), 2, "", 2, nil, "", false},
		{"the rest is kept", Quota{"V100": 4}, ofSameType(requestOf(1)), 1, "first", 1, []string{"V100"}, "team V100=4, holds 1, for first", false},
		{"the rest of another type is kept", Quota{"T4": 4, "V100": 4}, ofSameType(requestOf(1, "T4")), 4, "first", 4, nil, "", false},
		{"tasks of different types", Quota{"V100": 4}, requestOf(2), 2, "", 1, nil, "", false},
		{"tasks without a limit", nil, requestOf(2), 2, "", all, nil, "", false},
		{"tasks without GPUs", Quota{"V100": 4}, ofSameType(requestOf(0)), 2, "", all, nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: c.quota}}, nil)
			tracker.AddUsage("team", map[string]int{"V100": 1}, nil, 1)
			if c.kept != "" {
				tracker.kept["team"] = []Limit{{Role: "team", Type: "V100", KeptFor: c.kept}}
			}
			r, tasks, limit := tracker.RestrictJob(jobOf("team", c.r, true), c.r, c.n)
			got := describe(limit)
			if limit != nil && limit.KeptFor != "" {
				got += ", for " + limit.KeptFor
			}
			if tasks != c.tasks || got != c.limit || limit != nil && limit.TooSmall != c.tooSmall {
				t.Errorf("%d tasks by the limit %q (%+v), want %d by %q", tasks, got, limit, c.tasks, c.limit)
			}
			if c.tasks > 0 && !slices.Equal(r.Types.Exclude, c.excluded) {
				t.Errorf("excluded are %v, want %v", r.Types.Exclude, c.excluded)
			}
		})
	}
}

// The tightest limit has room for a task, and for fewer tasks than the other limits of the
// types that the job accepts.
func TestTightestLimit(t *testing.T) {
	entitlements := []RoleEntitlement{{Role: "team", Quota: Quota{AllTypes: 9, "V100": 4, "T4": 2}}}
	for _, c := range []struct {
		name string
		r    gpu.Request
		want string
	}{
		{"any type", requestOf(1), "team T4=2, holds 0"},
		{"limit without room for a task", requestOf(3), "team V100=4, holds 1"},
		{"limit of another type", requestOf(1, "V100"), "team V100=4, holds 1"},
		{"only all GPUs together", requestOf(1, "A100"), "team *=9, holds 1"},
		{"no limit has room", requestOf(9), "fallback *=0, holds 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := NewTracker(entitlements, nil)
			tracker.AddUsage("team", map[string]int{"V100": 1}, nil, 1)
			if got := describe(tracker.TightestLimit(jobOf("team", c.r, false), &Limit{Role: "fallback", Type: AllTypes})); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
