package isolator

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"mesos-gpu/isolator/cgroup"
)

// printGranted runs Granted for real in a process of the cgroup.
func printGranted(t *testing.T, devices cgroup.V1, path string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", grantedArgument)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	moved := devices.AddProcess(path, cmd.Process.Pid)
	in.Close() // the process goes on
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if moved != nil {
		t.Fatal(moved)
	}
	return strings.TrimSpace(out.String())
}
