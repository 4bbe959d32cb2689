package access

import "testing"

// The owner of a schedule is asked for without a token, so that nobody's
// groups but those of the file are known.
func TestMaySubmit(t *testing.T) {
	p := &Policy{
		Tokens: []Token{{Name: "ci", Groups: []string{"bots"}}, {Name: "reader"}},
		OIDC:   &OIDC{},
		Rules: []Rule{
			{May: Submit, Roles: []string{"research"}, Groups: []string{"bots", "oidc:lab"}},
			{May: Operate, Roles: []string{"prod"}, Users: []string{"oidc:ada", "gone"}},
			{May: View, Roles: []string{"prod"}, Users: []string{"reader"}},
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
		if got := p.MaySubmit(c.name, c.role); got != c.want {
			t.Errorf("%s in %s: got %v, want %v", c.name, c.role, got, c.want)
		}
	}
	p.OIDC = nil
	if p.MaySubmit("oidc:ada", "prod") {
		t.Error("nobody vouches for ada any more")
	}
}
