// Package waitstatus reads the exit statuses of containers that Mesos's agent reports.
package waitstatus

import (
	"strconv"
	"syscall"
)

// ParseAgentStatus returns the wait(2) status of a nested container's process.
//
// Mesos's launcher (mesos-containerizer launch) forks before it executes the command, and both
// processes write a status in decimal to the same open file if they fail or get a signal before
// that. The agent then reads one number made of two: 256256 for 256 (exit code 1), 2828 for 28
// (SIGWINCH), and 28256 for a child that wrote the signal and exited with code 1. Such a number is
// recognized if no process can end with it. That is not so for 11, which may be 1 twice: SIGHUP is
// reported as SIGSEGV.
func ParseAgentStatus(status int32) syscall.WaitStatus {
	text := strconv.Itoa(int(status))
	for digits := 1; digits < len(text) && !isPossible(status); digits++ {
		first, second := text[:digits], text[digits:]
		own, err := strconv.Atoi(first)
		if err == nil && (second == first || second == "256" && own <= lastSignal) {
			return syscall.WaitStatus(own)
		}
	}
	return syscall.WaitStatus(status)
}

const lastSignal = 64

// isPossible reports whether a process can end with this status: with an exit code in the second
// byte, or with a signal in the first one, maybe with the flag of a core dump.
func isPossible(status int32) bool {
	const coreDump = 0x80
	return status&^0xff00 == 0 || status&^coreDump <= lastSignal
}
