// Package filelock takes advisory locks on open files by flock(2). The kernel
// releases a lock when the file is closed, and when its process ends. The
// package never removes a file: two processes could then lock two files of
// one name.
package filelock

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another open file has the lock.
var ErrLocked = errors.New("another process has the lock")

// pollInterval is the time between two attempts of LockContext.
const pollInterval = 20 * time.Millisecond

// Lock takes the exclusive lock. It waits as long as another has a lock.
func Lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// TryLock takes the exclusive lock, or returns ErrLocked.
func TryLock(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// TryRLock takes a shared lock, or returns ErrLocked while another has the
// exclusive one.
func TryRLock(f *os.File) error { return flock(f, unix.LOCK_SH|unix.LOCK_NB) }

// LockContext takes the exclusive lock. It returns the cause of ctx's end if
// that comes first.
func LockContext(ctx context.Context, f *os.File) error {
	for {
		if err := TryLock(f); !errors.Is(err, ErrLocked) {
			return err
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// InheritedLockTimeout is how long a process waits for a lock of which the last
// holder may have been killed: a child process that it was about to start has
// the lock until it executes its program.
const InheritedLockTimeout = 5 * time.Second

// LockAfterKill takes the exclusive lock. It returns ErrLocked if another has it
// for all of InheritedLockTimeout.
func LockAfterKill(f *os.File) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), InheritedLockTimeout, ErrLocked)
	defer cancel()
	return LockContext(ctx, f)
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}
