package socket_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/socket"
)

// The caller's cgroups in procfs decide whether it may change state.
func TestContainersMayOnlyRead(t *testing.T) {
	for _, c := range []struct{ name, root, cgroups, refusal string }{
		{"of the host", "", "4:devices:/system.slice/mesos-agent.service\n0::/init.scope\n", ""},
		{"the root itself", "", "4:devices:/mesos\n", ""},
		{"Mesos's agent, version 1", "", "4:devices:/mesos/slave\n", ""},
		{"Mesos's agent, version 2", "", "0::/mesos/agent/leaf\n", ""},
		{"another's root", "", "0::/mesosphere/c1\n0::/x/mesos/c1\n", ""},
		{"a container", "", "4:devices:/mesos/c1\n0::/\n", "runs in container c1"},
		{"one by another hierarchy", "", "4:devices:/\n1:name=systemd:/mesos/c1\n", "runs in container c1"},
		{"a nested one", "", "0::/mesos/c1/mesos/n\n", "runs in container c1"},
		{"one whose cgroup has a colon", "", "0::/mesos/c1:x\n", "runs in container c1:x"},
		{"a root deeper down", "/machine/mesos/", "0::/machine/mesos/c1\n", "runs in container c1"},
		{"unknown process", "", "", "check whether process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			proc := t.TempDir()
			file := filepath.Join(proc, fmt.Sprint(os.Getpid()), "cgroup")
			if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.cgroups != "" {
				if err := os.WriteFile(file, []byte(c.cgroups), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := newTestDaemon(t, func(cfg *socket.ServerConfig) { cfg.ProcRoot, cfg.CgroupsRoot = proc, c.root })
			d.start(t)
			if _, err := d.DaemonVersion(t.Context()); err != nil {
				t.Errorf("it asks: %v", err)
			}
			err := d.CleanUpContainer(t.Context(), "c")
			var said *socket.ResponseError
			switch {
			case c.refusal == "" && err != nil:
				t.Error(err)
			case c.refusal != "" && (!errors.As(err, &said) || said.Status != http.StatusForbidden || !strings.Contains(said.Message, c.refusal)):
				t.Errorf("got %v, want 403 and %q", err, c.refusal)
			}
		})
	}
}

// Uid 0 in a container's cgroup may not grant itself GPUs; in the agent's cgroup it may
// make all calls.
func TestRootContainersMayOnlyRead(t *testing.T) {
	testneeds.RequireRoot(t)
	for version, find := range map[string]func(string) (string, error){"v1": cgroup.FindV1MountPoint, "v2": cgroup.FindV2MountPoint} {
		t.Run(version, func(t *testing.T) {
			mountpoint, err := find("/proc/self/mountinfo")
			if err != nil {
				t.Skip(err)
			}
			root := fmt.Sprintf("mesos-gpu-socket-test-%d", os.Getpid())
			d := newTestDaemon(t, func(c *socket.ServerConfig) { c.CgroupsRoot = root })
			d.start(t)
			launch := containers.LaunchRequest{Container: "c", Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}}}
			if _, err := d.PrepareContainer(t.Context(), launch); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct{ group, want string }{
				{"c1", "200 200 403 403 403 403 403 403 403\n"},
				{"c1/mesos/n", "200 200 403 403 403 403 403 403 403\n"},
				{"agent", "200 200 200 200 200 404 200 200 200\n"},
			} {
				out, err := within(t, filepath.Join(mountpoint, root), c.group, "call-agent", d.path)
				if err != nil || out != c.want {
					t.Errorf("in %s: got %q, %v; want %q", c.group, out, err, c.want)
				}
			}
		})
	}
}

// within runs this binary in a cgroup that is removed afterwards.
func within(t *testing.T, root, group string, args ...string) (out string, err error) {
	t.Helper()
	dir := filepath.Join(root, group)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for at := dir; at != filepath.Dir(root); at = filepath.Dir(at) {
			if err := syscall.Rmdir(at); err != nil {
				t.Error(err)
			}
		}
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := as(t, 0, args...)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir, self}, args...)
	text, err := cmd.Output()
	return string(text), err
}
