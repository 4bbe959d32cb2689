package executor

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The task may create files at the log's path: the log is not written through links, and
// pipes do not block.
func TestOpenLog(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, put := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(outside, path) },
		"pipe": func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		sandbox := t.TempDir()
		if err := put(filepath.Join(sandbox, logFileName)); err != nil {
			t.Fatal(err)
		}
		if _, file, err := openLog(sandbox); err == nil {
			file.Close()
			t.Errorf("a %s was opened", name)
		}
	}
	if _, err := os.Lstat(outside); !os.IsNotExist(err) {
		t.Errorf("the file outside was made (%v)", err)
	}
	sandbox := t.TempDir()
	log, file, err := openLog(sandbox)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("hello")
	file.Close()
	if text, err := os.ReadFile(filepath.Join(sandbox, logFileName)); err != nil || len(text) == 0 {
		t.Errorf("the log holds %q (%v)", text, err)
	}
}
