package limiter

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Runs threads and forks of one process concurrently: no data race, no memory error, no
// deadlock, and no leaked charge.
func TestThreadsUnderSanitizers(t *testing.T) {
	const (
		threads   = "threads-thread"
		addresses = "threads-address,undefined"
	)
	built := requireBuilt(t)
	if _, err := buildTargets(filepath.Join(built, threads), filepath.Join(built, addresses)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, program, fork string }{
		{"threads", threads, ""}, // it does not support forks of multithreaded programs
		{"addresses", addresses, "fork"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 90))
			cmd := exec.Command("setarch", "-R", c.copyWithPaths(tt.program))
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
