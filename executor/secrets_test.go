package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/executor/task"
)

// put creates a file below dir, with its parent folders.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSecretsBecomeVariables(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "web/db/password", "s3cr=t \n\n")
	put(t, dir, "web/empty", "")
	put(t, dir, "research%2Fvision/token", "theirs")
	put(t, dir, "research/vision/token", "not theirs")
	for _, c := range []struct {
		name, role    string
		secrets, want map[string]string
	}{
		{"without the line end", "web", map[string]string{"DB": "db/password", "NONE": "empty"}, map[string]string{"OWN": "x", "DB": "s3cr=t \n", "NONE": ""}},
		{"a role below another", "research/vision", map[string]string{"T": "token"}, map[string]string{"OWN": "x", "T": "theirs"}},
		{"none wanted", "unknown", nil, map[string]string{"OWN": "x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := map[string]string{"OWN": "x"}
			got, _, err := resolveSecrets(task.TaskSpec{Role: c.role, Env: own, Secrets: c.secrets}, dir)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if len(own) != 1 {
				t.Errorf("the task's own environment has changed: %v", own)
			}
		})
	}
}

func TestPullSecretIsAFileOfTheRole(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "web/team/registry", "{}")
	put(t, dir, "other/theirs", "{}")
	if err := os.Symlink("../../other/theirs", filepath.Join(dir, "web/team/link")); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := resolvePullSecret(task.TaskSpec{Role: "web", PullSecret: "team/registry"}, dir); err != nil || got != filepath.Join(real, "web/team/registry") {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := resolvePullSecret(task.TaskSpec{Role: "web"}, ""); err != nil || got != "" {
		t.Errorf("without a pull secret: got %q, %v", got, err)
	}
	for _, name := range []string{"absent", "team", "team/link", "../other/theirs"} {
		_, err := resolvePullSecret(task.TaskSpec{Role: "web", PullSecret: name}, dir)
		if want := fmt.Sprintf("pull_secret: %q of role \"web\"", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", name, err, want)
		}
	}
	if _, err := resolvePullSecret(task.TaskSpec{Role: "web", PullSecret: "team/registry"}, ""); err == nil ||
		!strings.Contains(err.Error(), "MESOS_GPU_SECRETS") {
		t.Errorf("agent without secrets: %v", err)
	}
}

// A secret's own file is mounted, with its owner and mode; nothing is copied.
func TestSecretsBecomeMounts(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "web/db/password", "s3cret\x00\n")
	if err := os.Symlink("db/password", filepath.Join(dir, "web", "current")); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(real, "web", "db", "password")
	env, got, err := resolveSecrets(task.TaskSpec{
		Role:        "web",
		Env:         map[string]string{"OWN": "x"},
		SecretFiles: map[string]string{"/run/db": "db/password", "key": "current"},
	}, dir)
	want := []task.HostMount{{Source: file, Target: "/run/db", ReadOnly: true}, {Source: file, Target: "key", ReadOnly: true}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(env) != 1 {
		t.Errorf("%v, %v (-want +got):\n%s", err, env, diff)
	}
}

// Invalid secrets are rejected, and the errors do not contain their values.
func TestInvalidSecretsAreRejected(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "other/token", "hidden")
	put(t, dir, "web/nul", "hidden\x00")
	put(t, dir, "web/large", "hidden"+strings.Repeat("x", maxSecretBytes))
	put(t, dir, "web/folder/x", "hidden")
	for name, to := range map[string]string{"web/out": "../other/token", "web/absolute": filepath.Join(dir, "other/token"), "web/in": "folder/x"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for secret, want := range map[string]string{
		"missing": "no such file", "nul": "it has a NUL byte", "large": "it has more than 122880 bytes", "folder": "not a regular file",
		"out": "escapes", "absolute": "escapes", "../other/token": "not a valid secret name", "/etc/passwd": "not a valid secret name",
	} {
		if _, mounts, err := resolveSecrets(task.TaskSpec{Role: "web", SecretFiles: map[string]string{"a": secret}}, dir); secret != "nul" &&
			secret != "large" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s as a file: got %v, %v; want …%s…", secret, mounts, err, want)
		}
		env, _, err := resolveSecrets(task.TaskSpec{Role: "web", Secrets: map[string]string{"A": secret}}, dir)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `of role "web"`) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: got %v, %v; want …%s…", secret, env, err, want)
		}
	}
	if env, _, err := resolveSecrets(task.TaskSpec{Role: "web", Secrets: map[string]string{"A": "in"}}, dir); err != nil || env["A"] != "hidden" {
		t.Errorf("a link within the folder: %v, %v", env, err)
	}
	for role, want := range map[string]string{
		"unknown": `open secrets of role "unknown"`,
		"..":      `role "..", which cannot have any`,
		"":        `role "", which cannot have any`,
	} {
		if _, _, err := resolveSecrets(task.TaskSpec{Role: role, Secrets: map[string]string{"A": "token"}}, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("role %q: %v", role, err)
		}
	}
	if _, _, err := resolveSecrets(task.TaskSpec{Role: "web", Secrets: map[string]string{"A": "b"}}, ""); err == nil ||
		!strings.Contains(err.Error(), "MESOS_GPU_SECRETS") {
		t.Errorf("without secrets: %v", err)
	}
}
