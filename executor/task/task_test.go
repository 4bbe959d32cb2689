package task

import (
	"syscall"
	"testing"
)

func TestExitStatus(t *testing.T) {
	tests := []struct {
		name    string
		exit    ExitStatus
		status  int
		success bool
		text    string
	}{
		{"wait status 0", ParseWaitStatus(0), 0, true, "exited with status 0"},
		{"wait status of exit 3", ParseWaitStatus(3 << 8), 3, false, "exited with status 3"},
		{"wait status of SIGKILL", ParseWaitStatus(syscall.WaitStatus(syscall.SIGKILL)), 137, false, "killed by signal 9 (SIGKILL)"},
		{"wait status of a core dump", ParseWaitStatus(syscall.WaitStatus(syscall.SIGSEGV) | 0x80), 139, false, "killed by signal 11 (SIGSEGV)"},
		{"shell's 0", ParseShellStatus(0), 0, true, "exited with status 0"},
		{"shell's 128", ParseShellStatus(128), 128, false, "exited with status 128"},
		{"shell's 143", ParseShellStatus(143), 143, false, "killed by signal 15 (SIGTERM)"},
		{"shell's 255", ParseShellStatus(255), 255, false, "exited with status 255"},
		{"with a reason", ExitStatus{Code: 1, Message: "out of memory"}, 1, false, "exited with status 1: out of memory"},
		{"unknown", ExitStatus{NoStatus: true}, 0, false, "ended without an exit status"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.exit.ShellCode(); got != tt.status {
				t.Errorf("status is %d, want %d", got, tt.status)
			}
			if got := tt.exit.Succeeded(); got != tt.success {
				t.Errorf("success is %v, want %v", got, tt.success)
			}
			if got := tt.exit.String(); got != tt.text {
				t.Errorf("text is %q, want %q", got, tt.text)
			}
		})
	}
}
