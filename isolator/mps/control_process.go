package mps

import (
	"bytes"
	"context"
	"errors"
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

// controlProcess is a control daemon that this process started.
type controlProcess struct {
	pid  int
	died chan struct{} // closed when it has ended
}

func (s *controlDaemon) outputFile() string { return filepath.Join(s.logDir(), "output") }

// pidFile contains the daemon's process id, for a later process that takes it over.
func (s *controlDaemon) pidFile() string { return filepath.Join(s.dir, "pid") }

// startProcess starts the control daemon with the /dev/shm of its clients. It has a session of
// its own, so that it survives this process.
func (s *controlDaemon) startProcess() (controlProcess, error) {
	out, err := os.Create(s.outputFile())
	if err != nil {
		return controlProcess{}, err
	}
	defer out.Close()
	// The shell gives the new mount namespace its /dev/shm, then becomes the
	// daemon.
	script := `mount --bind "$1" /dev/shm && shift && exec "$@"`
	args := append([]string{"-c", script, "sh", s.sharedMemoryDir(), s.cfg.Program}, s.cfg.Arguments...)
	c := exec.Command("/bin/sh", append(args, "-f")...)
	c.Env = append(s.buildEnvironment(), "CUDA_VISIBLE_DEVICES="+s.uuid)
	c.Dir, c.Stdout, c.Stderr = "/", out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Unshareflags: syscall.CLONE_NEWNS} // CLONE_NEWNS makes mounts private
	if err := c.Start(); err != nil {
		return controlProcess{}, err
	}
	started := controlProcess{pid: c.Process.Pid, died: make(chan struct{})}
	go func() {
		defer close(started.died)
		_ = c.Wait()
	}()
	if err := os.WriteFile(s.pidFile(), []byte(strconv.Itoa(started.pid)), 0o644); err != nil {
		_ = unix.Kill(-started.pid, unix.SIGKILL)
		<-started.died
		return controlProcess{}, fmt.Errorf("write its pid file: %w", err)
	}
	return started, nil
}

func (s *controlDaemon) buildEnvironment() []string {
	return append(os.Environ(), pipeVariable+"="+s.pipeDir(), logVariable+"="+s.logDir())
}

// endDaemon ends the daemon with its quit command, and kills it if that fails. died is nil for
// a daemon that was taken over.
func (s *controlDaemon) endDaemon(died <-chan struct{}) {
	ctx := context.Background()
	if _, err := s.runCommand(ctx, "quit"); err != nil {
		s.log.WithError(err).Debug("cannot send quit to the MPS control daemon")
	}
	deadline := time.After(s.cfg.CommandTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waits := true; waits && s.findProcess() != 0; {
		select {
		case <-died:
			waits = false
		case <-deadline:
			waits = false
		case <-tick.C:
		}
	}
	s.killDaemon()
	if s.cfg.Exclusive {
		if err := s.setComputeMode(ctx, "DEFAULT"); err != nil {
			s.log.WithError(err).Warn("cannot restore the compute mode")
		}
	}
}

// killDaemon kills the daemon, if it runs, and the servers that it started.
func (s *controlDaemon) killDaemon() {
	if pid := s.findProcess(); pid != 0 {
		log := s.log.WithField("pid", pid)
		log.Warn("MPS control daemon does not quit: killing it")
		if err := unix.Kill(-pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			log.WithError(err).Error("cannot kill the MPS control daemon and its servers")
		}
	}
	_ = os.Remove(s.pidFile())
}

// findProcess returns the daemon's process id from the file; 0 if that id belongs to another
// process now.
func (s *controlDaemon) findProcess() int {
	text, _ := os.ReadFile(s.pidFile())
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil || !bytes.Contains(env, []byte(pipeVariable+"="+s.pipeDir()+"\x00")) {
		return 0
	}
	return pid
}
