// Package cputime measures the CPU time of benchmarks, and compares it with ranges. It imports nothing of this
// module, so that tests of pure packages that use it remain tests without goroutines.
package cputime

import (
	"syscall"
	"testing"
	"time"
)

// Read returns the CPU time of this process, user and system, over all threads.
func Read(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
