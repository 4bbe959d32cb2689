package waitstatus

import (
	"syscall"
	"testing"
)

func TestParseAgentStatus(t *testing.T) {
	for reported, want := range map[int32]syscall.WaitStatus{
		0: 0, 9: 9, 15: 15, 256: 256, 7 << 8: 7 << 8, 255 << 8: 255 << 8, 11: 11, 128 + 11: 128 + 11,
		2828: 28, 256256: 256, 99: 9, 1515: 15, 512512: 512, 139139: 139,
		28256: 28, 1256: 1, 15256: 15, 32256: 126 << 8, 64256: 251 << 8, 65256: 65256, -256: 1<<32 - 256,
		22: 22, 256257: 256257,
	} {
		if got := ParseAgentStatus(reported); got != want {
			t.Errorf("%d: got %d, want %d", reported, got, want)
		}
	}
}

// TestExitCodesAreReadAsTheyAre: what a process can end with is never taken for a repeated number.
func TestExitCodesAreReadAsTheyAre(t *testing.T) {
	for code := range int32(256) {
		if got := ParseAgentStatus(code << 8); !got.Exited() || got.ExitStatus() != int(code) {
			t.Errorf("exit code %d is read as %d", code, got)
		}
	}
	for signal := int32(1); signal <= 64; signal++ {
		if got := ParseAgentStatus(signal); !got.Signaled() || got.Signal() != syscall.Signal(signal) {
			t.Errorf("signal %d is read as %d", signal, got)
		}
	}
}
