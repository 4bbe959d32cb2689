package quota

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	a100Large = "NVIDIA A100-SXM4-80GB"
	a100Small = "NVIDIA A100-SXM4-40GB"
	a100Slice = "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
)

// agentWithProducts returns an agent with one device of each product.
func agentWithProducts(products ...string) fit.AgentResources {
	a := fit.AgentResources{ID: "a", TotalGPUs: len(products)}
	for _, model := range products {
		a.Inventory = append(a.Inventory, gpu.Device{UUID: model, Model: model})
	}
	return a
}

// A device counts in each entry whose name includes it, and an entry restricts only requests that may get such devices.
func TestPreciseEntries(t *testing.T) {
	entries := Quota{"A100": 3, "A100-80GB": 1, "1g.10gb": 1}
	for _, c := range []struct {
		name     string
		held     map[string]int
		request  gpu.Request
		tasks    int
		excluded string // by the limit that has no room
	}{
		{"nothing held", nil, requestOf(1, "A100"), 1, ""}, // all may be of 80 GB
		{"a precise entry is full", map[string]int{a100Large: 1}, requestOf(1, "A100"), 2, "A100-80GB"},
		{"a precise request of a full entry", map[string]int{a100Large: 1}, requestOf(1, "NVIDIA-A100-SXM4-80GB"), 0, "A100-80GB"},
		{"a precise request of another product", map[string]int{a100Large: 1}, requestOf(1, "A100-40GB"), 2, ""},
		{"the family is full", map[string]int{a100Small: 3}, requestOf(1, "A100-80GB"), 0, "A100"},
		{"a MIG device counts in its profile and its GPU", map[string]int{a100Slice: 1}, requestOf(1, "1g.10gb"), 0, "1g.10gb"},
		{"a MIG device counts in the family", map[string]int{a100Slice: 1}, requestOf(1, "A100-40GB"), 2, ""},
		{"another family", map[string]int{a100Large: 3}, requestOf(1, "V100"), job.MaxTasks, ""},
		{"no more is known than the family", map[string]int{"A100": 1}, requestOf(1, "A100-80GB"), 0, "A100-80GB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracker := NewTracker([]RoleEntitlement{{Role: "r", Quota: entries}}, []fit.AgentResources{agentWithProducts(a100Large, a100Small, a100Slice)})
			tracker.AddUsage("r", c.held, nil, 1)
			got, tasks, limit := tracker.Restrict(User{Role: "r"}, c.request)
			excluded := ""
			if limit != nil {
				excluded = limit.Type
			}
			if tasks != c.tasks || excluded != c.excluded {
				t.Errorf("%d tasks may start, limited by %q, want %d by %q", tasks, excluded, c.tasks, c.excluded)
			}
			if c.excluded == "A100-80GB" && tasks > 0 && (got.AcceptsProduct(gpu.Product{Model: a100Large}) || !got.AcceptsProduct(gpu.Product{Model: a100Small})) {
				t.Errorf("the request accepts %s, want the 40 GB product only", got.Types)
			}
		})
	}
}

// A constraint by a pattern of product names is restricted by the entries of the products that it matches.
func TestPatternsAreRestrictedByEntries(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "r", Quota: Quota{"A100": 1}}}, []fit.AgentResources{agentWithProducts(a100Large)})
	tracker.AddUsage("r", map[string]int{a100Large: 1}, nil, 1)
	spec := job.Spec{Request: gpu.Request{GPUs: 1}, Constraints: []job.Constraint{{Field: job.GPUTypeField, Operator: job.Like, Value: ".*80GB"}}}
	spec.Request.Types.Rules = spec.GPUTypeRules()
	got, _, limit := tracker.Restrict(User{Role: "r"}, spec.Request)
	if limit == nil || got.AcceptsProduct(gpu.Product{Model: a100Large}) {
		t.Errorf("limit %v, the request accepts %s: want the entry A100 to exclude it", describe(limit), got.Types)
	}
}

