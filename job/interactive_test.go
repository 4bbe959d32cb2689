package job

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A client whose launch was lost right after it had taken the session may be launched again; another client may not. The task
// ends with the exit code of the command.
func TestLostLaunchOfAClientIsRepeated(t *testing.T) {
	sandbox := t.TempDir()
	start := func(argv []string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		c.Env = append(os.Environ(), "MESOS_SANDBOX="+sandbox)
		return c
	}
	s := &Spec{Name: "shell", Command: []string{"sh", "-c", "echo runs; exit 7"}, TTY: true, KillGrace: time.Second}
	task := start(s.WithClientHolder().Command)
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(sandbox, ".mesos-gpu-session")
	if out, err := start([]string{"sh", "-c", `until [ -p "$1/ctl" ]; do sleep 0.01; done; echo mesos-gpu-a >"$1/mesos-gpu-a" && ln "$1/mesos-gpu-a" "$1/attached"`,
		"sh", folder}).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := start(s.AttachCommand("b")).CombinedOutput(); err == nil || !strings.Contains(string(out), "the task has a client already, or had one") {
		t.Errorf("another client: %v: %s", err, out)
	}
	if out, err := start(s.AttachCommand("a")).CombinedOutput(); string(out) != "runs\n" || err == nil || err.Error() != "exit status 7" {
		t.Errorf("the same client again: %v: %s", err, out)
	}
	if err := task.Wait(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("the task ended with %v", err)
	}
}
