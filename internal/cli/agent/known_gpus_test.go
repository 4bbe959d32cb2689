package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/testing/nvmltest"
)

// programArgument starts the test binary as the program: a process finds the driver's library only through
// the path that it is started with.
const programArgument = "run-as-program"

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != programArgument {
		os.Exit(m.Run())
	}
	a := &agentCommands{&cli.App{ProcessIO: cli.ProcessIO{Stdout: os.Stdout, Stderr: os.Stderr}}}
	root := a.agentCommand()
	if os.Args[2] == "discover" {
		root = a.discoverCommand()
	}
	root.SetArgs(os.Args[3:])
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// programRunner returns a function that runs one of the program's commands with the stand-in NVML.
func programRunner(t *testing.T) func(command ...string) string {
	t.Helper()
	dir := t.TempDir()
	nvmltest.BuildLibrary(t, dir)
	return func(command ...string) string {
		t.Helper()
		c := exec.Command("/proc/self/exe", append([]string{programArgument}, command...)...)
		c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
		var stderr strings.Builder
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", command, err, out, stderr.String())
		}
		return string(out)
	}
}

// fourA100s is a host with NVLinks between the first two and the last two GPUs.
func fourA100s() gpu.Host {
	h := gpu.Host{Driver: "580.65.06", CUDA: "13.0"}
	for i, bus := range []string{"3b", "86", "87", "c1"} {
		h.Devices = append(h.Devices, gpu.Device{
			UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i+1), Model: "NVIDIA A100-SXM4-80GB", MemMiB: 81920, Minor: i, PCI: "0000:" + bus + ":00.0",
		})
	}
	for i, d := range h.Devices {
		h.Devices[i^1].NVLinks = map[string]int{d.UUID: 4}
	}
	return h
}

// A Mesos agent refuses to start with other flags. What comes and goes does not change them: lost GPUs, links,
// persistence mode. Other hardware and other options do.
func TestAgentFlagsStayWhileHardwareStays(t *testing.T) {
	run, state := programRunner(t), t.TempDir()
	flags := func(options ...string) string {
		t.Helper()
		return run(append([]string{"agent", "flags", "--state-dir", state, "--share-limit", "none"}, options...)...)
	}
	nvmltest.ReportHost(t, fourA100s())
	first, inFlags := flags(), flags("--advertise", "flags", "--stock", "3")
	if !strings.Contains(inFlags, "gpus:3;gpu_ids:{") || strings.Contains(inFlags, "GPU-00000000-0000-0000-0000-000000000004") {
		t.Fatalf("with --stock 3: %s", inFlags)
	}
	lost := nvmltest.FunctionFailure{Function: "nvmlDeviceGetHandleByIndex_v2", Index: 2, Return: 15}
	persistent, unlinked, gone := fourA100s(), fourA100s(), fourA100s()
	persistent.Devices[0].Persistence = true
	unlinked.Devices[0].NVLinks, unlinked.Devices[1].NVLinks = nil, nil
	gone.Devices = gone.Devices[:3]
	for what, change := range map[string]func(){
		"persistence mode":           func() { nvmltest.ReportHost(t, persistent) },
		"links are down":             func() { nvmltest.ReportHost(t, unlinked) },
		"a GPU cannot be opened":     func() { nvmltest.ReportHost(t, fourA100s(), lost) },
		"a GPU is off the bus":       func() { nvmltest.ReportHost(t, gone) },
		"all of it at the same time": func() { nvmltest.ReportHost(t, unlinked, lost) },
	} {
		change()
		if now := flags(); now != first {
			t.Errorf("%s: got %s\nwant %s", what, now, first)
		}
		if now := flags("--advertise", "flags", "--stock", "3"); now != inFlags {
			t.Errorf("%s, GPUs in flags: got %s\nwant %s", what, now, inFlags)
		}
	}
	five := fourA100s()
	five.Devices = append(five.Devices, gpu.Device{UUID: "GPU-00000000-0000-0000-0000-000000000005", Model: "NVIDIA A100-SXM4-80GB", Minor: 4, PCI: "0000:d8:00.0"})
	updated := fourA100s()
	updated.Driver = "580.82.07"
	for what, h := range map[string]gpu.Host{"another GPU": five, "another driver": updated} {
		nvmltest.ReportHost(t, h)
		if flags() == first {
			t.Errorf("%s: the flags are the same", what)
		}
	}
}

// discover names GPUs that do not respond: with their description if they were known, otherwise with the
// driver's error.
func TestDiscoverShowsLostGPUs(t *testing.T) {
	run, state := programRunner(t), t.TempDir()
	lost := nvmltest.FunctionFailure{Function: "nvmlDeviceGetHandleByIndex_v2", Index: 2, Return: 15}
	nvmltest.ReportHost(t, fourA100s(), lost)
	want := "lost: a GPU without a known UUID: open GPU 2: GPU is lost (NVML error 15)\n"
	if out := run("discover", "--state-dir", state); !strings.Contains(out, want) {
		t.Errorf("lacks %q:\n%s", want, out)
	}
	nvmltest.ReportHost(t, fourA100s())
	run("agent", "flags", "--state-dir", state)
	if out := run("discover", "--state-dir", state); strings.Contains(out, "lost:") {
		t.Errorf("all respond:\n%s", out)
	}
	nvmltest.ReportHost(t, fourA100s(), lost)
	want = "lost: GPU-00000000-0000-0000-0000-000000000003 NVIDIA A100-SXM4-80GB /dev/nvidia2 at 0000:87:00.0: open GPU 2: GPU is lost (NVML error 15)\n"
	if out := run("discover", "--state-dir", state); !strings.Contains(out, want) {
		t.Errorf("lacks %q:\n%s", want, out)
	}
	if err := os.Remove(filepath.Join(state, "inventory.json")); err != nil {
		t.Fatal(err)
	}
	if out := run("discover", "--state-dir", state, "-o", "json"); !strings.Contains(out, `"reason": "open GPU 2: GPU is lost (NVML error 15)"`) {
		t.Errorf("as JSON:\n%s", out)
	}
}
