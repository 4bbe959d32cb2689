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
	"sync"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
)

// machine is a container with a minimal Debian and its own systemd.
type machine struct {
	root, cgroups string
	kind          string // package format: deb or rpm
	init          int    // pid of its systemd on the host
	powerOff      func() // ends its processes
}

// availableCgroupVersions returns the cgroup versions that a machine can have: v1 only if the
// host has the devices hierarchy.
func availableCgroupVersions(t *testing.T) []string {
	t.Helper()
	if strings.Contains(readFile(t, "/proc/self/cgroup"), ":devices:") {
		return []string{"v1", "v2"}
	}
	return []string{"v2"}
}

// bootMachine starts a machine, which ends with the test.
func bootMachine(t *testing.T, layout string) machine {
	t.Helper()
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "unshare", "util-linux")
	m := machine{root: t.TempDir(), cgroups: layout, kind: "deb"}
	runProgram(t, "tar", "-C", m.root, "-xf", os.Getenv("MESOS_GPU_CLEAN_ROOT"))
	m.boot(t)
	return m
}

// reboot ends all processes of the machine at once, as a power loss does, and boots it again. Only its files remain.
func (m *machine) reboot(t *testing.T) {
	t.Helper()
	m.powerOff()
	m.boot(t)
}

// boot starts the machine's systemd, and waits for its units.
func (m *machine) boot(t *testing.T) {
	t.Helper()
	group := fmt.Sprintf("mesos-gpu-test-%d", os.Getpid())
	c := exec.Command("sh", "testdata/boot.sh", m.root, group, m.cgroups)
	c.Stdout, c.Stderr = t.Output(), t.Output()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	m.powerOff = sync.OnceFunc(func() {
		_ = c.Process.Kill() // ends all processes of the machine
		_ = c.Wait()
		removeCgroups(t, group)
	})
	t.Cleanup(m.powerOff)
	m.init = m.awaitBoot(t, c.Process.Pid)
}

// awaitBoot waits until systemd has started all units, and returns its pid.
func (m machine) awaitBoot(t *testing.T, outer int) int {
	t.Helper()
	children := fmt.Sprintf("/proc/%d/task/%d/children", outer, outer)
	var last string
	for range 1800 {
		text, _ := os.ReadFile(children)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		if program, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(program) == "systemd\n" {
			m.init = pid
			out, _ := m.newCommand(t, "systemctl is-system-running --wait 2>&1").Output()
			if last = string(out); last == "running\n" {
				return pid
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("systemd does not come up in 3 min: it is %q", last)
	return 0
}

// removeCgroups removes the cgroups of a machine that has ended.
func removeCgroups(t *testing.T, group string) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		tops, _ := filepath.Glob(pattern + group)
		for _, top := range tops {
			for range 1200 { // its processes may still be ending
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

// newCommand returns a shell command that runs in the machine as root.
func (m machine) newCommand(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "nsenter", "-t", strconv.Itoa(m.init), "-a", "env", "-i",
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "/bin/sh", "-ec", script)
}

func (m machine) run(t *testing.T, script string) string {
	t.Helper()
	c := m.newCommand(t, script)
	var problem strings.Builder
	c.Stderr = &problem
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s\n%s", script, err, out, &problem, m.readJournalTail(t))
	}
	return string(out)
}

func (m machine) readJournalTail(t *testing.T) string {
	t.Helper()
	log, _ := m.newCommand(t, "journalctl --no-pager -n 60 -o short").Output()
	return "The journal ends:\n" + string(log)
}

// awaitCondition polls until holds returns true.
func (m machine) awaitCondition(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 900 {
		if holds() {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("after 3 min not yet: %s\n%s", what, m.readJournalTail(t))
}

// unitProperty returns a property of a unit as systemctl shows it.
func (m machine) unitProperty(t *testing.T, unit, name string) string {
	t.Helper()
	return strings.TrimSpace(m.run(t, "systemctl show --value -p "+name+" "+unit))
}

// listProcesses returns the pid and the command line of each process whose command line
// contains words.
func (m machine) listProcesses(t *testing.T, words string) []string {
	t.Helper()
	var found []string
	for line := range strings.Lines(m.run(t, `for p in /proc/[0-9]*; do echo "${p#/proc/} $(tr '\0' ' ' <$p/cmdline 2>/dev/null)"; done`)) {
		if strings.Contains(line, words) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// listFiles returns all paths except those that change on any running machine.
func (m machine) listFiles(t *testing.T) []string {
	t.Helper()
	var kept []string
	for path := range strings.Lines(m.run(t, "find / /run /dev/shm -xdev -not -path '/proc/*' -not -path '/var/log/*' -not -path '/var/cache/*' | sort -u")) {
		// The databases of dpkg and rpm, the state of systemd, and backup copies of userdel.
		if !strings.HasPrefix(path, "/var/lib/dpkg/") && !strings.HasPrefix(path, rpmDatabase) &&
			!strings.HasPrefix(path, "/run/systemd/") && !strings.HasPrefix(path, "/run/log/") && !strings.HasSuffix(path, "-\n") {
			kept = append(kept, strings.TrimSpace(path))
		}
	}
	return kept
}

// addedFiles returns the paths that are in after and not in before.
func addedFiles(before, after []string) []string {
	return slices.DeleteFunc(after, func(path string) bool { return slices.Contains(before, path) })
}

// installTestBinary copies the test binary to /usr/bin under another name, as which it acts.
func (m machine) installTestBinary(t *testing.T, name string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	runProgram(t, "cp", self, filepath.Join(m.root, "usr/bin", name))
}
