package limiter

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// Runs threads and forks of one process concurrently: no data race, no memory error, no
// deadlock, and no leaked charge.
func TestThreadsUnderSanitizers(t *testing.T) {
	sources, err := filepath.Glob("src/*.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, sanitize, fork string }{
		{"threads", "thread", ""}, // it does not support forks of multithreaded programs
		{"addresses", "address,undefined", "fork"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 90))
			program := filepath.Join(t.TempDir(), "threads")
			// The sanitizers look up their functions with dlsym, so the C library's is
			// kept.
			args := []string{"-std=gnu11", "-g", "-O1", "-w", "-fsanitize=" + tt.sanitize, "-fno-sanitize-recover=all", "-Ddlsym=unused_dlsym", "-Ddlvsym=unused_dlvsym",
				fmt.Sprintf("-DTEST_DIR=%q", c.dir), fmt.Sprintf("-DTEST_SHARED=%q", c.device), "-DTEST_MOUNTED=false", "-DTEST_CLOCK_REAL=1", "-o", program, "testdata/threads.c", "testdata/platform.c"}
			for _, s := range sources {
				if s != "src/platform.c" {
					args = append(args, s)
				}
			}
			if out, err := exec.Command("gcc", append(args, "-pthread", "-ldl")...).CombinedOutput(); err != nil {
				t.Fatalf("gcc: %v\n%s", err, out)
			}
			cmd := exec.Command("setarch", "-R", program)
			if tt.fork != "" {
				cmd.Args = append(cmd.Args, tt.fork)
			}
			cmd.Env = []string{"LD_LIBRARY_PATH=" + c.built, "STANDIN_DEVICE=" + c.device, "ASAN_OPTIONS=detect_leaks=0"}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%.6000s", err, out)
			}
		})
	}
}
