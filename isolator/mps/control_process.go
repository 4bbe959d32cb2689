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

// controlProcess is a control daemon that this process started.
type controlProcess struct {
	pid  int
	died chan struct{} // closed when it has ended
}

func (s *controlDaemon) outputFile() string { return filepath.Join(s.logDir(), "output") }

// pidFile names the daemon's process for who takes it over.
func (s *controlDaemon) pidFile() string { return filepath.Join(s.dir, "pid") }

// startProcess starts the control daemon, in a session of its own, so that it outlives
// this process, and with its clients' /dev/shm.
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
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Unshareflags: syscall.CLONE_NEWNS} // mounts are made private by this
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
		return controlProcess{}, fmt.Errorf("note its process: %w", err)
	}
	return started, nil
}

func (s *controlDaemon) buildEnvironment() []string {
	return append(os.Environ(), pipeVariable+"="+s.pipeDir(), logVariable+"="+s.logDir())
}

// endDaemon ends the daemon: by its own command, and by force where that is not
// obeyed. died is nil for one that was taken over.
func (s *controlDaemon) endDaemon(died <-chan struct{}) {
	ctx := context.Background()
	if _, err := s.runCommand(ctx, "quit"); err != nil {
		s.log.WithError(err).Debug("MPS control daemon not asked to quit")
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
			s.log.WithError(err).Warn("compute mode stays as it is")
		}
	}
}

// killDaemon kills what is left of the daemon, with the servers that it started.
func (s *controlDaemon) killDaemon() {
	if pid := s.findProcess(); pid != 0 {
		s.log.WithField("pid", pid).Warn("MPS control daemon does not quit: it is killed")
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	_ = os.Remove(s.pidFile())
}

// findProcess is the daemon's, as the file says; 0 where that is another's by now.
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
