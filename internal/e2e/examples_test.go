package e2e

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLocalWithSchedulerFlags runs examples with mesos-gpu local and the scheduler's flags for
// roles, policies, volumes and secrets.
func TestLocalWithSchedulerFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("secrets/*/demo/token", "swordfish\n")
	roles := file("roles.yaml", "research: V100=1\nguests: {policy: spread}\n")
	guest := file("guest.yaml", "name: guest\nrole: guests\ngpus: 1\ncpus: 0.1\nmem: 128MiB\ncommand: echo ran\n")
	example := func(name string) string { return filepath.Join("..", "..", "examples", name) }
	for _, test := range []struct {
		name string
		args []string
		want string
		ends bool
	}{
		{"secrets", []string{"--run", example("secrets.yaml")}, "a token of 9 letters, and GPU-", true},
		{"fetch", []string{"--allow-volumes", "/etc", "--run", example("fetch.yaml")}, "\nNAME=", true},
		{"a roles file", []string{"--roles", roles, "--policy", "binpack", "--run", guest}, "\nran\n", true},
		{"a role", []string{"--role", "guests", "--run", guest}, "\nran\n", true},
		{"no such role", []string{"--role", "research", "--run", guest}, `role "guests": the scheduler has jobs of research`, false},
		{"no such policy", []string{"--policy", "tidy", "--run", guest}, `policy "tidy" is not one of`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), buildReleased(t), append([]string{
				"local", "--free-ports", "--gpus", "1xV100", "--work-dir", filepath.Join(makeWorkDir(t), "w"),
			}, test.args...)...)
			c.Env = append(os.Environ(), "MESOS_GPU_SECRETS="+filepath.Join(dir, "secrets"))
			out, err := c.CombinedOutput()
			if !strings.Contains(string(out), test.want) || (err == nil) != test.ends {
				t.Errorf("%v, and no %q in:\n%s", err, test.want, out)
			}
		})
	}
}

// TestServiceExample runs a service on a local cluster until it is interrupted. The health
// check reaches the task on its assigned port, and the service restarts the program when it
// ends.
func TestServiceExample(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, buildReleased(t), "local", "--free-ports", "--gpus", "1xV100", "--work-dir",
		filepath.Join(makeWorkDir(t), "w"), "--run", filepath.Join("..", "..", "examples", "service.yaml"))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	asked, again, text := false, false, strings.Builder{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		switch {
		case strings.Contains(lines.Text(), "was asked twice"):
			asked = true
		case strings.Contains(lines.Text(), "serves on") && asked:
			again = true
			cancel()
		}
	}
	c.Wait() // it was interrupted
	if !again {
		t.Errorf("the service did not answer and restart:\n%s", text.String())
	}
}
