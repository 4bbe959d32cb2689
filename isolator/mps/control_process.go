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

// pidFile contains the daemon's process id, for a later process that takes it over.
func (d *controlDaemon) pidFile() string { return filepath.Join(d.dir, "pid") }

// startProcess starts the control daemon with the /dev/shm of its clients. It has a session of
// its own, so that it survives this process.
func (d *controlDaemon) startProcess() (controlProcess, error) {
	out, err := os.OpenFile(d.outputFile(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return controlProcess{}, err
	}
	defer out.Close()
	// The shell gives the new mount namespace its /dev/shm, then becomes the
	// daemon.
	script := `mount --bind "$1" /dev/shm && shift && exec "$@"`
	args := append([]string{"-c", script, "sh", d.sharedMemoryDir(), d.cfg.program}, d.cfg.arguments...)
	c := exec.Command("/bin/sh", append(args, "-f")...)
	c.Env = append(d.buildEnvironment(), "CUDA_VISIBLE_DEVICES="+d.uuid)
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
	if err := os.WriteFile(d.pidFile(), []byte(strconv.Itoa(started.pid)), 0o644); err != nil {
		_ = unix.Kill(-started.pid, unix.SIGKILL)
		<-started.died
		return controlProcess{}, fmt.Errorf("write its pid file: %w", err)
	}
	return started, nil
}

func (d *controlDaemon) buildEnvironment() []string {
	return append(os.Environ(), pipeVariable+"="+d.pipeDir(), logVariable+"="+d.logDir())
}

// endDaemon ends the daemon with its quit command, and kills it if that fails. died is nil for
// a daemon that was taken over.
func (d *controlDaemon) endDaemon(died <-chan struct{}) {
	ctx := context.Background()
	if _, err := d.runCommand(ctx, "quit"); err != nil {
		d.log.WithError(err).Debug("cannot send quit to the MPS control daemon")
	}
	deadline := time.After(d.cfg.commandTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waits := true; waits && d.findProcess() != 0; {
		select {
		case <-died:
			waits = false
		case <-deadline:
			waits = false
		case <-tick.C:
		}
	}
	d.killDaemon()
	if d.cfg.Exclusive {
		if err := d.setComputeMode(ctx, "DEFAULT"); err != nil {
			d.log.WithError(err).Warn("cannot restore the compute mode")
		}
	}
}

// killDaemon kills the daemon, if it runs, and the servers that it started.
func (d *controlDaemon) killDaemon() {
	if pid := d.findProcess(); pid != 0 {
		log := d.log.WithField("pid", pid)
		log.Warn("MPS control daemon does not quit: killing it")
		if err := unix.Kill(-pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			log.WithError(err).Error("cannot kill the MPS control daemon and its servers")
		}
	}
	_ = os.Remove(d.pidFile())
}

// findProcess returns the daemon's process id from the file; 0 if that id belongs to another
// process now.
func (d *controlDaemon) findProcess() int {
	text, _ := os.ReadFile(d.pidFile())
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil || !bytes.Contains(env, []byte(pipeVariable+"="+d.pipeDir()+"\x00")) {
		return 0
	}
	return pid
}
