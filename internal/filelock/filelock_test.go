package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b := open(), open()
	if err := TryRLock(a); err != nil {
		t.Fatal(err)
	}
	if err := TryRLock(b); err != nil {
		t.Errorf("two shared locks: %v", err)
	}
	if err := TryLock(b); !errors.Is(err, ErrLocked) {
		t.Errorf("an exclusive lock next to a shared one: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Lock(a); err != nil {
		t.Fatal(err)
	}
	b = open()
	if err := TryRLock(b); !errors.Is(err, ErrLocked) {
		t.Errorf("a shared lock next to an exclusive one: %v", err)
	}
	why := errors.New("test ends the wait")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*pollInterval, why)
	defer cancel()
	if err := LockContext(ctx, b); !errors.Is(err, why) {
		t.Errorf("waited for a lock until %v", err)
	}
	time.AfterFunc(pollInterval, func() { a.Close() })
	if err := LockContext(t.Context(), b); err != nil {
		t.Errorf("the lock of a closed file was not released: %v", err)
	}
}

// TestLockOfKilledProcessIsAwaited takes a lock whose holder gives it up meanwhile.
func TestLockOfKilledProcessIsAwaited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	next, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := TryLock(held); err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() { locked <- LockAfterKill(next) }()
	if err := TryLock(next); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is held: %v", err)
	}
	held.Close()
	if err := <-locked; err != nil {
		t.Errorf("after it was released: %v", err)
	}
}
