package job

import "testing"

func TestRunsAsOwner(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		want bool
	}{
		"process":              {Spec{Owner: "unix:alice", Container: Container{User: "alice"}}, true},
		"process of another":   {Spec{Owner: "unix:ops", Container: Container{User: "alice"}}, false},
		"token":                {Spec{Owner: "alice", Container: Container{User: "alice"}}, false},
		"no user":              {Spec{}, false},
		"image":                {Spec{Owner: "unix:alice", Image: "debian", Container: Container{User: "alice"}}, false},
		"image on the machine": {Spec{Owner: "unix:alice", Image: "debian", Container: Container{HostUser: &HostUser{UID: 1000}}}, true},
	} {
		if got := c.spec.RunsAsOwner(); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
