package volumemgr

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
)

// In a confined cgroup the simulated nvidia-smi lists only the granted devices, like the
// real one.
func TestRootSimulatedSMI(t *testing.T) {
	hierarchy := testneeds.RequireDevicesCgroup(t)
	cgroup := filepath.Join(hierarchy, fmt.Sprintf("mesos-gpu-smi-test-%d", os.Getpid()))
	if err := os.Mkdir(cgroup, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Rmdir(cgroup); err != nil {
			t.Error(err)
		}
	})
	for _, rule := range []struct{ file, line string }{
		{"devices.deny", "a"}, {"devices.allow", "c 1:3 rwm"}, {"devices.allow", "c 195:1 rw"}, {"devices.allow", "c 195:2 rw"},
	} {
		if err := os.WriteFile(filepath.Join(cgroup, rule.file), []byte(rule.line), 0); err != nil {
			t.Fatal(err)
		}
	}
	dev := t.TempDir()
	for minor := range 3 {
		node := filepath.Join(dev, fmt.Sprintf("nvidia%d", minor))
		if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(195, uint32(minor)))); err != nil {
			t.Fatal(err)
		}
	}
	// The shell waits for a line, so that it is in the cgroup before it continues.
	cmd := exec.Command("/bin/sh", "-c", `read line; exec "$0"`, filepath.Join(simulatedRoot(t), "usr/bin/nvidia-smi"))
	cmd.Env = []string{"MESOS_GPU_DEV=" + dev, "PATH=/usr/bin:/bin"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	moved := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), fmt.Appendf(nil, "%d", cmd.Process.Pid), 0)
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	text, readErr := io.ReadAll(bufio.NewReader(out))
	if err := cmd.Wait(); err != nil || moved != nil || readErr != nil {
		t.Fatalf("%v, %v, %v\n%s", err, moved, readErr, text)
	}
	want := "GPU 0: SIMULATED nvidia1\nGPU 1: SIMULATED nvidia2\n"
	if !strings.HasSuffix(string(text), want) {
		t.Errorf("got\n%s\nwant its end to be\n%s", text, want)
	}
}
