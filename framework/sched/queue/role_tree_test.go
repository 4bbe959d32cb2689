package queue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// The tasks of large jobs are divided in portions: roles receive GPUs by weight, level by level.
func TestPortionsFollowWeights(t *testing.T) {
	for _, c := range []struct {
		name  string
		roles []Role
		held  map[string]int // GPUs
		gpus  map[string]int // of each task, by the role of the waiting jobs
		room  int            // GPUs
		want  string         // what roles receive
	}{
		{"one role takes all", []Role{{Name: "a"}, {Name: "b"}}, nil, map[string]int{"a": 1}, 8, "a 8"},
		{"by weight", []Role{{Name: "gold", Weight: 3}, {Name: "bronze"}}, nil, map[string]int{"gold": 1, "bronze": 1}, 8, "bronze 2, gold 6"},
		{"what is held counts", []Role{{Name: "gold", Weight: 3}, {Name: "bronze"}}, map[string]int{"bronze": 4}, map[string]int{"gold": 1, "bronze": 1}, 8, "gold 8"},
		{"large tasks", []Role{{Name: "gold", Weight: 3}, {Name: "bronze"}}, nil, map[string]int{"gold": 1, "bronze": 2}, 16, "bronze 4, gold 12"},
		{
			"level by level", []Role{{Name: "prod", Weight: 3}, {Name: "lab"}, {Name: "lab/x", Weight: 9}, {Name: "lab/y", Weight: 3}}, nil,
			map[string]int{"prod": 1, "lab/x": 1, "lab/y": 1}, 64, "lab/x 12, lab/y 4, prod 48",
		},
		{
			"the jobs of a role compete with those below it", []Role{{Name: "lab"}, {Name: "lab/x", Weight: 3}, {Name: "prod"}}, nil,
			map[string]int{"prod": 1, "lab": 1, "lab/x": 1}, 16, "lab 2, lab/x 6, prod 8",
		},
		{
			"what a sibling without jobs holds counts for the role above", []Role{{Name: "lab"}, {Name: "lab/x"}, {Name: "lab/y"}, {Name: "prod"}},
			map[string]int{"lab/y": 6}, map[string]int{"prod": 1, "lab/x": 1}, 10, "lab/x 2, prod 8",
		},
		{
			"beyond what roles deserve", []Role{{Name: "a", Deserved: quota.Quota{"*": 6}}, {Name: "b"}}, map[string]int{"a": 6},
			map[string]int{"a": 1, "b": 1}, 4, "a 2, b 2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			usage := quota.NewTracker(Entitlements(c.roles), nil)
			for role, gpus := range c.held {
				usage.AddUsage(role, map[string]int{"V100": gpus}, nil, 1)
			}
			var jobs []WaitingJob
			for _, role := range slices.Sorted(maps.Keys(c.gpus)) {
				jobs = append(jobs, WaitingJob{
					Spec:  &job.Spec{Name: role, Role: role, Request: gpu.Request{GPUs: c.gpus[role]}},
					Tasks: make([]WaitingTask, 100),
				})
			}
			got, left := map[string]int{}, c.room
			order := NewJobOrder(noon(), jobs, c.roles, usage)
			for j, ok := order.Next(); ok; j, ok = order.Next() {
				role, each := j.Spec.Role, c.gpus[j.Spec.Role]
				n := min(order.Portion(j), left/each)
				if n == 0 {
					continue // the job waits
				}
				got[role], left = got[role]+n*each, left-n*each
				usage.AddUsage(role, map[string]int{"V100": n * each}, nil, 1)
				order.Continue(j.Tasks[n:], nil)
			}
			var parts []string
			for _, role := range slices.Sorted(maps.Keys(got)) {
				parts = append(parts, fmt.Sprintf("%s %d", role, got[role]))
			}
			if text := strings.Join(parts, ", "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// With a recent usage, a portion ends where another user of the role is next.
func TestPortionsAlternateBetweenUsers(t *testing.T) {
	jobs := []WaitingJob{
		{Spec: &job.Spec{Name: "a", Role: "r", Owner: "ann", Request: gpu.Request{GPUs: 1}}, Tasks: make([]WaitingTask, 10)},
		{Spec: &job.Spec{Name: "b", Role: "r", Owner: "bob", Request: gpu.Request{GPUs: 1}}, Tasks: make([]WaitingTask, 10)},
	}
	usage := quota.NewTracker(nil, nil)
	usage.SetRecentUsage(&quota.RecentUsage{Held: map[quota.User]int{{Role: "r", Name: "ann"}: 2 * quota.MilliPerGPU}})
	got, left := map[string]int{}, 8
	order := NewJobOrder(noon(), jobs, nil, usage)
	for j, ok := order.Next(); ok && left > 0; j, ok = order.Next() {
		n := min(order.Portion(j), left)
		got[j.Spec.Owner], left = got[j.Spec.Owner]+n, left-n
		usage.AddUsage("r", map[string]int{"V100": n}, nil, 1)
		order.Continue(j.Tasks[n:], nil)
	}
	if got["ann"] != 3 || got["bob"] != 5 {
		t.Errorf("got %v, want 3 for ann, who holds 2, and 5 for bob", got)
	}
}

func TestRoleSharesLargerThan(t *testing.T) {
	roles := []Role{{Name: "lab"}, {Name: "lab/x", Weight: 2}, {Name: "lab/y"}, {Name: "prod"}, {Name: "guests"}}
	usage := quota.NewTracker(Entitlements(roles), nil)
	for role, gpus := range map[string]int{"lab/x": 2, "lab/y": 2, "prod": 3, "guests": 4} {
		usage.AddUsage(role, map[string]int{"V100": gpus}, nil, 1)
	}
	shares := NewRoleShares(roles, usage)
	for role, want := range map[string]string{
		"prod":   "guests lab/y lab/x lab", // lab holds 4, as guests
		"lab/x":  "lab/y",
		"lab/y":  "",
		"guests": "",
		"other":  "guests lab/y lab/x lab prod", // not configured, holds nothing
	} {
		if got := strings.Join(shares.LargerThan(role, false), " "); got != want {
			t.Errorf("%s: got %q, want %q", role, got, want)
		}
	}
}
