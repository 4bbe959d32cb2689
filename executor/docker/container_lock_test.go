package docker

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// callWithin returns the result of f, and ends the test if f blocks.
func callWithin(t *testing.T, timeout time.Duration, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(timeout):
		t.Fatal("it hangs")
		return nil
	}
}

// TestForeignFilesDoNotStopOrphanCleanup checks that files that any user may make in the folder of lock files neither block
// nor fail the removal of orphans, which precedes the start of each task.
func TestForeignFilesDoNotStopOrphanCleanup(t *testing.T) {
	engine := fakeEngine(t, nil) // has no container
	for name, prepare := range map[string]func(path string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"loop":   func(path string) error { return os.Symlink(path, path) },
		"link":   func(path string) error { return os.Symlink("/proc/self/mem", path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"socket": func(path string) error {
			l, err := net.Listen("unix", path)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
		"other engine": func(path string) error { return os.WriteFile(path, []byte(engine.DaemonHost()+"0"), 0o600) },
		"huge": func(path string) error {
			if err := os.WriteFile(path, []byte(engine.DaemonHost()), 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "") // a socket's path is short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			foreign := filepath.Join(dir, namePrefix+"foreign")
			if err := prepare(foreign); err != nil {
				t.Fatal(err)
			}
			orphan := filepath.Join(dir, namePrefix+"orphan")
			if err := os.WriteFile(orphan, []byte(engine.DaemonHost()), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := callWithin(t, 10*time.Second, func() error {
				return RemoveOrphans(t.Context(), func() (*client.Client, error) { return engine, nil }, dir, quiet(t))
			}); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(orphan); !os.IsNotExist(err) {
				t.Errorf("the orphan's lock file: got %v, want it removed", err)
			}
			if _, err := os.Lstat(foreign); err != nil {
				t.Errorf("the other file was removed: %v", err)
			}
		})
	}
}

// TestContainerLockIsItsOwnFile checks that an executor does not lock, block on or write to a file that another user made
// at its lock file's name.
func TestContainerLockIsItsOwnFile(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	lock := func(name string) error {
		return callWithin(t, 10*time.Second, func() error {
			lock, err := lockContainer(dir, name, "unix:///docker.sock")
			if err == nil {
				t.Cleanup(lock.unlock)
			}
			return err
		})
	}
	for name, prepare := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"pipe":    func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"link":    func(path string) error { return os.Symlink(victim, path) },
		"file":    func(path string) error { return os.WriteFile(path, []byte("unix:///docker.sock, and more"), 0o666) },
	} {
		path := filepath.Join(dir, name)
		if err := prepare(path); err != nil {
			t.Fatal(err)
		}
		if err := lock(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			t.Fatalf("%s: got %v, %v, want a new regular file", name, info, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "unix:///docker.sock" {
			t.Errorf("%s: it has %q, %v", name, text, err)
		}
	}
	if _, err := os.Lstat(victim); err == nil {
		t.Error("the executor wrote through a link")
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := lock("folder"); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("got %v for a folder that cannot be replaced", err)
	}
}
