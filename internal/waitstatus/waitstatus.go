// Package waitstatus reads the exit statuses of containers that Mesos's agent reports.
package waitstatus

import (
	"strconv"
	"syscall"
)

// ParseAgentStatus returns the wait(2) status of a nested container's process.
//
// In a PID namespace, two processes of Mesos's launcher (mesos-containerizer launch) write the
// status in decimal to one file if the launcher itself fails or is killed, so that the agent
// reads 256256 for 256 (exit code 1) and 2828 for 28 (SIGWINCH). Such a number is recognized if
// no process can end with it. That is not so for 11, which may be 1 twice: SIGHUP is reported
// as SIGSEGV.
func ParseAgentStatus(status int32) syscall.WaitStatus {
	if text := strconv.Itoa(int(status)); len(text)%2 == 0 && text[:len(text)/2] == text[len(text)/2:] && !isPossible(status) {
		half, _ := strconv.Atoi(text[:len(text)/2]) // half of an int32's digits
		return syscall.WaitStatus(half)
	}
	return syscall.WaitStatus(status)
}

// isPossible reports whether a process can end with this status: with an exit code in the second
// byte, or with a signal in the first one, maybe with the flag of a core dump.
func isPossible(status int32) bool {
	const coreDump, lastSignal = 0x80, 64
	return status&^0xff00 == 0 || status&^coreDump <= lastSignal
}
