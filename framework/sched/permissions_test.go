package sched

import (
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
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
	if err := (Policy{Permissions: admission.HostPermissions{Volumes: []string{"data"}}}).Validate(); err == nil ||
		!strings.Contains(err.Error(), `"data" is not an absolute path`) {
		t.Errorf("got %v", err)
	}
}

// TestLaunchesHaveVolumesOfTheirRole checks that a launch has the names of its volumes on the engine and the hosts to fetch
// from, as the policy permits at that time, and that the job keeps the names of its user.
func TestLaunchesHaveVolumesOfTheirRole(t *testing.T) {
	permissions := admission.HostPermissions{AllowList: &admission.SpecAllowList{
		Images:      []string{"*"},
		Networks:    []string{"*"},
		RoleVolumes: true,
		FetchHosts:  job.FetchHosts{"example.org"},
	}}
	spec := job.Spec{
		Name:      "x",
		Image:     "debian:12",
		CPUs:      1,
		MemMiB:    64,
		Container: job.Container{Volumes: []job.Volume{{Source: "model", Target: "/m"}}, Fetch: []job.FetchArtifact{{URI: "https://example.org/x"}}},
	}
	spec.Command = []string{"true"}
	spec.SetDefaults()
	spec.Request.GPUs = 1
	st := New(SchedulerSettings{Policy: Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "prod"}}}, Permissions: permissions}},
		RecoveredState{FrameworkID: "f"})
	st.Step(time.Unix(1, 0), Subscribed{FrameworkID: "f"})
	st.Step(time.Unix(1, 0), SubmitJob{Spec: spec})
	st.Step(time.Unix(1, 0), OffersReceived{Offers: []Offer{{ID: "o", AgentID: "a", Hostname: "a", Role: "prod",
		Free: Amount{CPUs: 4, MemMiB: 4096}, GPUs: 1, DeviceIDs: []string{"GPU-a"}, Types: []string{"V100"}}}})
	ops := st.Step(time.Unix(1, 0), Cycle{})
	for _, op := range ops {
		accept, ok := op.(AcceptOffers)
		if !ok {
			continue
		}
		l := accept.Launches[0]
		if got := l.Spec.Volumes[0].Source; got != "mesos-gpu.prod.model" || !slices.Equal(l.FetchHosts, job.FetchHosts{"example.org"}) {
			t.Errorf("launched with volume %s and files from %v", got, l.FetchHosts)
		}
		if j, _ := st.Job("x"); j.Spec.Volumes[0].Source != "model" {
			t.Errorf("the job has volume %s now", j.Spec.Volumes[0].Source)
		}
		return
	}
	t.Fatalf("the task was not launched: %v", ops)
}
