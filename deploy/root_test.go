//go:build packages

package deploy

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
)

// TestForeignBinariesRunUnderQEMU runs the binaries of other architectures under qemu-user:
// the version and the discovery of simulated GPUs.
func TestForeignBinariesRunUnderQEMU(t *testing.T) {
	for arch, machine := range map[string][2]string{"arm64": {"aarch64", "aarch64"}, "ppc64le": {"ppc64le", "powerpc64le"}} {
		t.Run(arch, func(t *testing.T) {
			qemu := testneeds.RequireProgram(t, "qemu-"+machine[0]+"-static", "qemu-user-static")
			root := t.TempDir()
			runProgram(t, "dpkg-deb", "-x", findPackage(t, os.Getenv("MESOS_GPU_PACKAGES"), arch, "deb"), root)
			run := func(args ...string) string {
				return runProgram(t, qemu, append([]string{"-L", "/usr/" + machine[1] + "-linux-gnu", filepath.Join(root, "usr/bin/mesos-gpu")}, args...)...)
			}
			if got := run("version"); !strings.HasPrefix(got, "mesos-gpu v0.0.1\n") {
				t.Errorf("version: %q", got)
			}
			if got := run("discover", "--simulate", "2xV100,1xK80"); strings.Count(got, "GPU-") != 3 {
				t.Errorf("discover: %s", got)
			}
		})
	}
}

// findPackage returns the path of the only package in dir for an architecture. kind is deb or
// rpm.
func findPackage(t *testing.T, dir, arch, kind string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*-"+arch+"."+kind))
	if err != nil || len(found) != 1 {
		t.Fatalf("got packages %q, %v, want one for %s", found, err, arch)
	}
	return found[0]
}

// debianRoot is a chroot with a minimal Debian.
type debianRoot struct{ dir string }

func newDebianRoot(t *testing.T) debianRoot {
	t.Helper()
	testneeds.RequireRoot(t)
	c := debianRoot{t.TempDir()}
	runProgram(t, "tar", "-C", c.dir, "-xf", os.Getenv("MESOS_GPU_CLEAN_ROOT"))
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{{"proc", "proc", "proc", 0}, {"/dev", "dev", "", syscall.MS_BIND}, {"/sys", "sys", "", syscall.MS_BIND | syscall.MS_REC}, {"tmpfs", "run", "tmpfs", 0}} {
		target := filepath.Join(c.dir, m.target)
		if err := syscall.Mount(m.source, target, m.kind, m.flags, ""); err != nil {
			t.Fatalf("mount %s: %v", target, err)
		}
		if err := syscall.Mount("", target, "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
			t.Fatalf("make %s private: %v", target, err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(target, syscall.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", target, err)
			}
		})
	}
	return c
}

func (c debianRoot) run(t *testing.T, script string) string {
	t.Helper()
	return runProgram(t, "chroot", c.dir, "/bin/sh", "-ec", script)
}

// startDaemon runs a daemon until the test ends or stop is called. It returns when the daemon
// has printed that it is up.
func startDaemon(t *testing.T, args ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if !ended {
			ended = true
			cancel()
			_ = cmd.Wait() // its status is that of SIGTERM
		}
	}
	t.Cleanup(stop)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), " is up") {
			return stop
		}
	}
	stop()
	t.Fatalf("%q ended before it was up", args)
	return nil
}

