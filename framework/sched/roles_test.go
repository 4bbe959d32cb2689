package sched

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestNarrow: what a quota leaves of a request.
func TestNarrow(t *testing.T) {
	roles := []Role{{Name: "team", Quota: Quota{"V100": 4, AllTypes: 6}}, {Name: "team/a", Quota: Quota{"K80": 1}}, {Name: "free"}}
	l := newLedger(roles, []Running{
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
			got, tasks, why := l.narrow(c.role, gpu.Request{GPUs: c.gpus, Types: gpu.Types{Include: c.types}})
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

func TestValidateRoles(t *testing.T) {
	if err := CheckPolicy(Policy{Roles: []Role{{Name: "*"}, {Name: "a/b", Weight: 2.5}}}); err != nil {
		t.Error(err)
	}
	err := CheckPolicy(Policy{Roles: []Role{{Name: "a b"}, {Name: "c", Weight: -1}, {Name: "c"}}})
	for _, want := range []string{`role "a b"`, "weight -1", `role "c" stands twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
