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

// kill ends a command and all that it started, which their environment tells:
// from here, where the engine's processes can be seen and killed; else from
// within the container, by its shell.
func (g *guard) kill(ctx context.Context, pid int, n notice) error {
	c, err := g.r.engine.ContainerInspect(ctx, g.r.id)
	if err != nil || c.State == nil || !c.State.Running {
		return err
	}
	if g.ours(c.State.Pid) && g.killMarked(pid, n.Mark) == nil {
		return nil
	}
	return g.killInside(ctx, n.Mark)
}

// ours reports whether the process of that number is in the task's container:
// in another PID namespace than the engine's the number is another's, or
// nobody's.
func (g *guard) ours(pid int) bool {
	text, err := os.ReadFile(filepath.Join(g.r.proc, strconv.Itoa(pid), "cgroup"))
	return err == nil && strings.Contains(string(text), g.r.id)
}

// killRounds bounds how often processes are looked for that were just started.
const killRounds = 5

// killMarked kills a process and all whose environment has the mark.
func (g *guard) killMarked(pid int, mark string) error {
	if g.ours(pid) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	want := []byte(sessionVariable + "=" + mark)
	for range killRounds {
		found := false
		files, _ := filepath.Glob(filepath.Join(g.r.proc, "[0-9]*", "environ")) // the pattern is well-formed
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(text, want) {
				continue // it has ended, or is another user's
			}
			other, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err == nil && g.ours(other) && unix.Kill(other, unix.SIGKILL) == nil {
				found = true
			}
		}
		if !found {
			return nil
		}
	}
	return errRestless
}

var errRestless = errors.New("a session's command goes on starting processes")

// killScript kills all processes whose environment has $1, and says by its
// status whether there were any. read skips the zeros between variables.
const killScript = `found=0
for p in /proc/[0-9]*; do
	while read -r line || [ -n "$line" ]; do
		case $line in *"$1"*) kill -KILL "${p#/proc/}" && found=3; break;; esac
	done <"$p/environ"
done 2>/dev/null
exit $found`

// killInside needs a shell in the container.
func (g *guard) killInside(ctx context.Context, mark string) error {
	argv := []string{"/bin/sh", "-c", killScript, "sh", sessionVariable + "=" + mark}
	for range killRounds {
		code, _, err := g.r.exec(ctx, container.ExecOptions{Cmd: argv, AttachStdout: true, AttachStderr: true})
		switch {
		case err != nil:
			return fmt.Errorf("end a session's command: %w", err)
		case code == 0:
			return nil
		case code != 3:
			return fmt.Errorf("end a session's command: the image's /bin/sh, which is to do it, ended with status %d", code)
		}
	}
	return errRestless
}
