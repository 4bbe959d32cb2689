package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// TestUnitsPassSystemdAnalyze checks that systemd-analyze accepts the units without a warning,
// and that their exposure level (0 is closed, 10 is open) is the one in
// docs/guides/operations.md.
func TestUnitsPassSystemdAnalyze(t *testing.T) {
	analyze := testneeds.RequireProgram(t, "systemd-analyze", "systemd")
	dir := t.TempDir()
	for unit, exposure := range map[string]string{"mesos-gpu-scheduler.service": "1.1", "mesos-gpu-agent.service": "3.7"} {
		text := readFile(t, "systemd/"+unit)
		for _, program := range []string{"/usr/lib/mesos-gpu/daemon", "/usr/bin/mesos-gpu", "/usr/bin/nvidia-modprobe"} {
			text = strings.ReplaceAll(text, program+" ", "/bin/true ") // a program that exists
		}
		path := filepath.Join(dir, unit)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true",
			"--threshold="+strings.ReplaceAll(exposure, ".", ""), path).CombinedOutput()
		if err != nil {
			t.Errorf("%s is more exposed than %s: %v\n%s", unit, exposure, err, out)
		}
		if !strings.Contains(readFile(t, "../docs/guides/operations.md"), exposure) {
			t.Errorf("docs/guides/operations.md does not say that %s has %s", unit, exposure)
		}
	}
}

// TestLocalUnitKeepsTasks checks that systemd-analyze accepts the unit of a single machine, and
// that neither a stop of the service nor its configuration ends tasks.
func TestLocalUnitKeepsTasks(t *testing.T) {
	analyze := testneeds.RequireProgram(t, "systemd-analyze", "systemd")
	text := readFile(t, "systemd/mesos-gpu-local.service")
	for _, line := range []string{"KillMode=process", "Delegate=yes", "Restart=always", "StateDirectory=mesos-gpu/local", "RuntimeDirectory=mesos-gpu"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the unit lacks %s", line)
		}
	}
	conf := readFile(t, "etc/local.conf")
	for _, line := range []string{"work-dir=/var/lib/mesos-gpu/local", "keep-tasks=true", "socket=/run/mesos-gpu/api.sock"} {
		if !strings.Contains(conf, "\n"+line+"\n") {
			t.Errorf("the configuration lacks %s", line)
		}
	}
	for _, program := range []string{"/usr/lib/mesos-gpu/daemon", "/usr/bin/nvidia-modprobe"} {
		text = strings.ReplaceAll(text, program+" ", "/bin/true ") // a program that exists
	}
	path := filepath.Join(t.TempDir(), "mesos-gpu-local.service")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAgentUnitKeepsContainerState checks that the state of running containers survives a stop
// of the unit.
func TestAgentUnitKeepsContainerState(t *testing.T) {
	text := readFile(t, "systemd/mesos-gpu-agent.service")
	for _, line := range []string{"RuntimeDirectoryPreserve=yes", "RuntimeDirectory=mesos-gpu", "StateDirectory=mesos-gpu"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the unit lacks %s", line)
		}
	}
}

// TestAgentUnitAllowsMPS checks that the unit permits MPS control daemons: each has its own
// /dev/shm and starts servers as other users, which the agent kills if they hang.
func TestAgentUnitAllowsMPS(t *testing.T) {
	text := readFile(t, "systemd/mesos-gpu-agent.service")
	for line, needs := range map[string][]string{
		"CapabilityBoundingSet=": {"CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_KILL"},
		"RestrictNamespaces=":    {"mnt"},
		"SystemCallFilter=":      {"@mount"},
	} {
		_, rest, _ := strings.Cut(text, "\n"+line)
		value, _, _ := strings.Cut(rest, "\n")
		for _, need := range needs {
			if !slices.Contains(strings.Fields(value), need) {
				t.Errorf("%s%s lacks %s", line, value, need)
			}
		}
	}
	if strings.Contains(text, "MemoryDenyWriteExecute") {
		t.Error("the unit forbids what MPS programs may need")
	}
}
