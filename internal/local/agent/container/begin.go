package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// startCommand isolates the process as ordered and starts the command.
func startCommand(o launchOrder) (pid int, err error) {
	if o.Enter != nil {
		return enterContainer(*o.Enter, o.Command, o.Terminal)
	}
	if o.Fenced {
		if err := isolateProcess(o); err != nil {
			return 0, err
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("become reaper: %w", err)
	}
	if o.OCI != nil {
		return startOCI(*o.OCI)
	}
	return forkCommand(o.Command, o.Terminal)
}

// isolateProcess sets up the mount namespace. Mounts made here are invisible to
// other containers and end with the last process. Later mounts of the host
// propagate into it.
func isolateProcess(o launchOrder) error {
	if o.Join {
		if err := enterMounts(mountFD); err != nil {
			return err
		}
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("unshare mounts: %w", err)
		}
	}
	err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("make mounts private: / is no mount point, as in a chroot: run the cluster outside of it, or in a container")
	}
	if err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if !o.Join && o.OCI == nil {
		if err := mountDev("/dev", o.Nodes); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if o.Alias != nil {
		return mountAlias(*o.Alias)
	}
	return nil
}

// forkCommand forks the command from this thread, so that the command inherits
// the thread's namespaces. A terminal on the standard streams becomes the
// controlling terminal.
func forkCommand(c Command, terminal bool) (int, error) {
	path, err := lookPath(c.Path, c.Dir, c.Env)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", c.Path, err)
	}
	restore, err := setRlimits(c.Rlimits)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	defer restore()
	pid, err := syscall.ForkExec(path, c.Args, &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: terminal, Credential: c.User},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s in %s: %w", path, c.Dir, err)
	}
	return pid, nil
}

// lookPath finds a program as execvp does, on the PATH in env. A name with a
// slash is relative to the working directory.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if filepath.IsAbs(name) {
			return name, nil
		}
		return filepath.Join(dir, name), nil
	}
	for _, entry := range env {
		path, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(path) {
			candidate := filepath.Join(folder, name)
			if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return candidate, nil
			}
		}
		return "", fmt.Errorf("no such program in %s", path)
	}
	return "", fmt.Errorf("no PATH to find it on")
}

// killChildren kills all descendants. The descendants of a killed child become
// children of this process, so it repeats until no child is left.
func killChildren() {
	for {
		for _, pid := range childPIDs() {
			_ = unix.Kill(pid, unix.SIGKILL) // ESRCH: gone already
		}
		// EINTR: retry. ECHILD: no child is left.
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			return
		}
	}
}

func childPIDs() []int {
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is well-formed
	var pids []int
	for _, file := range files {
		children, _ := readPIDs(file) // a thread that has ended has no children
		pids = append(pids, children...)
	}
	return pids
}
