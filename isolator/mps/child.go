package mps

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a control daemon that this process started.
type child struct {
	pid  int
	died chan struct{} // closed when it has ended
}

func (s *server) output() string { return filepath.Join(s.logs(), "output") }

// pidFile names the daemon's process for who takes it over.
func (s *server) pidFile() string { return filepath.Join(s.dir, "pid") }

// spawn starts the control daemon, in a session of its own, so that it outlives
// this process, and with its clients' /dev/shm.
func (s *server) spawn() (child, error) {
	out, err := os.Create(s.output())
	if err != nil {
		return child{}, err
	}
	defer out.Close()
	// The shell gives the new mount namespace its /dev/shm, then becomes the
	// daemon.
	script := `mount --bind "$1" /dev/shm && shift && exec "$@"`
	args := append([]string{"-c", script, "sh", s.shm(), s.cfg.Program}, s.cfg.Arguments...)
	c := exec.Command("/bin/sh", append(args, "-f")...)
	c.Env = append(s.environment(), "CUDA_VISIBLE_DEVICES="+s.uuid)
	c.Dir, c.Stdout, c.Stderr = "/", out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Unshareflags: syscall.CLONE_NEWNS} // mounts are made private by this
	if err := c.Start(); err != nil {
		return child{}, err
	}
	started := child{pid: c.Process.Pid, died: make(chan struct{})}
	go func() {
		defer close(started.died)
		_ = c.Wait()
	}()
	if err := os.WriteFile(s.pidFile(), []byte(strconv.Itoa(started.pid)), 0o644); err != nil {
		_ = unix.Kill(-started.pid, unix.SIGKILL)
		<-started.died
		return child{}, fmt.Errorf("note its process: %w", err)
	}
	return started, nil
}

func (s *server) environment() []string {
	return append(os.Environ(), pipeVariable+"="+s.pipe(), logVariable+"="+s.logs())
}

// end ends the daemon: by its own command, and by force where that is not
// obeyed. died is nil for one that was taken over.
func (s *server) end(died <-chan struct{}) {
	ctx := context.Background()
	if _, err := s.command(ctx, "quit"); err != nil {
		s.log.WithError(err).Debug("MPS control daemon not asked to quit")
	}
	deadline := time.After(s.cfg.Patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waits := true; waits && s.process() != 0; {
		select {
		case <-died:
			waits = false
		case <-deadline:
			waits = false
		case <-tick.C:
		}
	}
	s.force()
	if s.cfg.Exclusive {
		if err := s.mode(ctx, "DEFAULT"); err != nil {
			s.log.WithError(err).Warn("compute mode stays as it is")
		}
	}
}

// force kills what is left of the daemon, with the servers that it started.
func (s *server) force() {
	if pid := s.process(); pid != 0 {
		s.log.WithField("pid", pid).Warn("MPS control daemon does not quit: it is killed")
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	_ = os.Remove(s.pidFile())
}

// process is the daemon's, as the file says; 0 where that is another's by now.
func (s *server) process() int {
	text, _ := os.ReadFile(s.pidFile())
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil || !bytes.Contains(env, []byte(pipeVariable+"="+s.pipe()+"\x00")) {
		return 0
	}
	return pid
}
