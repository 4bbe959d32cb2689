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

// A token that identifies a unix user has its groups, and an issuer's unix users may be in any of its groups.
func TestUnixUsersCanSubmit(t *testing.T) {
	p := &AccessPolicy{
		RunAsOwner: true,
		Tokens:     []TokenEntry{{Name: "laptop", UnixUser: "alice", Groups: []string{"vision"}}},
		OIDC:       &OIDCConfig{UnixUserClaim: "login"},
		Rules: []PermissionRule{
			{Permission: Submit, Roles: []string{"research"}, Groups: []string{"vision"}},
			{Permission: Submit, Roles: []string{"lab"}, Groups: []string{"oidc:lab"}},
			{Permission: Submit, Roles: []string{"prod"}, Users: []string{"unix:bob"}},
		},
	}
	for _, c := range []struct {
		name, role string
		want       bool
	}{
		{"unix:alice", "research", true}, {"unix:bob", "research", false}, {"laptop", "research", false},
		{"unix:bob", "lab", true}, {"unix:bob", "prod", true}, {"unix:alice", "prod", false},
	} {
		if got := p.CanSubmit(c.name, c.role); got != c.want {
			t.Errorf("%s in %s: got %v, want %v", c.name, c.role, got, c.want)
		}
	}
	p.OIDC.UnixUserClaim = ""
	if p.CanSubmit("unix:bob", "lab") {
		t.Error("a user of the machine is in the issuer's groups")
	}
	if g := p.GrantFor(p.Tokens[0].Identity()); !g.CanRunAs("alice") || g.CanRunAs("root") || !g.HasPermission(Submit, "research") {
		t.Errorf("the token's user: %+v", g)
	}
}
