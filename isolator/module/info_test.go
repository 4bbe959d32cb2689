package module

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/socket"
)

// compileInfo compiles a library with the lines of src/isolator.cpp that define the
// constant, against a header of Mesos with a made-up version.
func compileInfo(t *testing.T, line string) string {
	t.Helper()
	testneeds.RequireProgram(t, "g++", "g++")
	dir := t.TempDir()
	file := filepath.Join(dir, "module.so")
	source := "#define MESOS_VERSION \"1.2.3\"\n" + line + "\n"
	if err := os.WriteFile(filepath.Join(dir, "info.cpp"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "g++", "-shared", "-fPIC", "-o", file, filepath.Join(dir, "info.cpp")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

func TestInfoIsReadFromModule(t *testing.T) {
	source, err := os.ReadFile("src/isolator.cpp")
	if err != nil {
		t.Fatal(err)
	}
	begin := strings.Index(string(source), "extern \"C\" const char "+infoSymbol)
	if begin < 0 {
		t.Fatalf("src/isolator.cpp does not define %s", infoSymbol)
	}
	line, _, _ := strings.Cut(string(source[begin:]), "\n")
	file := compileInfo(t, line)
	got, err := ReadInfo(file)
	if want := (Info{file, "1.2.3", socket.APIVersion}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestOtherFilesAreNoModules(t *testing.T) {
	if _, err := ReadInfo(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
	if _, err := ReadInfo(compileInfo(t, "int other;")); err == nil || !strings.Contains(err.Error(), "make module") {
		t.Errorf("another library: got %v", err)
	}
	if _, err := ReadInfo("info_test.go"); err == nil || !strings.Contains(err.Error(), "info_test.go") {
		t.Errorf("no library: got %v", err)
	}
}
