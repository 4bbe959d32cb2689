package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

// killCommand kills all processes that have the session's mark in their
// environment. It kills them from here if this process can see the engine's
// processes, else by a shell inside the container.
func (g *execWatchdog) killCommand(ctx context.Context, n sessionNotice) error {
	c, err := g.r.engine.ContainerInspect(ctx, g.r.id)
	if err != nil || c.State == nil || !c.State.Running {
		return err
	}
	if g.isTaskProcess(c.State.Pid) && g.killMarkedProcesses(n.Mark) == nil {
		return nil
	}
	return g.killInContainer(ctx, n.Mark)
}

// isTaskProcess reports whether a process is in the task's container. In
// another PID namespace than the engine's, the same pid is another process or
// none.
func (g *execWatchdog) isTaskProcess(pid int) bool {
	text, err := os.ReadFile(filepath.Join(g.r.procDir, strconv.Itoa(pid), "cgroup"))
	return err == nil && strings.Contains(string(text), g.r.id)
}

// killRounds bounds the searches for processes that were just started.
const killRounds = 5

// killMarkedProcesses kills the task's processes whose environment has the
// mark. It returns an error if it cannot read an environment.
func (g *execWatchdog) killMarkedProcesses(mark string) error {
	want := []byte(sessionVariable + "=" + mark)
	for range killRounds {
		found := false
		files, _ := filepath.Glob(filepath.Join(g.r.procDir, "[0-9]*")) // the pattern is well-formed
		for _, folder := range files {
			killed, err := g.killIfMarked(folder, want)
			if err != nil {
				return err
			}
			found = found || killed
		}
		if !found {
			return nil
		}
	}
	return errStillForking
}

// killIfMarked kills a process of the task if it has the mark. It uses a
// pidfd, so that the pid cannot be reused in between.
func (g *execWatchdog) killIfMarked(folder string, want []byte) (killed bool, err error) {
	pid, err := strconv.Atoi(filepath.Base(folder))
	if err != nil || !g.isTaskProcess(pid) {
		return false, nil
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open pidfd of process %d: %w", pid, err)
	}
	defer unix.Close(handle)
	text, err := os.ReadFile(filepath.Join(folder, "environ"))
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH):
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Contains(text, want):
		return false, nil
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, err
	}
	return true, nil
}

var errStillForking = errors.New("a session's command keeps starting processes")

// killScript kills all processes whose environment has $1. It exits with 3 if
// there were any, else 0. read skips the NUL bytes between variables.
const killScript = `found=0
for p in /proc/[0-9]*; do
	while read -r line || [ -n "$line" ]; do
		case $line in *"$1"*) kill -KILL "${p#/proc/}" && found=3; break;; esac
	done <"$p/environ"
done 2>/dev/null
exit $found`

// killInContainer runs killScript. It needs a shell in the container.
func (g *execWatchdog) killInContainer(ctx context.Context, mark string) error {
	argv := []string{"/bin/sh", "-c", killScript, "sh", sessionVariable + "=" + mark}
	for range killRounds {
		code, _, err := g.r.runCommand(ctx, container.ExecOptions{Cmd: argv, AttachStdout: true, AttachStderr: true})
		switch {
		case err != nil:
			return fmt.Errorf("end a session's command: %w", err)
		case code == 0:
			return nil
		case code != 3:
			return fmt.Errorf("end a session's command: the image's /bin/sh, which runs the kill script, ended with status %d", code)
		}
	}
	return errStillForking
}
