// Package opener is a process that tests put into a cgroup and that then
// tries to open device nodes. It is the test's own binary, started again: a
// package that uses it calls Main from its TestMain.
package opener

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const argument = "opener-of-device-nodes"

// Main never returns in a process that Start made. It answers each path on
// its input with the number of the error that opening it gave.
func Main() {
	if len(os.Args) != 2 || os.Args[1] != argument {
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fd, err := unix.Open(lines.Text(), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		errno, _ := err.(unix.Errno)
		if err == nil {
			unix.Close(fd)
		}
		fmt.Println(int(errno))
	}
	os.Exit(0)
}

// Opener is the process.
type Opener struct {
	PID int
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts it; it ends with the test.
func Start(t testing.TB) *Opener {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", argument)
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
	return &Opener{PID: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
}

// Open has the process open path for reading and writing. It returns 0 where
// that succeeds.
func (o *Opener) Open(t testing.TB, path string) unix.Errno {
	t.Helper()
	if _, err := fmt.Fprintln(o.in, path); err != nil {
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
