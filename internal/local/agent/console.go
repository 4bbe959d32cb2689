package agent

import (
	"errors"
	"fmt"
	"os"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/local/agent/container"
)

// sessionConsole is the standard input and output of a session's command: pipes
// or a terminal.
type sessionConsole struct {
	// stdin, stdout and stderr are the agent's ends. A terminal uses one file
	// for stdin and stdout and has no stderr.
	stdin, stdout, stderr *os.File
	terminal              bool
	// theirs are the command's ends. The agent closes them once the command
	// runs.
	theirs [3]*os.File
	// attached reports whether a client sends input. Only the loop accesses it.
	attached bool
}

// openConsole opens pipes, or a terminal of the container if tty is not nil.
func openConsole(tty *mesos.TTYInfo, box *container.RunningContainer) (*sessionConsole, error) {
	c := &sessionConsole{terminal: tty != nil}
	var err error
	if c.terminal {
		err = c.openTerminal(tty.WindowSize, box)
	} else {
		err = c.openPipes()
	}
	if err != nil {
		c.closeCommandEnds()
		c.close()
		return nil, fmt.Errorf("open a session's streams: %w", err)
	}
	return c, nil
}

func (c *sessionConsole) openPipes() (err error) {
	if c.theirs[0], c.stdin, err = os.Pipe(); err != nil {
		return err
	}
	if c.stdout, c.theirs[1], err = os.Pipe(); err != nil {
		return err
	}
	c.stderr, c.theirs[2], err = os.Pipe()
	return err
}

// openTerminal opens both ends of a pseudo terminal of the container.
func (c *sessionConsole) openTerminal(size *mesos.TTYInfo_WindowSize, box *container.RunningContainer) (err error) {
	if c.stdin, err = box.OpenTerminal(); err != nil {
		return err
	}
	c.stdout = c.stdin
	var peer uintptr
	if err := c.withTerminal(func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		var errno unix.Errno
		if peer, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC); errno != 0 {
			return errno
		}
		return nil
	}); err != nil {
		return fmt.Errorf("make a terminal: %w", err)
	}
	theirs := os.NewFile(peer, "terminal")
	c.theirs = [3]*os.File{theirs, theirs, theirs}
	if size == nil {
		return nil
	}
	return c.resizeTerminal(size)
}

// withTerminal calls do with the terminal's file descriptor. The file stays
// non-blocking, so that closing it ends a read; creack/pty would make it
// blocking.
func (c *sessionConsole) withTerminal(do func(fd int) error) error {
	raw, err := c.stdin.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = do(int(fd)) }); e != nil {
		return e
	}
	return err
}

// resizeTerminal sets the terminal's size and sends SIGWINCH to the command.
func (c *sessionConsole) resizeTerminal(size *mesos.TTYInfo_WindowSize) error {
	if !c.terminal {
		return errors.New("the session has no terminal")
	}
	return c.withTerminal(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size.Rows), Col: uint16(size.Columns)})
	})
}

// attachTo gives a container the command's ends. The user of the command
// becomes the owner of the terminal.
func (c *sessionConsole) attachTo(s *container.LaunchSpec) error {
	s.Stdin, s.Stdout, s.Stderr, s.Terminal = c.theirs[0], c.theirs[1], c.theirs[2], c.terminal
	if u := s.Command.User; c.terminal && u != nil {
		if err := s.Stdin.Chown(int(u.Uid), int(u.Gid)); err != nil {
			return fmt.Errorf("hand over terminal: %w", err)
		}
	}
	return nil
}

// closeCommandEnds closes the command's ends. While they are open, the agent
// cannot read the end of the output.
func (c *sessionConsole) closeCommandEnds() {
	container.CloseFiles(c.theirs[:]...) // a terminal is closed three times; the command has its own descriptors
}

func (c *sessionConsole) close() { container.CloseFiles(c.stdin, c.stdout, c.stderr) }
