//go:build mesos

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/need"
	"mesos-gpu/isolator/nvml/nvmltest"
)

// mesos is a real master and agent. The agent runs in a mount namespace of
// its own whose /dev has four simulated GPU nodes, with a stand-in NVML, so
// Mesos's gpu/nvidia isolator finds four GPUs and confines containers to
// theirs.
type mesos struct {
	master, agent string
	processes     []*exec.Cmd
	images        string
}

// program finds one of Mesos's programs on PATH or under MESOS_PREFIX.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"sbin", "bin"} {
		path := filepath.Join(os.Getenv("MESOS_PREFIX"), dir, name)
		if os.Getenv("MESOS_PREFIX") != "" && exists(path) {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s on PATH or under MESOS_PREFIX (%q)", name, os.Getenv("MESOS_PREFIX"))
	}
	return path
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// namespace prepares the agent's view of the machine and becomes the agent.
// Mesos refuses a cgroup2 file system beside the v1 hierarchies.
const namespace = `set -e
mount --make-rprivate /
umount /sys/fs/cgroup/unified 2>/dev/null || true
mkdir -p "$WORK/dev"
mount -t tmpfs -o mode=755 tmpfs "$WORK/dev"
cp -a /dev/. "$WORK/dev/"
for n in 0 1 2 3; do mknod -m 666 "$WORK/dev/nvidia$n" c 195 $n; done
mknod -m 666 "$WORK/dev/nvidiactl" c 195 255
mknod -m 666 "$WORK/dev/nvidia-uvm" c 510 0
mkdir -p "$WORK/dev/pts" "$WORK/dev/shm"
mount --bind /dev/pts "$WORK/dev/pts"
mount --bind "$WORK/dev" /dev
exec "$@"`

func startMesos(t *testing.T, agentFlags ...string) *mesos {
	t.Helper()
	need.Root(t)
	masterProgram, agentProgram := program(t, "mesos-master"), program(t, "mesos-agent")
	work := t.TempDir()
	m := &mesos{master: freeAddr(t), agent: freeAddr(t), images: filepath.Join(work, "images")}
	if err := os.MkdirAll(m.images, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.stop(t) })
	_, port, _ := strings.Cut(m.master, ":")
	m.spawn(t, nil, masterProgram, "--ip=127.0.0.1", "--hostname=127.0.0.1", "--port="+port, "--work_dir="+filepath.Join(work, "master"),
		"--registry=in_memory", "--allocation_interval=200ms")
	await(t, "http://"+m.master+"/health")
	_, port, _ = strings.Cut(m.agent, ":")
	env := []string{"WORK=" + work, "LD_LIBRARY_PATH=" + filepath.Dir(nvmltest.Library(t, 4, "Tesla V100-SXM2-16GB"))}
	flags := append([]string{"-c", namespace, "sh", agentProgram, "--ip=127.0.0.1", "--hostname=127.0.0.1", "--port=" + port, "--master=" + m.master,
		"--work_dir=" + filepath.Join(work, "agent"), "--runtime_dir=" + filepath.Join(work, "run"), "--containerizers=mesos",
		"--isolation=cgroups/devices,gpu/nvidia,filesystem/linux,docker/runtime", "--image_providers=docker", "--docker_registry=" + m.images,
		"--attributes=gpu_type:V100", "--launcher=linux", "--cgroups_root=mesos-gpu-test", "--no-systemd_enable_support"}, agentFlags...)
	m.spawn(t, env, "unshare", append([]string{"-m", "sh"}, flags...)...)
	await(t, "http://"+m.agent+"/health")
	return m
}

func (m *mesos) spawn(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	log := newLines()
	c.Stdout, c.Stderr = log, log
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	m.processes = append(m.processes, c)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(name), tail(log.String()))
		}
	})
}

func tail(s string) string { return s[max(0, len(s)-8000):] }

// stop ends agent and master and what the agent's containers left.
func (m *mesos) stop(t *testing.T) {
	for i := len(m.processes) - 1; i >= 0; i-- {
		_ = m.processes[i].Process.Kill()
		_ = m.processes[i].Wait()
	}
	killCgroup(t, "/sys/fs/cgroup/freezer/mesos-gpu-test")
	roots, err := filepath.Glob("/sys/fs/cgroup/*/mesos-gpu-test")
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range roots {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error { return nil })
		removeCgroup(root)
	}
}

func killCgroup(t *testing.T, root string) {
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for pid := range strings.FieldsSeq(string(text)) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		return nil
	})
}

func removeCgroup(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

// await polls an outside program that tells of its start in no other way.
func await(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not answer within %s", url, patience)
		}
	}
}

// scheduler runs "mesos-gpu scheduler" against the master.
func (m *mesos) scheduler(t *testing.T, args ...string) *cluster {
	t.Helper()
	return launch(t, append([]string{"scheduler", "--master", "http://" + m.master, "--listen", "127.0.0.1:0", "--executor", binary,
		"--journal", filepath.Join(t.TempDir(), "journal")}, args...)...)
}

// frameworks counts what the master knows of.
func (m *mesos) state(t *testing.T) (state struct {
	Frameworks []struct{ Name string }
}) {
	t.Helper()
	resp, err := http.Get("http://" + m.master + "/state")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&state); err != nil {
		t.Fatal(err)
	}
	return state
}
