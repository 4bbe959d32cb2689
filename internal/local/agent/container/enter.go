package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// enterContainer starts a command in the namespaces of a running container.
// This process stays in its own PID namespace; its child is in the container's.
func enterContainer(e enteredContainer, c Command, terminal bool) (int, error) {
	if err := enterMounts(mountFD); err != nil {
		return 0, err
	}
	if err := unix.Setns(pidFD, unix.CLONE_NEWPID); err != nil {
		return 0, fmt.Errorf("enter PID namespace: %w", err)
	}
	if e.PidFile != "" {
		if err := followNamespaces(e.PidFile); err != nil {
			return 0, fmt.Errorf("enter container: %w", err)
		}
	}
	return forkCommand(c, terminal)
}

// enterMounts moves this thread to a mount namespace. A thread that shares its
// working directory with others cannot do that.
func enterMounts(namespace int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare file system: %w", err)
	}
	if err := unix.Setns(namespace, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("join mount namespace: %w", err)
	}
	return nil
}

// followNamespaces enters the namespaces that runc created and drops the rights
// that the container's process does not have. At this point /proc is the
// container's, and pidFile has the process's pid in that namespace.
func followNamespaces(pidFile string) error {
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		return err
	}
	proc := filepath.Join("/proc", string(pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return err
	}
	var spaces []*os.File
	for _, name := range []string{"ipc", "mnt"} {
		f, err := os.Open(filepath.Join(proc, "ns", name))
		if err != nil {
			return err
		}
		defer f.Close()
		spaces = append(spaces, f)
	}
	for _, f := range spaces {
		if err := unix.Setns(int(f.Fd()), 0); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return dropCapabilities(string(status))
}

// dropCapabilities drops every capability that is absent from the bounding set
// in status. It applies to all processes that this thread starts.
func dropCapabilities(status string) error {
	bounding, err := strconv.ParseUint(statusField(status, "CapBnd"), 16, 64)
	if err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for n := uintptr(0); n < 64; n++ {
		if bounding&(1<<n) != 0 {
			continue
		}
		// EINVAL: the kernel has no such capability.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("drop capability %d: %w", n, err)
		}
	}
	if statusField(status, "NoNewPrivs") == "1" {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	return nil
}

// statusField returns one field of /proc/PID/status.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
