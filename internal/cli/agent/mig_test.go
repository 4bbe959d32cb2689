package agent

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/testing/layouttest"
	"mesos-gpu/isolator/layout"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/nvml"
)

// The output has the present and the requested layouts, their sources, and the profiles.
func TestPrintMIGLayouts(t *testing.T) {
	at := func(profile string, start, size int, ours bool) mig.InstanceStatus {
		return mig.InstanceStatus{GPUInstance: layout.GPUInstance{Profile: profile, Start: start, Size: size}, Ours: ours}
	}
	var out bytes.Buffer
	a := &agentCommands{&cli.App{ProcessIO: cli.ProcessIO{Stdout: &out}}}
	err := a.printMIGLayouts([]mig.PartitionedGPU{
		{
			UUID: "GPU-a", Model: "NVIDIA A30", Minor: 1, Layout: []string{"1g.6gb", "2g.12gb", "1g.6gb"}, Pending: true, Reason: "in use",
			Instances: []mig.InstanceStatus{at("1g.6gb", 0, 1, true), at("2g.12gb", 2, 2, false), at("1g.6gb", 1, 1, true)}, Profiles: layouttest.A30()[:1],
		},
		{UUID: "GPU-b", Model: "NVIDIA A30", Minor: 2, Profiles: layouttest.A30()[2:3]},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `MINOR  MODEL       CUT INTO  OTHERS'  WANTED                       UUID   REASON
1      NVIDIA A30  2x1g.6gb  2g.12gb  2g.12gb,2x1g.6gb, once idle  GPU-a  in use
2      NVIDIA A30  -         -        -                            GPU-b  -

GPU-a can be cut into
PROFILE  MEMORY    SLICES  MOST  PLACES
1g.6gb   5952 MiB  1       4     0 1 2 3:1

GPU-b can be cut into
PROFILE  MEMORY     SLICES  MOST  PLACES
2g.12gb  11904 MiB  2       2     0 2:2
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrintMIGProfiles(t *testing.T) {
	var out bytes.Buffer
	a := &agentCommands{&cli.App{ProcessIO: cli.ProcessIO{Stdout: &out}}}
	err := a.printProfiles([]nvml.MIGGPU{{
		Device: gpu.Device{UUID: "GPU-a", Model: "NVIDIA A30", Minor: 1}, Profiles: layouttest.A30()[3:],
		Instances: []layout.GPUInstance{{Profile: "2g.12gb", Start: 0, Size: 2}},
	}})
	want := `
GPU-a NVIDIA A30 /dev/nvidia1, cut into 2g.12gb, can be cut into
PROFILE  MEMORY     SLICES  MOST  PLACES
4g.24gb  23808 MiB  4       1     0:4
`
	if diff := cmp.Diff(want, out.String()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// GPUs that the agent's flags advertise and simulated GPUs cannot be partitioned.
func TestMIGFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--mig 0 --advertise flags": "--mig requires --advertise provider",
		"--mig 0":                   "simulated GPUs (--simulate) cannot be partitioned",
	} {
		if _, err := agentFlagsOf(t, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
	if _, err := agentFlagsOf(t, "--mig none"); err != nil {
		t.Error(err)
	}
}

// `agent mig` sends the requested layout and the right GPU to the daemon.
func TestMIGCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	asked := ""
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/mig", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"uuid":"GPU-a","model":"NVIDIA A30","minor":4,"instances":[],"profiles":[]}]`)
	})
	mux.HandleFunc("POST /v1/devices/{uuid}/mig", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked = r.PathValue("uuid") + " " + string(text)
		fmt.Fprint(w, `{"pending":true}`)
	})
	server := &http.Server{Handler: mux}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := (&agentCommands{&cli.App{ProcessIO: cli.ProcessIO{Stdout: &out, Stderr: &out}}}).migCommand()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(append(args, "--socket", path))
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := run("4", "1g.6gb,2g.12gb,1g.6gb")
	if want := "GPU-a is cut once idle into 2g.12gb,2x1g.6gb\n"; err != nil || out != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
	if want := `GPU-a {"layout":["1g.6gb","2g.12gb","1g.6gb"]}`; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
	if out, err := run(); err != nil || !strings.Contains(out, "4      NVIDIA A30  -") {
		t.Errorf("got %q, %v", out, err)
	}
	for _, args := range [][]string{{"4"}, {"5", "1g.6gb"}, {"4", "0x1g.6gb"}} {
		if _, err := run(args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
