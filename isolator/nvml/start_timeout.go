//go:build linux && cgo

package nvml

import (
	"fmt"
	"time"
)

// startWithTimeout bounds a call that opens the driver. If the call returns too late, tooLate
// disposes of its result.
func startWithTimeout[T any](c LibraryConfig, what string, call func(LibraryConfig) (T, error), tooLate func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := call(c)
		done <- result{value, err}
	}()
	timer := time.NewTimer(c.startTimeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		go func() {
			if r := <-done; r.err == nil {
				tooLate(r.value)
			}
		}()
		var none T
		return none, fmt.Errorf("%s: %w within %s: dmesg names the one that hangs; reset it or boot the machine, then start again", what, ErrNoAnswer, c.startTimeout)
	}
}
