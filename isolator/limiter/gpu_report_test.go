//go:build gpu

package limiter

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reportTable has one line per measurement.
type reportTable struct{ lines []string }

// add records a value. If it misses its target, the test fails, but the value is still
// recorded.
func (r *reportTable) add(t *testing.T, what string, got float64, unit, target string, met bool) {
	t.Helper()
	verdict := "met"
	switch {
	case target == "":
		verdict = ""
	case !met:
		verdict = "missed"
		t.Errorf("%s %.2f %s, want %s", what, got, unit, target)
	}
	r.lines = append(r.lines, fmt.Sprintf("| %s | %.2f %s | %s | %s |", what, got, unit, target, verdict))
}

// skip records that a value cannot be measured here, and skips the test.
func (r *reportTable) skip(t *testing.T, what, why string) {
	t.Helper()
	r.lines = append(r.lines, fmt.Sprintf("| %s | not measured: %s | | |", what, why))
	t.Skip(why)
}

func (r *reportTable) table() string {
	return "\n| what | measured | target | |\n|---|---|---|---|\n" + strings.Join(r.lines, "\n") + "\n"
}

// reportPage returns the document with the results.
func (d *testDevice) reportPage() string {
	return fmt.Sprintf(`# Sharing: what was measured

Written by `+"`make test-gpu`"+` on %s: %s, driver %s, CUDA %s, %d MiB. Each share of the cores was measured for %d s, after %d s to settle, by the kernels that end, against a process alone on the device.
%s`, time.Now().UTC().Format(time.DateOnly), d.card, driverVersion(), d.cuda, d.total/mib, d.seconds, d.settling, d.report.table())
}

func driverVersion() string {
	text, err := os.ReadFile("/sys/module/nvidia/version")
	if err != nil {
		text, err = exec.Command("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0").Output()
	}
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// mpsEnvironment starts an MPS control daemon for the test and returns the environment of
// its clients.
func (d *testDevice) mpsEnvironment(t *testing.T) []string {
	t.Helper()
	const program = "nvidia-cuda-mps-control"
	if _, err := exec.LookPath(program); err != nil {
		d.report.skip(t, "MPS", "there is no "+program)
	}
	dir, err := os.MkdirTemp("", "mps") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	environment := []string{"CUDA_MPS_PIPE_DIRECTORY=" + filepath.Join(dir, "pipe"), "CUDA_MPS_LOG_DIRECTORY=" + filepath.Join(dir, "log")}
	for _, name := range []string{"pipe", "log"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	say := func(line string) (string, error) {
		cmd := exec.Command(program)
		cmd.Env, cmd.Stdin = append(os.Environ(), environment...), strings.NewReader(line+"\n")
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	daemon := exec.Command(program, "-f")
	daemon.Env = append(os.Environ(), environment...)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if servers, err := say("get_server_list"); err == nil && servers == "" {
			t.Error("no MPS server ran: its clients went past it")
		}
		_, _ = say("quit -t 5")
		timer := time.AfterFunc(10*time.Second, func() { _ = daemon.Process.Kill() })
		_ = daemon.Wait()
		timer.Stop()
		os.RemoveAll(dir)
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if answer, err := say("get_default_active_thread_percentage"); err == nil && answer != "" {
			return environment
		} else if time.Now().After(deadline) {
			d.report.skip(t, "MPS", fmt.Sprintf("%s does not answer: %q, %v", program, answer, err))
		}
	}
}
