package container

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// TestMain makes the test binary the first process of containers. That process
// exits by syscall.Exit, because os.Exit of a race-instrumented binary waits a
// second for reports.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == InitCommand {
		if err := Init(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	os.Exit(m.Run())
}