// What roles deserve is counted by product if an entry is precise.
func TestDeservedByProduct(t *testing.T) {
	entitlements := []RoleEntitlement{{Role: "r", Deserved: Quota{"A100-80GB": 1}}, {Role: "other", Deserved: Quota{"A100": 1}}}
	tracker := NewTracker(entitlements, []fit.AgentResources{agentWithProducts(a100Large, a100Small)})
	spec := jobOf("r", requestOf(1, "A100"), false)
	r, tasks := tracker.RestrictToDeserved(spec, 0, 2)
	if tasks != 1 || r.AcceptsProduct(gpu.Product{Model: a100Small}) || !r.AcceptsProduct(gpu.Product{Model: a100Large}) {
		t.Errorf("%d tasks of %s are inside what the role deserves, want 1 with 80 GB", tasks, r.Types)
	}
	tracker.AddUsage("r", map[string]int{a100Small: 1}, nil, 1)
	if _, tasks = tracker.RestrictToDeserved(spec, 0, 2); tasks != 1 {
		t.Errorf("a GPU of 40 GB uses what the role deserves of 80 GB: %d tasks, want 1", tasks)
	}
	tracker.AddUsage("r", map[string]int{a100Large: 1}, nil, 1)
	if _, tasks = tracker.RestrictToDeserved(spec, 0, 2); tasks != 0 {
		t.Errorf("%d tasks are inside what the role deserves, want none", tasks)
	}
}

func TestUsageHasPreciseEntries(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "r", Quota: Quota{"A100-80GB": 4, AllTypes: 9}}}, nil)
	tracker.AddUsage("r", map[string]int{a100Large: 1, a100Small: 2, "Tesla T4 15109MiB": 1}, nil, 1)
	if diff := cmp.Diff(map[string]int{AllTypes: 4000, "A100": 3000, "A100-80GB": 1000, "T4": 1000}, tracker.UsageByType("r")); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestTotalOfDeservedCountsOnce(t *testing.T) {
	for want, q := range map[int]Quota{
		8:  {"A100": 8, "A100-80GB": 2},
		10: {"A100-40GB": 8, "A100-80GB": 2},
		3:  {"A100": 8, AllTypes: 3},
	} {
		if got := q.Total(); got != want {
			t.Errorf("%s is %d in all, want %d", q, got, want)
		}
	}
}

// A quota rejects names that cannot be of a GPU type; one that an earlier release has stored keeps its limits.
func TestParseRejectsNames(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("A", 5000) + "=1": "more than 100",
		"A100\x00=1":                     "is not allowed",
		"V100|A100=1":                    "is not allowed",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
		if q, err := ParseStored(text); err != nil || len(q) != 1 {
			t.Errorf("stored %.20q: %v, %v", text, q, err)
		}
	}
	if q, err := Parse("A100=4, A100-80GB=2, 1g.10gb=7"); err != nil || len(q) != 3 {
		t.Errorf("%v, %v", q, err)
	}
	if _, err := Parse("A100-80GB=4, nvidia_a100_80gb=2"); err == nil {
		t.Error("one name in two spellings is no error")
	}
}

// A quota that excludes all present GPUs of a job is the reason why it waits.
func TestExcludesPresentGPUs(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "r", Quota: Quota{"A100-80GB": 1}}}, []fit.AgentResources{agentWithProducts(a100Large)})
	tracker.AddUsage("r", map[string]int{a100Large: 1}, nil, 1)
	for _, c := range []struct {
		request gpu.Request
		want    bool
	}{{requestOf(1), true}, {requestOf(1, "A100"), true}, {requestOf(1, "V100"), false}} {
		restricted, _, limit := tracker.Restrict(User{Role: "r"}, c.request)
		if got := tracker.ExcludesPresentGPUs(limit, &c.request, &restricted); got != c.want {
			t.Errorf("%s: %t, want %t", c.request, got, c.want)
		}
	}
}
