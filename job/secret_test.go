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

// A secret is mounted at a plain path that is free.
func TestValidateSecretFiles(t *testing.T) {
	one := func(target string) map[string]string { return map[string]string{target: "team/token"} }
	for _, c := range []struct {
		name, image  string
		files        map[string]string
		fields, want string
	}{
		{"absolute", "i", one("/run/secrets/db"), "", ""},
		{"in the sandbox", "i", one("keys/db"), "", ""},
		{"in the sandbox without an image", "", one("keys/db"), "", ""},
		{"absolute without an image", "", one("/run/db"), `secret_files["/run/db"] image`,
			"/run/db needs an image: without one write a path in the sandbox, such as db"},
		{"above the sandbox", "i", one("../db"), `secret_files["../db"]`, `"../db" is not a path of a file`},
		{"the sandbox", "i", one("."), `secret_files["."]`, `"." is not a path`},
		{"the devices", "i", one("/dev"), `secret_files["/dev"]`, `"/dev" is not a path`},
		{"not plain", "i", one("/run/db/"), `secret_files["/run/db/"]`, `"/run/db/" is not a path`},
		{"with a colon", "i", one("/run/d:b"), `secret_files["/run/d:b"]`, `"/run/d:b" is not a path`},
		{"too long", "i", one("/" + strings.Repeat("x", maxSecretPath)), "secret_files[", "is not a path"},
		{"at a volume", "i", one("/v"), `secret_files["/v"] volumes`, "a file and a volume, are at /v"},
		{"twice", "i", map[string]string{"db": "a", "/mnt/mesos/sandbox/db": "b"}, `secret_files.db volumes`, "are at /mnt/mesos/sandbox/db"},
		{"name of a secret", "i", map[string]string{"db": "../token"}, "secret_files.db", `db: "../token" is not a secret's name`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := valid()
			s.Containerizer, s.Image, s.SecretFiles = Mesos, c.image, c.files
			if c.image != "" {
				s.Volumes = []Volume{{Source: "/data", Target: "/v"}}
			}
			err := s.Validate()
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if c.name == "too long" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Error(err)
				}
				return
			}
			wantMistake(t, err, c.fields, c.want)
		})
	}
	s := valid()
	s.Secrets, s.SecretFiles = map[string]string{}, map[string]string{}
	for i := range 51 {
		s.Secrets[fmt.Sprint("S", i)], s.SecretFiles[fmt.Sprint("s", i)] = "a", "a"
	}
	wantMistake(t, s.Validate(), "secrets secret_files", "102 are more than 100")
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
		{"too many", many(MaxSecrets + 1), nil, "secrets secret_files", "101 are more than 100"},
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

func TestValidatePullSecret(t *testing.T) {
	for _, c := range []struct {
		name, image  string
		container    Containerizer
		secret       string
		fields, want string
	}{
		{"docker", "i", Docker, "team/registry", "", ""},
		{"not a name", "i", Docker, "/etc/registry", "pull_secret", `"/etc/registry" is not a secret's name`},
		{"no image", "", Mesos, "registry", "pull_secret image", "there is no image to pull"},
		{"mesos", "i", Mesos, "registry", "pull_secret container", "needs container: docker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := valid()
			s.Image, s.Containerizer, s.PullSecret = c.image, c.container, c.secret
			if err := s.Validate(); c.want != "" {
				wantMistake(t, err, c.fields, c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
