package sched

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func TestParseQuota(t *testing.T) {
	got, err := ParseQuota(" V100=8, A100 = 4 ,*=16,")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Quota{"V100": 8, "A100": 4, AllTypes: 16}, got); diff != "" {
		t.Error(diff)
	}
	if got.String() != "*=16, A100=4, V100=8" {
		t.Errorf("printed as %s", got)
	}
	for text, want := range map[string]string{
		"V100": "write TYPE=GPUS", "=3": "write TYPE=GPUS", "V100=-1": "write TYPE=GPUS", "V100=1.5": "write TYPE=GPUS",
		"V100=1, Tesla V100-SXM2-16GB=2": "stands twice", "*=1,*=2": "stands twice",
	} {
		if _, err := ParseQuota(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestRestrictToQuota: what a quota leaves of a request.
func TestRestrictToQuota(t *testing.T) {
	roles := []Role{{Name: "team", Quota: Quota{"V100": 4, AllTypes: 6}}, {Name: "team/a", Quota: Quota{"K80": 1}}, {Name: "free"}}
	l := newQuotaTracker(roles, []RunningTask{
		{Spec: &job.Spec{Role: "team/a"}, GPUTypes: map[string]int{"V100": 3}},
		{Spec: &job.Spec{Role: "team"}, GPUTypes: map[string]int{"": 1}},
		{Spec: &job.Spec{Role: "free"}, GPUTypes: map[string]int{"V100": 100}},
	})
	for _, c := range []struct {
		name, role string
		gpus       int
		types      []string
		tasks      int
		exclude    []string
		bound      string
	}{
		{"one more V100", "team", 1, []string{"V100"}, 1, nil, ""},
		{"no two more", "team", 2, []string{"V100"}, 0, []string{"V100"}, "V100"},
		{"others may be had", "team", 2, nil, 1, []string{"V100"}, "V100"},
		{"three pass the whole", "team/a", 3, []string{"A100"}, 0, nil, "*"},
		{"the child's own", "team/a", 2, []string{"K80", "A100"}, 1, []string{"K80"}, "K80"},
		{"no quota", "free", 8, nil, job.MaxTasks, nil, ""},
		{"no GPU", "team", 0, nil, job.MaxTasks, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, tasks, why := l.restrictToQuota(c.role, gpu.Request{GPUs: c.gpus, Types: gpu.TypeSelector{Include: c.types}})
			bound := ""
			if why != nil {
				bound = why.name
			}
			if tasks != c.tasks || bound != c.bound || cmp.Diff(c.exclude, got.Types.Exclude) != "" {
				t.Errorf("got %d tasks, without %v, bound by %q, want %d, %v, %q", tasks, got.Types.Exclude, bound, c.tasks, c.exclude, c.bound)
			}
		})
	}
}

// TestRestrictSharesToQuota: a share counts for at most as much as on the smallest
// device of its type.
func TestRestrictSharesToQuota(t *testing.T) {
	l := newQuotaTracker([]Role{{Name: "team", Quota: Quota{"V100": 1, AllTypes: 2}}}, []RunningTask{
		{Spec: &job.Spec{Role: "team"}, Shares: []gpu.DeviceShare{{UUID: "GPU-a", Type: "V100", MilliDevices: 250}, {UUID: "GPU-b", Type: "T4", MilliDevices: 500}}},
		{Spec: &job.Spec{Role: "team"}, Shares: []gpu.DeviceShare{{UUID: "GPU-a", Type: "V100", MilliDevices: 1000}}, Ended: true},
	})
	l.agents = []fit.AgentResources{{Inventory: []gpu.Device{{Model: "Tesla V100-SXM2-32GB", MemMiB: 32000}, {Model: "Tesla V100-SXM2-16GB", MemMiB: 16000}, {Model: "Tesla T4", MemMiB: 15360}}}}
	for _, c := range []struct {
		name    string
		gpus    int
		share   gpu.ShareRequest
		types   []string
		tasks   int
		exclude []string
	}{
		{"memory of the smaller V100", 1, gpu.ShareRequest{MemMiB: 4000}, []string{"V100"}, 3, nil},
		{"of two each", 2, gpu.ShareRequest{MemMiB: 4000}, []string{"V100"}, 1, nil},
		{"cores are more than memory", 1, gpu.ShareRequest{MemMiB: 4000, Cores: 40}, []string{"V100"}, 1, nil},
		{"percent", 1, gpu.ShareRequest{MemPercent: 15}, []string{"V100"}, 5, nil},
		{"alone", 1, gpu.ShareRequest{Cores: 100}, nil, 1, []string{"V100"}},
		{"all types together", 1, gpu.ShareRequest{MemMiB: 7680}, []string{"T4"}, 2, nil},
		{"a type that nobody has", 1, gpu.ShareRequest{MemMiB: 100}, []string{"A100"}, 1, nil},
		{"the least there is", 1, gpu.ShareRequest{MemMiB: 1}, []string{"T4"}, 1250, nil},
	} {
		got, tasks, _ := l.restrictToQuota("team", gpu.Request{GPUs: c.gpus, Share: c.share, Types: gpu.TypeSelector{Include: c.types}})
		if tasks != c.tasks || cmp.Diff(c.exclude, got.Types.Exclude) != "" {
			t.Errorf("%s: got %d tasks, without %v, want %d, %v", c.name, tasks, got.Types.Exclude, c.tasks, c.exclude)
		}
	}
	if got := l.weightedShare("team"); got != 750 {
		t.Errorf("the role holds %g thousandths, want 750", got)
	}
}

func TestValidateRoles(t *testing.T) {
	if err := ValidatePolicy(Policy{Roles: []Role{{Name: "*"}, {Name: "a/b", Weight: 2.5}}}); err != nil {
		t.Error(err)
	}
	err := ValidatePolicy(Policy{Roles: []Role{{Name: "a b"}, {Name: "c", Weight: -1}, {Name: "c"}}})
	for _, want := range []string{`role "a b"`, "weight -1", `role "c" stands twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
