package access

import "testing"

// The owner of a schedule is checked without a token, so that only groups of the file are
// known.
func TestCanSubmit(t *testing.T) {
	p := &AccessPolicy{
		Tokens: []TokenEntry{{Name: "ci", Groups: []string{"bots"}}, {Name: "reader"}},
		OIDC:   &OIDCConfig{},
		Rules: []PermissionRule{
			{Permission: Submit, Roles: []string{"research"}, Groups: []string{"bots", "oidc:lab"}},
			{Permission: Operate, Roles: []string{"prod"}, Users: []string{"oidc:ada", "gone"}},
			{Permission: View, Roles: []string{"prod"}, Users: []string{"reader"}},
		},
	}
	for _, c := range []struct {
		name, role string
		want       bool
	}{
		{"ci", "research", true}, {"ci", "research/vision", true}, {"ci", "prod", false},
		{"reader", "prod", false}, {"gone", "prod", false}, {"", "research", false},
		{"oidc:ada", "prod", true}, {"oidc:bob", "prod", false}, {"oidc:bob", "research", true},
	} {
		if got := p.CanSubmit(c.name, c.role); got != c.want {
			t.Errorf("%s in %s: got %v, want %v", c.name, c.role, got, c.want)
		}
	}
	p.OIDC = nil
	if p.CanSubmit("oidc:ada", "prod") {
		t.Error("ada may submit without any permission")
	}
}
