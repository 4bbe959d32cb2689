package container

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// startOCI makes runc create and start the container. runc then exits, so the
// container's process becomes a child of this process, which can read its true
// wait status.
func startOCI(o RuncBundle) (int, error) {
	if o.Lower != "" {
		if err := mountOverlay(o); err != nil {
			return 0, err
		}
	}
	pidFile := o.pidFile()
	if err := runRunc(o, "create", "--bundle", o.Bundle, "--pid-file", pidFile, o.ID); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, fmt.Errorf("read runc's pid file: %w", err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, fmt.Errorf("read runc's pid file: %w", err)
	}
	if err := runRunc(o, "start", o.ID); err != nil {
		return 0, err
	}
	return pid, nil
}

// pidFile is the file to which runc writes the pid of the container's process,
// as numbered in this PID namespace.
func (b RuncBundle) pidFile() string { return filepath.Join(b.Bundle, "pid") }

// runRunc runs one runc command. Its standard output and error are the
// container's, so error messages are read from runc's log.
func runRunc(o RuncBundle, verb string, args ...string) error {
	log := filepath.Join(o.Bundle, "runc."+verb+".log")
	cmd := exec.Command(o.Runc, append([]string{"--root", o.State, "--log", log, "--log-format", "json", verb}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("runc %s: %w: %s", verb, err, lastMessage(log))
	}
	return nil
}

// maxLog bounds how much of runc's log is read.
const maxLog = 64 << 10

// lastMessage returns the last line of a log file.
func lastMessage(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "runc left no log"
	}
	if len(text) > maxLog {
		text = text[len(text)-maxLog:]
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte{'\n'})
	return string(lines[len(lines)-1])
}

func mountOverlay(o RuncBundle) error {
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", overlayPath(o.Lower), overlayPath(o.Upper), overlayPath(o.Work))
	rootfs := filepath.Join(o.Bundle, "rootfs")
	if err := unix.Mount("overlay", rootfs, "overlay", 0, options); err != nil {
		return OverlayError(fmt.Sprintf("mount overlay on %s: %v", rootfs, err))
	}
	return nil
}

// overlayPath escapes the separators of overlay mount options.
func overlayPath(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}
