//go:build packages

package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/testneeds"
)

// machine is a bare Debian whose process 1 is systemd, beside this one.
type machine struct {
	root, cgroups string
	kind          string // of its packages: deb or rpm
	init          int    // its process 1, as this machine numbers it
}

// layouts are the versions of control groups that a machine beside this one may
// have; version 1 only where this one has its devices hierarchy.
func layouts(t *testing.T) []string {
	t.Helper()
	if strings.Contains(read(t, "/proc/self/cgroup"), ":devices:") {
		return []string{"v1", "v2"}
	}
	return []string{"v2"}
}

// boot starts a machine, which ends with the test.
func boot(t *testing.T, layout string) machine {
	t.Helper()
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "unshare", "util-linux")
	m := machine{root: t.TempDir(), cgroups: layout, kind: "deb"}
	output(t, "tar", "-C", m.root, "-xf", os.Getenv("MESOS_GPU_CLEAN_ROOT"))
	group := fmt.Sprintf("mesos-gpu-test-%d", os.Getpid())
	c := exec.Command("sh", "testdata/boot.sh", m.root, group, layout)
	c.Stdout, c.Stderr = t.Output(), t.Output()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // with it all that runs there
		_ = c.Wait()
		leave(t, group)
	})
	m.init = m.await(t, c.Process.Pid)
	return m
}

// await waits until systemd has started all that there is.
func (m machine) await(t *testing.T, outer int) int {
	t.Helper()
	children := fmt.Sprintf("/proc/%d/task/%d/children", outer, outer)
	var last string
	for range 1800 {
		text, _ := os.ReadFile(children)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		if program, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(program) == "systemd\n" {
			m.init = pid
			out, _ := m.command(t, "systemctl is-system-running --wait 2>&1").Output()
			if last = string(out); last == "running\n" {
				return pid
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("systemd does not come up in 3 min: it is %q", last)
	return 0
}

// leave removes the control groups of a machine that has ended.
func leave(t *testing.T, group string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		tops, _ := filepath.Glob(pattern + group)
		for _, top := range tops {
			for range 1200 { // its processes end one after the other
				_ = exec.Command("find", top, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
				if _, err := os.Stat(top); os.IsNotExist(err) {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			if _, err := os.Stat(top); err == nil {
				t.Errorf("left behind: %s", top)
			}
		}
	}
}

// command is a shell's in the machine, as root.
func (m machine) command(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "nsenter", "-t", strconv.Itoa(m.init), "-a", "env", "-i",
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "/bin/sh", "-ec", script)
}

func (m machine) run(t *testing.T, script string) string {
	t.Helper()
	c := m.command(t, script)
	var problem strings.Builder
	c.Stderr = &problem
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s\n%s", script, err, out, &problem, m.journal(t))
	}
	return string(out)
}

func (m machine) journal(t *testing.T) string {
	t.Helper()
	log, _ := m.command(t, "journalctl --no-pager -n 60 -o short").Output()
	return "The journal ends:\n" + string(log)
}

// eventually asks until it is so.
func (m machine) eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for range 900 {
		if so() {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("after 3 min not yet: %s\n%s", what, m.journal(t))
}

// property is what systemd says of a unit.
func (m machine) property(t *testing.T, unit, name string) string {
	t.Helper()
	return strings.TrimSpace(m.run(t, "systemctl show --value -p "+name+" "+unit))
}

// processes are those with the words in their command lines: number and line of
// each.
func (m machine) processes(t *testing.T, words string) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(m.run(t, `for p in /proc/[0-9]*; do echo "${p#/proc/} $(tr '\0' ' ' <$p/cmdline 2>/dev/null)"; done`)) {
		if strings.Contains(line, words) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// files are those that there are, less what every use of a machine changes.
func (m machine) files(t *testing.T) []string {
	t.Helper()
	var kept []string
	for path := range strings.Lines(m.run(t, "find / /run /dev/shm -xdev -not -path '/proc/*' -not -path '/var/log/*' -not -path '/var/cache/*' | sort -u")) {
		// dpkg's own books, rpm's, systemd's, and copies that userdel keeps.
		if !strings.HasPrefix(path, "/var/lib/dpkg/") && !strings.HasPrefix(path, rpmBooks) && !strings.HasPrefix(path, "/run/systemd/") && !strings.HasPrefix(path, "/run/log/") && !strings.HasSuffix(path, "-\n") {
			kept = append(kept, strings.TrimSpace(path))
		}
	}
	return kept
}

// left are the files that were not there before.
func left(before, after []string) []string {
	return slices.DeleteFunc(after, func(path string) bool { return slices.Contains(before, path) })
}

// impersonate puts the test's own binary there, under the name of what it is to be.
func (m machine) impersonate(t *testing.T, name string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output(t, "cp", self, filepath.Join(m.root, "usr/bin", name))
}
