package sched

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// TestPermissionsFollowPolicyChange checks that each submission is checked, and that a new policy replaces the
// permissions.
func TestPermissionsFollowPolicyChange(t *testing.T) {
	spec := job.Spec{Name: "x", Image: "debian:12", Container: job.Container{Volumes: []job.Volume{{Source: "/data", Target: "/data"}}}}
	spec.SetDefaults()
	st := New(SchedulerSettings{}, RecoveredState{FrameworkID: "f"})
	st.Step(time.Unix(1, 0), SubmitJob{Spec: spec})
	if _, ok := st.Job("x"); ok || st.Admit(&spec) == nil {
		t.Error("a job without the permission was accepted")
	}
	st.Step(time.Unix(2, 0), PolicyChanged{Policy: Policy{Permissions: admission.HostPermissions{Volumes: []string{"/data"}}}})
	st.Step(time.Unix(3, 0), SubmitJob{Spec: spec})
	if _, ok := st.Job("x"); !ok {
		t.Error("a job did not get what is allowed now")
	}
	if err := (Policy{Permissions: admission.HostPermissions{Volumes: []string{"data"}}}).Validate(); err == nil || !strings.Contains(err.Error(), `"data" is not an absolute path`) {
		t.Errorf("got %v", err)
	}
}
