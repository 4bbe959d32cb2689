package quota

import (
	"strings"
	"testing"
)

// What roles deserve must be within their limits, and what a role deserves must be enough for the roles below it.
func TestValidateDeserved(t *testing.T) {
	for _, c := range []struct {
		name  string
		roles []RoleEntitlement
		want  []string // one error a line
	}{
		{"nothing is deserved", []RoleEntitlement{{Role: "a", Quota: Quota{AllTypes: 1}}, {Role: "a/b"}}, nil},
		{"as much as the limits", []RoleEntitlement{{Role: "a", Deserved: Quota{"V100": 2, "T4": 1}, Quota: Quota{"V100": 2, AllTypes: 3}}}, nil},
		{"more than a type's limit", []RoleEntitlement{{Role: "a", Deserved: Quota{"v100": 3}, Quota: Quota{"V100": 2}}}, []string{
			`role "a": it deserves v100=3, its limit is v100=2`,
		}},
		{"more than the limit of all types", []RoleEntitlement{{Role: "a", Deserved: Quota{"V100": 2, "T4": 2}, Quota: Quota{AllTypes: 3}}}, []string{
			`role "a": it deserves 4 GPUs, its limit is *=3`,
		}},
		{"all types count every GPU", []RoleEntitlement{{Role: "a", Deserved: Quota{"V100": 2, "T4": 2, AllTypes: 4}, Quota: Quota{AllTypes: 4}}}, nil},
		{"less of all types than of each", []RoleEntitlement{{Role: "a", Deserved: Quota{"V100": 2, "T4": 2, AllTypes: 3}}}, []string{
			`role "a": it deserves *=3, less than the 4 of its types together: * counts all GPUs`,
		}},
		{"as much as the roles below", []RoleEntitlement{
			{Role: "a", Deserved: Quota{"V100": 3}}, {Role: "a/b", Deserved: Quota{"v100": 2}}, {Role: "a/c/d", Deserved: Quota{"V100": 1}}, {Role: "a/c"},
			{Role: "other", Deserved: Quota{"V100": 9}},
		}, nil},
		{"less than the roles below", []RoleEntitlement{
			{Role: "a", Deserved: Quota{"V100": 3}}, {Role: "a/b", Deserved: Quota{"v100": 2}}, {Role: "a/c", Deserved: Quota{"V100": 2}},
		}, []string{
			`role "a" deserves V100=3, the roles below it (a/b, a/c) deserve V100=4 together`,
			`role "a" deserves *=3, the roles below it (a/b, a/c) deserve *=4 together`,
		}},
		{"a type that only the role below deserves", []RoleEntitlement{
			{Role: "a", Deserved: Quota{"V100": 3}}, {Role: "a/b", Deserved: Quota{"T4": 1, "V100": 1}},
		}, []string{`role "a" deserves T4=0, the roles below it (a/b) deserve T4=1 together`}},
		{"a type within all types", []RoleEntitlement{
			{Role: "a", Deserved: Quota{"V100": 1, AllTypes: 3}}, {Role: "a/b", Deserved: Quota{"T4": 2, "V100": 1, AllTypes: 3}},
		}, nil},
		{"more of a type than the role above, within all types", []RoleEntitlement{
			{Role: "a", Deserved: Quota{"V100": 1, AllTypes: 3}}, {Role: "a/b", Deserved: Quota{"V100": 2}},
		}, []string{`role "a" deserves V100=1, the roles below it (a/b) deserve V100=2 together`}},
		{"a role between two that deserves nothing", []RoleEntitlement{
			{Role: "a", Deserved: Quota{"V100": 1}}, {Role: "a/b"}, {Role: "a/b/c", Deserved: Quota{"V100": 2}},
		}, []string{
			`role "a" deserves V100=1, the roles below it (a/b/c) deserve V100=2 together`,
			`role "a" deserves *=1, the roles below it (a/b/c) deserve *=2 together`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if err := ValidateDeserved(c.roles); err != nil {
				got = err.Error()
			}
			if want := strings.Join(c.want, "\n"); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
