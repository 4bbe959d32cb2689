package quota

import (
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestMesosQuota: Mesos's quota of a role limits whole GPUs of the role and of the roles below it, whatever roles the
// scheduler has. What other frameworks use of it delays no task that has an offer, but nothing is reserved beyond it.
func TestMesosQuota(t *testing.T) {
	whole, share := gpu.Request{GPUs: 1}, gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemPercent: 50}}
	spec := &job.Spec{Role: "eng/ml", Request: whole}
	for _, c := range []struct {
		name        string
		quota       MesosQuota
		whole, half int // of the role's tasks
		request     gpu.Request
		tasks       int
		claims      int
		note        string
	}{
		{"no tasks", MesosQuota{Role: "eng", Limit: 3}, 0, 0, whole, 3, 3, ""},
		{"two are held", MesosQuota{Role: "eng/ml", Limit: 3, Used: 2}, 2, 0, whole, 1, 1, ""},
		{"shares do not count", MesosQuota{Role: "eng", Limit: 3, Used: 1}, 1, 4, whole, 2, 2, ""},
		{"shares are not limited", MesosQuota{Role: "eng", Limit: 0}, 0, 1, share, job.MaxTasks, job.MaxTasks, ""},
		{"others use one", MesosQuota{Role: "eng", Limit: 3, Used: 3}, 2, 0, whole, 1, 0, "; Mesos's quota of role eng allows 3 GPUs, frameworks use 3"},
		{"the report is old", MesosQuota{Role: "eng", Limit: 3, Used: 1}, 2, 0, whole, 1, 1, ""},
		{"another role", MesosQuota{Role: "eng/m", Limit: 0}, 2, 0, whole, job.MaxTasks, job.MaxTasks, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := NewTracker(nil, nil)
			u.SetMesosQuotas([]MesosQuota{c.quota})
			u.AddUsage("eng/ml", map[string]int{"V100": c.whole}, []gpu.DeviceShare{{Type: "V100", MilliDevices: 500 * c.half}}, 1)
			if _, got, _ := u.Restrict(UserOf(spec), c.request); got != c.tasks {
				t.Errorf("%d tasks may start, want %d", got, c.tasks)
			}
			if _, got := u.RestrictClaim(spec, c.request, 1); got != c.claims {
				t.Errorf("%d tasks may be reserved for, want %d", got, c.claims)
			}
			if got := u.MesosQuotaNote(spec); got != c.note {
				t.Errorf("note %q, want %q", got, c.note)
			}
		})
	}
}
