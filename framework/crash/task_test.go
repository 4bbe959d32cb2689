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

// What tasks leave in the proof's folder.
const (
	linesFile     = "lines"     // a line each: job, index, devices
	conflictsFile = "conflicts" // what a task found held by another
	heldFolder    = "held"      // a file for each device, locked by its holder
)

// runTask is a task: it leaves a line, locks a file for each of its devices
// and takes as long as it is told. The kernel lets go of its locks when it
// ends, however it ends.
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

// appendLine appends a line, with one write.
func appendLine(dir, name string, words ...string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(words, " ") + "\n")
	return errors.Join(err, f.Close())
}

// lockDevice returns EWOULDBLOCK, wrapped, if another process has the device. The
// file is to be closed in any case.
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
