package limiter

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// runGPUTestScript runs scripts/test-gpu.sh with another driver and returns its output.
func runGPUTestScript(t *testing.T, results string, more ...string) (string, error) {
	t.Helper()
	testneeds.RequireProgram(t, "go", "golang")
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "test-gpu.sh"))
	cmd.Env = append(os.Environ(), "GPU_TEST_SECONDS=1", "GPU_TEST_RESULTS="+results)
	cmd.Env = append(cmd.Env, more...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// controlScript is a fake MPS control program that does not limit its clients.
const controlScript = `#!/bin/sh
if [ "$1" = -f ]; then echo $$ >"$CUDA_MPS_PIPE_DIRECTORY/pid"; exec sleep 600; fi
read -r line
case $line in
get_default*) cat "$CUDA_MPS_PIPE_DIRECTORY/pid" ;;
get_server_list) echo 1 ;;
quit*) kill "$(cat "$CUDA_MPS_PIPE_DIRECTORY/pid")" ;;
esac
`

// The GPU tests run on the fake driver, whose results are not saved. On a machine without
// a GPU the script skips them.
func TestScriptForGPUs(t *testing.T) {
	libraries := requireBuilt(t)
	results := filepath.Join(t.TempDir(), "results.md")
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "nvidia-cuda-mps-control"), []byte(controlScript), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := runGPUTestScript(t, results, "LD_LIBRARY_PATH="+libraries,
		"STANDIN_DEVICE="+newMachineFile(t, 16<<30, inRealTime, 0), "PATH="+programs+":"+os.Getenv("PATH"))
	if err != nil || !strings.HasSuffix(out, "\n7 passed, 0 failed, 0 skipped\n") {
		t.Errorf("on the stand-in: %v\n%s", err, out)
	}
	for _, row := range []string{
		"| functions by cuGetProcAddress that the limiter does not know | 0.00", "| memory: 16 processes fill",
		"| vmm: counted of 256 MiB | 256.00 MiB", "| launch: more with the library", "| preload, side by side: 70 % ",
		"| MPS, side by side: 30 % ",
	} {
		if !strings.Contains(out, row) {
			t.Errorf("no row %q in\n%s", row, out)
		}
	}
	if _, err := os.Stat(results); err == nil {
		t.Error("figures of the stand-in were written down")
	}
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		return
	}
	// The first run has built the programs, in a folder that the script needs by its whole path.
	built, err := filepath.Abs("../../bin/gpu-test")
	if err != nil {
		t.Fatal(err)
	}
	out, err = runGPUTestScript(t, results, "GPU_TEST_PROGRAMS="+built)
	if err != nil || !strings.HasSuffix(out, "\n0 passed, 0 failed, 1 skipped\n") {
		t.Errorf("without a GPU: %v\n%s", err, out)
	}
}
