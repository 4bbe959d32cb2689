package queue

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func TestValidateRolesReportsEachError(t *testing.T) {
	if err := ValidateRoles([]Role{{Name: "*"}, {Name: "a/b", Weight: 2.5}}); err != nil {
		t.Error(err)
	}
	err := ValidateRoles([]Role{{Name: "a b"}, {Name: "c", Weight: -1}, {Name: "c"}})
	for _, want := range []string{`role "a b"`, "weight -1", `role "c" appears twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestValidateRetention(t *testing.T) {
	for _, c := range []struct {
		runs int
		age  time.Duration
		want string
	}{
		{0, 0, ""},
		{1, time.Hour, ""},
		{maxKeepRuns, 0, ""},
		{-1, 0, "keep_runs -1 is not between 1 and 1000"},
		{maxKeepRuns + 1, 0, "keep_runs 1001 is not between 1 and 1000"},
		{1, -time.Second, "keep_ended -1s is negative"},
	} {
		err, ofRole := ValidateRetention(c.runs, c.age), ValidateRoles([]Role{{Name: "lab", KeepRuns: c.runs, KeepEnded: c.age}})
		if c.want == "" && err == nil && ofRole == nil {
			continue
		}
		if err == nil || err.Error() != c.want || ofRole == nil || ofRole.Error() != `role "lab": `+c.want {
			t.Errorf("%d runs for %s: got %v and %v, want %q", c.runs, c.age, err, ofRole, c.want)
		}
	}
}

// Tasks that have ended count against no quota.
func TestEndedTasksDoNotCountAgainstQuota(t *testing.T) {
	usage := quota.NewTracker(nil, nil)
	CountUsage(usage, []RunningTask{
		{Spec: &job.Spec{Role: "a"}, GPUTypes: map[string]int{"V100": 2}},
		{Spec: &job.Spec{Role: "a"}, GPUTypes: map[string]int{"V100": 1}},
		{Spec: &job.Spec{Role: "b"}, Shares: []gpu.DeviceShare{{UUID: "GPU-a", Type: "T4", MilliDevices: 250}}},
		{Spec: &job.Spec{Role: "b"}, GPUTypes: map[string]int{"T4": 1}, Ended: true},
	})
	if a, b := usage.TotalHeld("a"), usage.TotalHeld("b"); a != 3000 || b != 250 {
		t.Errorf("roles hold %d and %d thousandths, want 3000 and 250", a, b)
	}
}
