package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Files that tasks write in the evidence folder.
const (
	linesFile     = "lines"     // one line for each task: job, index, devices
	conflictsFile = "conflicts" // devices that a task found locked by another one
	heldFolder    = "held"      // one file for each device, locked by its holder
)

// runTask runs a task: it writes a line, locks a file for each of its devices and sleeps
// for the given time. The kernel releases the locks when it ends, for whatever reason.
func runTask(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("a task takes a folder and a time, got %q", args)
	}
	dir := args[0]
	takes, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	visible := os.Getenv("NVIDIA_VISIBLE_DEVICES")
	if err := appendLine(dir, linesFile, os.Getenv("MESOS_GPU_JOB"), os.Getenv("MESOS_GPU_TASK_INDEX"), visible); err != nil {
		return err
	}
	for id := range strings.SplitSeq(visible, ",") {
		held, err := lockDevice(dir, id)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = appendLine(dir, conflictsFile, os.Getenv("MESOS_TASK_ID"), "found", id, "held")
		}
		if err != nil {
			return err
		}
		defer held.Close()
	}
	time.Sleep(takes)
	return nil
}

// appendLine appends a line with a single write.
func appendLine(dir, name string, words ...string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(words, " ") + "\n")
	return errors.Join(err, f.Close())
}

// lockDevice locks a device's file. It returns EWOULDBLOCK, wrapped, if another process has
// locked it. The caller must close the file in any case.
func lockDevice(dir, device string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, heldFolder, device), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return f, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return f, nil
}
