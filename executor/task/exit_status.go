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
	// Code is the exit status of a process that ended by itself; Signal is
	// set instead where a signal ended it.
	Code   int
	Signal syscall.Signal
	// NoStatus says that nobody knows either: the container was destroyed
	// before its process ran, or behind the agent's back.
	NoStatus bool
	// Message adds what the runtime knows about the reason.
	Message string
	// State, Reason and Limitation come from an agent or engine that ended
	// the task itself, for example because it grew beyond its memory.
	State      *mesos.TaskState
	Reason     *mesos.TaskStatus_Reason
	Limitation *mesos.TaskResourceLimitation
}

// ParseWaitStatus reads a wait(2) status.
func ParseWaitStatus(status int) ExitStatus {
	w := syscall.WaitStatus(status)
	if w.Signaled() {
		return ExitStatus{Signal: w.Signal()}
	}
	return ExitStatus{Code: w.ExitStatus()}
}

// ParseShellStatus reads an exit status as shells and container engines give it:
// 128+N for a process that signal N ended.
func ParseShellStatus(code int) ExitStatus {
	if sig := syscall.Signal(code - 128); code > 128 && unix.SignalName(sig) != "" {
		return ExitStatus{Signal: sig}
	}
	return ExitStatus{Code: code}
}

// ShellCode is the exit status as a shell gives it.
func (e ExitStatus) ShellCode() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Succeeded reports a process that ended by itself with status 0.
func (e ExitStatus) Succeeded() bool { return e.Signal == 0 && e.Code == 0 && !e.NoStatus }

// String reads "exited with status 3" or "killed by signal 9 (SIGKILL)".
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
