package cluster

import (
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
)

// TestQuotaShowsCPUsAndMemory: quota get and quota explain have CPUs and memory if roles deserve some, and the roles that
// borrow what the explained one lacks.
func TestQuotaShowsCPUsAndMemory(t *testing.T) {
	amount := func(n float64) *float64 { return &n }
	roles := []api.RoleStatus{
		{Name: "prod", Quota: map[string]int{}, Host: map[string]api.HostUse{
			"cpus": {Deserved: amount(32), Demanded: 40, Held: 12.5}, "mem": {Deserved: amount(65536), Demanded: 2560, Held: 2560},
		}},
		{Name: "lab", Quota: map[string]int{}, Host: map[string]api.HostUse{"cpus": {Demanded: 20, Held: 20}, "mem": {Demanded: 512, Held: 512}}},
	}
	var out strings.Builder
	p := &term.TablePrinter{Writer: &out}
	if err := printRoles(p, roles); err != nil {
		t.Fatal(err)
	}
	e := explainQuota(&roles[0], roles)
	if err := printQuotaExplanation(p, &e); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"cpus=32, mem=64GiB", "cpus=12.5, mem=2.5GiB", "cpus=20, mem=512MiB",
		"cpus 32 - 40 12.5 0 19.5", "mem 64GiB - 2.5GiB 2.5GiB 0GiB 0GiB", "lab cpus 20 - 20",
	} {
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	e = explainQuota(&api.RoleStatus{Name: "x", Quota: map[string]int{}}, nil)
	if len(e.Host)+len(e.HostBorrowers) > 0 {
		t.Errorf("without deserved CPUs and memory: %+v", e)
	}
}
