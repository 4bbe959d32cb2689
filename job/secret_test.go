package job

import (
	"fmt"
	"strings"
	"testing"
)

// The name of a secret is a path below the folder of secrets, and cannot lead out of it.
func TestIsSecretName(t *testing.T) {
	for name, want := range map[string]bool{
		"token": true, "team/db-password": true, "a.b_c-1": true, "...": true, ".hidden": true,
		strings.Repeat("a", 255): true, strings.Repeat("a", 256): false,
		"": false, "/etc/passwd": false, "team/": false, "a//b": false,
		".": false, "..": false, "../token": false, "team/../token": false, "team/..": false, "./token": false,
		"a b": false, "a\\b": false, "a\n": false, "é": false,
	} {
		if got := IsSecretName(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}

// Each mistake in the secrets of a job is reported once, with the variable that it concerns.
func TestValidateSecrets(t *testing.T) {
	many := func(n int) map[string]string {
		secrets := map[string]string{}
		for i := range n {
			secrets[fmt.Sprint("S", i)] = "token"
		}
		return secrets
	}
	for _, c := range []struct {
		name         string
		secrets, env map[string]string
		fields, want string
	}{
		{"valid", map[string]string{"TOKEN": "team/token"}, map[string]string{"OTHER": "x"}, "", ""},
		{"as many as allowed", many(MaxSecrets), nil, "", ""},
		{"too many", many(MaxSecrets + 1), nil, "secrets", "101 are more than 100"},
		{"name of a variable", map[string]string{"MY-TOKEN": "token"}, nil, `secrets["MY-TOKEN"]`, `"MY-TOKEN" is not a variable's name`},
		{"name of a secret", map[string]string{"TOKEN": "../token"}, nil, "secrets.TOKEN", `TOKEN: "../token" is not a secret's name`},
		{"variable that env sets too", map[string]string{"TOKEN": "token"}, map[string]string{"TOKEN": "x"}, "secrets.TOKEN env", "TOKEN is in env too"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := valid()
			s.Secrets, s.Env = c.secrets, c.env
			err := s.Validate()
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantMistake(t, err, c.fields, c.want)
		})
	}
}
