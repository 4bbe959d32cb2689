package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTempWorkDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, release, err := TempWorkDir()
	if err != nil {
		t.Fatal(err)
	}
	second, releaseSecond, err := TempWorkDir()
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Errorf("two clusters share %s", first)
	}
	for _, r := range []func() error{release, releaseSecond} {
		if err := r(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestTempWorkDirTakesOverWhatAKilledClusterLeft(t *testing.T) {
	temp := filepath.Join(t.TempDir(), "tmp[1") // no pattern
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	old := filepath.Join(os.TempDir(), tempPrefix+"1")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(old, journalFile)
	if err := os.WriteFile(journal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, release, err := TempWorkDir()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if dir != old {
		t.Errorf("got %s, want the old %s", dir, old)
	}
	if _, err := os.Stat(journal); !os.IsNotExist(err) {
		t.Errorf("the old jobs are still there: %v", err)
	}
}

func TestOneClusterAWorkDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "work")
	release, err := LockWorkDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockWorkDir(dir); err == nil || !strings.Contains(err.Error(), "in use by another mesos-gpu local") {
		t.Errorf("a second cluster: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := LockWorkDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}

func TestTempWorkDirTrustsNoOtherUser(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	planted := filepath.Join(os.TempDir(), tempPrefix+"1")
	if err := os.Mkdir(planted, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(planted, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(os.TempDir(), tempPrefix+"2")); err != nil {
		t.Fatal(err)
	}
	dir, release, err := TempWorkDir()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if name := filepath.Base(dir); name == tempPrefix+"1" || name == tempPrefix+"2" {
		t.Errorf("uses %s, which others may write to", dir)
	}
}
