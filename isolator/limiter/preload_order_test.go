package limiter

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// withEnvironment sets a variable in the command's environment.
func withEnvironment(cmd *exec.Cmd, name, value string) *exec.Cmd {
	for i, v := range cmd.Env {
		if strings.HasPrefix(v, name+"=") {
			cmd.Env[i] = name + "=" + value
			return cmd
		}
	}
	cmd.Env = append(cmd.Env, name+"="+value)
	return cmd
}

// The loader searches LD_PRELOAD before /etc/ld.so.preload. A library there that defines
// a hooked function would circumvent the limiter, so the program does not start and
// reports the reason. Libraries without such functions may come first.
func TestEarlierPreloadedLibraryIsRejected(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	harmless, old := filepath.Join(c.built, "next.so"), filepath.Join(c.built, "before.so")
	for _, first := range []string{"libc.so.6", "libcuda.so.1", old} {
		for _, how := range []string{"proc", "link"} {
			out, err := withEnvironment(c.command(how), "LD_PRELOAD", first+" "+c.library).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 126 || !strings.Contains(string(out), filepath.Base(first)) ||
				!strings.Contains(string(out), "take it out of LD_PRELOAD") {
				t.Errorf("%s first, by %s: got %v, %q, want exit code 126 and a line", first, how, err, out)
			}
		}
	}
	for _, first := range []string{harmless, "libm.so.6"} {
		p := startProgram(t, withEnvironment(c.command("proc"), "LD_PRELOAD", first+" "+c.library))
		p.must(0, "ctx 0")
		p.want(outOfMemory, 1, "alloc %d", 1000*mib)
	}
}

// As in a container, the loader reads /etc/ld.so.preload.
func TestPreloadFile(t *testing.T) {
	if out, err := exec.Command("unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skipf("needs leave to mount: %v %s", err, out)
	}
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	list := filepath.Join(t.TempDir(), "ld.so.preload")
	if err := os.WriteFile(list, []byte(c.library+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `etc=$1/etc; mkdir $etc && cp -a /etc/. $etc/ && cp "$1/ld.so.preload" $etc/ && mount --bind $etc /etc && shift && exec env "$@"`
	inside := func(preload string) *exec.Cmd {
		cmd := withEnvironment(c.command("proc"), "LD_PRELOAD", preload)
		dir := t.TempDir()
		if err := os.Link(list, filepath.Join(dir, "ld.so.preload")); err != nil {
			t.Fatal(err)
		}
		return exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh", dir}, append(cmd.Env, cmd.Args...)...)...)
	}
	p := startProgram(t, inside(""))
	p.must(0, "ctx 0")
	p.want(outOfMemory, 1, "alloc %d", 1000*mib)
	out, err := inside("libc.so.6").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 126 {
		t.Errorf("got %v, %q, want exit code 126", err, out)
	}
}

// A cancelled thread leaves no lock held.
func TestCancelledThreads(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	cmd := c.command("proc")
	cmd.Path, cmd.Args = filepath.Join(c.built, "cancel"), []string{"cancel"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