// TestInstallUpgradeRemovePurge installs, upgrades, removes and purges the package in a chroot
// without systemd. A task must survive the upgrade, in which the scheduler restarts with the
// new binary. `mesos-gpu local` outside the chroot is the Mesos cluster, because containers
// cannot be created in a chroot. Tasks run as root, because other users cannot enter the test's folder.
func TestInstallUpgradeRemovePurge(t *testing.T) {
	c := newDebianRoot(t)
	before := c.run(t,
		"find / -xdev -not -path '/proc/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' -not -path '/var/cache/*' -not -path '/tmp/*' | sort")
	c.installPackage(t, os.Getenv("MESOS_GPU_PACKAGES"))
	if got := c.run(t, "mesos-gpu version | head -n 1; stat -c '%U %a' /var/lib/mesos-gpu/scheduler"); got != "mesos-gpu v0.0.1\nmesos-gpu 700\n" {
		t.Errorf("installed: %q", got)
	}
	c.run(t, "sed -i 's,^#master=.*,master=http://127.0.0.1:15050,; s,^#listen=.*,listen=127.0.0.1:18081,; s,^#executor=.*,executor="+
		c.dir+"/usr/bin/mesos-gpu,; s,^#process-user=.*,process-user=root,' /etc/mesos-gpu/scheduler.conf")
	binary := filepath.Join(c.dir, "usr/bin/mesos-gpu")
	startDaemon(t, binary, "local", "--gpus", "2xV100", "--listen", "127.0.0.1:18080", "--master", "127.0.0.1:15050", "--agent",
		"127.0.0.1:15051", "--process-user=", "--work-dir", t.TempDir())
	scheduler := []string{"chroot", c.dir, "setpriv", "--reuid=mesos-gpu", "--regid=mesos-gpu", "--clear-groups", "/usr/lib/mesos-gpu/daemon", "scheduler"}
	stop := startDaemon(t, scheduler...)
	const api = "export MESOS_GPU_API=http://127.0.0.1:18081; "
	c.run(t, api+`printf 'name: sleeper\ngpus: 1\ncpus: 0.1\nmem: 32MiB\ncommand: sleep 600\n' >/tmp/job.yaml; mesos-gpu submit /tmp/job.yaml`)
	running := c.awaitRunningTask(t, api)

	c.installPackage(t, filepath.Join(os.Getenv("MESOS_GPU_PACKAGES"), "next"))
	if got := c.run(t, "mesos-gpu version | head -n 1; grep ^master /etc/mesos-gpu/scheduler.conf"); got != "mesos-gpu v0.0.2\nmaster=http://127.0.0.1:15050\n" {
		t.Errorf("upgraded: %q: want the new version and the changed configuration", got)
	}
	stop() // as systemctl try-restart does
	stop = startDaemon(t, scheduler...)
	if got := c.awaitRunningTask(t, api); got != running {
		t.Errorf("after the upgrade %s runs, want %s as before", got, running)
	}
	c.run(t, api+"mesos-gpu kill sleeper")
	stop()

	c.run(t, "dpkg --remove mesos-gpu")
	if got := c.run(t, "ls /etc/mesos-gpu /var/lib/mesos-gpu/scheduler; ls /usr/bin/mesos-gpu 2>&1 || true"); !strings.Contains(got, "scheduler.conf\n") ||
		!strings.Contains(got, "journal.db\n") || !strings.Contains(got, "No such file") {
		t.Errorf("removed: %s: want configuration and journal kept, the binary gone", got)
	}
	c.run(t, "dpkg --purge mesos-gpu; rm /tmp/job.yaml")
	after := c.run(t,
		"find / -xdev -not -path '/proc/*' -not -path '/var/lib/dpkg/*' -not -path '/var/log/*' -not -path '/var/cache/*' -not -path '/tmp/*' | sort")
	left := strings.Split(strings.TrimSpace(after), "\n")
	for _, path := range left {
		// userdel and useradd keep a copy of the files that they change.
		if !strings.Contains(before, path+"\n") && !strings.HasPrefix(path, "/etc/") {
			t.Errorf("left behind: %s", path)
		}
		if strings.Contains(path, "mesos") {
			t.Errorf("left behind: %s", path)
		}
	}
	if got := c.run(t, "getent passwd mesos-gpu || echo none"); got != "none\n" {
		t.Errorf("left behind: user %s", got)
	}
}

func (c debianRoot) installPackage(t *testing.T, dir string) {
	t.Helper()
	deb := findPackage(t, dir, runtime.GOARCH, "deb")
	runProgram(t, "cp", deb, filepath.Join(c.dir, "tmp/mesos-gpu.deb"))
	c.run(t, "dpkg --force-confold --install /tmp/mesos-gpu.deb; rm /tmp/mesos-gpu.deb")
}

// awaitRunningTask waits until the job's task runs and returns its ID.
func (c debianRoot) awaitRunningTask(t *testing.T, api string) string {
	t.Helper()
	c.run(t, api+"mesos-gpu wait --for running --timeout 3m sleeper")
	for line := range strings.Lines(c.run(t, api+"mesos-gpu describe sleeper")) {
		if field := strings.Fields(line); strings.Contains(line, "RUNNING") && strings.HasPrefix(field[0], "sleeper.") {
			return field[0]
		}
	}
	t.Fatal("the description of sleeper has no running task")
	return ""
}
