package queue

import (
	"strings"
	"testing"

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
