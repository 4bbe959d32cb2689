package task

import (
	"fmt"
	"strconv"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"
)

// Exit is how a task's process ended.
type Exit struct {
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

// ExitOf reads a wait(2) status.
func ExitOf(status int) Exit {
	w := syscall.WaitStatus(status)
	if w.Signaled() {
		return Exit{Signal: w.Signal()}
	}
	return Exit{Code: w.ExitStatus()}
}

// ExitOfShell reads an exit status as shells and container engines give it:
// 128+N for a process that signal N ended.
func ExitOfShell(code int) Exit {
	if sig := syscall.Signal(code - 128); code > 128 && unix.SignalName(sig) != "" {
		return Exit{Signal: sig}
	}
	return Exit{Code: code}
}

// Status is the exit status as a shell gives it.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// Success reports a process that ended by itself with status 0.
func (e Exit) Success() bool { return e.Signal == 0 && e.Code == 0 && !e.NoStatus }

// String reads "exited with status 3" or "killed by signal 9 (SIGKILL)".
func (e Exit) String() string {
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
