package task

import (
	"fmt"
	"strconv"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"
)

// ExitStatus is how a task's process ended.
type ExitStatus struct {
	// Code is the exit code of a process that ended by itself. If a signal
	// ended the process, Signal is set instead.
	Code   int
	Signal syscall.Signal
	// NoStatus means that neither is known: the container was destroyed before
	// its process ran, or not by the agent.
	NoStatus bool
	// Message has details about the cause from the runtime.
	Message string
	// State, Reason and Limitation are set by an agent or engine that ended
	// the task itself, for example because of its memory limit.
	State      *mesos.TaskState
	Reason     *mesos.TaskStatus_Reason
	Limitation *mesos.TaskResourceLimitation
}

// ParseWaitStatus converts a wait(2) status.
func ParseWaitStatus(w syscall.WaitStatus) ExitStatus {
	if w.Signaled() {
		return ExitStatus{Signal: w.Signal()}
	}
	return ExitStatus{Code: w.ExitStatus()}
}

// ParseShellStatus converts an exit code as shells and container engines
// report it: 128+N for a process that signal N ended.
func ParseShellStatus(code int) ExitStatus {
	if sig := syscall.Signal(code - 128); code > 128 && unix.SignalName(sig) != "" {
		return ExitStatus{Signal: sig}
	}
	return ExitStatus{Code: code}
}

// ShellCode returns the exit code as a shell reports it.
func (e ExitStatus) ShellCode() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Succeeded reports whether the process ended by itself with code 0.
func (e ExitStatus) Succeeded() bool { return e.Signal == 0 && e.Code == 0 && !e.NoStatus }

// String returns "exited with status 3" or "killed by signal 9 (SIGKILL)".
func (e ExitStatus) String() string {
	s := "exited with status " + strconv.Itoa(e.Code)
	switch {
	case e.NoStatus:
		s = "ended without an exit status"
	case e.Signal != 0:
		s = fmt.Sprintf("killed by signal %d (%s)", int(e.Signal), unix.SignalName(e.Signal))
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}
