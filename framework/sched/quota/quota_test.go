package quota

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func TestParse(t *testing.T) {
	got, err := Parse(" V100=8, A100 = 4 ,*=16,")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Quota{"V100": 8, "A100": 4, AllTypes: 16}, got); diff != "" {
		t.Error(diff)
	}
	if got.String() != "*=16, A100=4, V100=8" {
		t.Errorf("printed as %s", got)
	}
	if got, err := Parse("V100=0, T4=10000000"); err != nil || got.String() != "T4=10000000, V100=0" {
		t.Errorf("the smallest and the largest number: got %s, %v", got, err)
	}
	for text, want := range map[string]string{
		"V100": "write TYPE=GPUS", "=3": "write TYPE=GPUS", "V100=-1": "write TYPE=GPUS", "V100=1.5": "write TYPE=GPUS",
		"V100=10000001":               "write TYPE=GPUS",
		"V100=1, nvidia-tesla-v100=2": "appears twice", "*=1,*=2": "appears twice",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// A request loses the types of which its role may hold no more.
func TestRestrictExcludesTypesAtQuota(t *testing.T) {
	tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: Quota{"V100": 4, AllTypes: 6}}, {Role: "team/a", Quota: Quota{"K80": 1}}, {Role: "free"}}, nil)
	tracker.AddUsage("team/a", map[string]int{"V100": 3}, nil, 1)
	tracker.AddUsage("team", map[string]int{"": 1}, nil, 1)
	tracker.AddUsage("free", map[string]int{"V100": 100}, nil, 1)
	for _, c := range []struct {
		name, role string
		gpus       int
		types      []string
		tasks      int
		exclude    []string
		limit      string
	}{
		{"one GPU of the type left", "team", 1, []string{"V100"}, 1, nil, ""},
		{"type limit exceeded", "team", 2, []string{"V100"}, 0, []string{"V100"}, "V100"},
		{"type at limit is excluded", "team", 2, nil, 1, []string{"V100"}, "V100"},
		{"limit for all types exceeded", "team/a", 3, []string{"A100"}, 0, nil, "*"},
		{"limit of the child role", "team/a", 2, []string{"K80", "A100"}, 1, []string{"K80"}, "K80"},
		{"role without quota", "free", 8, nil, job.MaxTasks, nil, ""},
		{"request without GPUs", "team", 0, nil, job.MaxTasks, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, tasks, why := tracker.Restrict(User{Role: c.role}, gpu.Request{GPUs: c.gpus, Types: gpu.TypeSelector{Include: c.types}})
			limit := ""
			if why != nil {
				limit = why.Type
			}
			if tasks != c.tasks || limit != c.limit || cmp.Diff(c.exclude, got.Types.Exclude) != "" {
				t.Errorf("got %d tasks, without %v, limited by %q, want %d, %v, %q", tasks, got.Types.Exclude, limit, c.tasks, c.exclude, c.limit)
			}
		})
	}
}

// A share counts as much as it is on the smallest device of its type.
func TestRestrictCountsSharesByDeviceMemory(t *testing.T) {
	agents := []fit.AgentResources{{Inventory: []gpu.Device{
		{Model: "Tesla V100-SXM2-32GB", MemMiB: 32000},
		{Model: "Tesla V100-SXM2-16GB", MemMiB: 16000},
		{Model: "Tesla T4", MemMiB: 15360},
	}}}
	tracker := NewTracker([]RoleEntitlement{{Role: "team", Quota: Quota{"V100": 1, AllTypes: 2}}}, agents)
	tracker.AddUsage("team", nil, []gpu.DeviceShare{{UUID: "GPU-a", Type: "V100", MilliDevices: 250}, {UUID: "GPU-b", Type: "T4", MilliDevices: 500}}, 1)
	for _, c := range []struct {
		name    string
		gpus    int
		share   gpu.ShareRequest
		types   []string
		tasks   int
		exclude []string
	}{
		{"share of the smallest device", 1, gpu.ShareRequest{MemMiB: 4000}, []string{"V100"}, 3, nil},
		{"shares of two devices", 2, gpu.ShareRequest{MemMiB: 4000}, []string{"V100"}, 1, nil},
		{"cores exceed memory", 1, gpu.ShareRequest{MemMiB: 4000, Cores: 40}, []string{"V100"}, 1, nil},
		{"share in percent", 1, gpu.ShareRequest{MemPercent: 15}, []string{"V100"}, 5, nil},
		{"exclusive share", 1, gpu.ShareRequest{Cores: 100}, nil, 1, []string{"V100"}},
		{"limit for all types", 1, gpu.ShareRequest{MemMiB: 7680}, []string{"T4"}, 2, nil},
		{"unknown type", 1, gpu.ShareRequest{MemMiB: 100}, []string{"A100"}, 1, nil},
		{"smallest share", 1, gpu.ShareRequest{MemMiB: 1}, []string{"T4"}, 1250, nil},
	} {
		got, tasks, _ := tracker.Restrict(User{Role: "team"}, gpu.Request{GPUs: c.gpus, Share: c.share, Types: gpu.TypeSelector{Include: c.types}})
		if tasks != c.tasks || cmp.Diff(c.exclude, got.Types.Exclude) != "" {
			t.Errorf("%s: got %d tasks, without %v, want %d, %v", c.name, tasks, got.Types.Exclude, c.tasks, c.exclude)
		}
	}
	if got := tracker.WeightedShare("team"); got != 750 {
		t.Errorf("the role holds %g thousandths, want 750", got)
	}
}
