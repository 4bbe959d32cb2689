// Package opener is a process that tests put into a cgroup and that then
// tries to open device nodes. It is the test's own binary, started again: a
// package that uses it calls RunIfChild from its TestMain.
package opener

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const childArgument = "opener-of-device-nodes"

// NoRaceDelay is for the environment of test binaries started again: those
// with a race detector otherwise wait for a second at their end.
const NoRaceDelay = "GORACE=atexit_sleep_ms=0"

// RunIfChild never returns in a process that Start made. It answers each line of
// its input, an access and a path, with the number of the error that it gave.
func RunIfChild() {
	if len(os.Args) != 2 || os.Args[1] != childArgument {
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		access, path, _ := strings.Cut(lines.Text(), " ")
		errno, _ := tryAccess(access, path).(unix.Errno)
		fmt.Println(int(errno))
	}
	os.Exit(0)
}

func tryAccess(access, path string) error {
	if mode, ok := map[string]int{"r": unix.O_RDONLY, "w": unix.O_WRONLY, "rw": unix.O_RDWR}[access]; ok {
		fd, err := unix.Open(path, mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	var st unix.Stat_t // "m" makes a node like the one at path, in the same folder
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	twin := path + "-twin"
	if err := unix.Mknod(twin, st.Mode, int(st.Rdev)); err != nil {
		return err
	}
	return unix.Unlink(twin)
}

// NodeOpener is the process.
type NodeOpener struct {
	PID int
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts it; it ends with the test.
func Start(t testing.TB) *NodeOpener {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", childArgument)
	cmd.Env = append(os.Environ(), NoRaceDelay)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("opener: %v", err)
		}
	})
	return &NodeOpener{PID: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
}

// OpenPath has the process open path for reading and writing. It returns 0 where
// that succeeds.
func (o *NodeOpener) OpenPath(t testing.TB, path string) unix.Errno {
	t.Helper()
	return o.TryAccess(t, "rw", path)
}

// TryAccess is Open for one access of a device rule: "r", "w", "rw", or "m", which
// makes a node of the same device.
func (o *NodeOpener) TryAccess(t testing.TB, access, path string) unix.Errno {
	t.Helper()
	if _, err := fmt.Fprintln(o.in, access, path); err != nil {
		t.Fatal(err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		t.Fatalf("opener ended: %v", err)
	}
	errno, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return unix.Errno(errno)
}

// MakeNode makes a device node that no driver serves, unless one does: opening it
// gives ENXIO where the cgroup lets it through, EPERM where it does not.
func MakeNode(t testing.TB, name string, kind byte, major, minor uint32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(name))
	mode := uint32(unix.S_IFCHR)
	if kind == 'b' {
		mode = unix.S_IFBLK
	}
	if err := unix.Mknod(path, mode|0o666, int(unix.Mkdev(major, minor))); err != nil {
		t.Fatal(err)
	}
	return path
}
