package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/cluster"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// runAgainst runs a command line against an API that accepts jobs.
func runAgainst(t *testing.T, line ...string) (printed string, submitted []job.Spec, err error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var spec job.Spec
		if err := json.NewDecoder(r.Body).Decode(&spec); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/jobs" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		submitted = append(submitted, spec)
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("{}"))
	}))
	t.Cleanup(s.Close)
	var out bytes.Buffer
	c := newRoot(cli.ProcessIO{Stdout: &out, Stderr: io.Discard, Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": s.URL}[name] }})
	c.SetArgs(append([]string{"run"}, line...))
	err = c.ExecuteContext(t.Context())
	return out.String(), submitted, err
}

// With --detach run submits the job, prints its name and returns.
func TestRunDetached(t *testing.T) {
	for _, line := range [][]string{
		{"--detach", "--name", "web", "--restart", "always", "--", "serve"},
		{"-d", "--", "train"},
	} {
		printed, submitted, err := runAgainst(t, line...)
		if err != nil || len(submitted) != 1 || printed != submitted[0].Name+"\n" {
			t.Errorf("%v: got %v, %q and %+v", line, err, printed, submitted)
			continue
		}
		if got, want := submitted[0].Service != nil, slices.Contains(line, "always"); got != want {
			t.Errorf("%v: a service: got %v, want %v", line, got, want)
		}
	}
}

// A grace period of 0 is rejected, because the job would get the default.
func TestRunRejectsZeroGrace(t *testing.T) {
	_, submitted, err := runAgainst(t, "-d", "--kill-grace", "0", "--", "train")
	if !cli.IsUsage(err) || !strings.Contains(err.Error(), "--kill-grace") || len(submitted) > 0 {
		t.Errorf("got %v and %+v", err, submitted)
	}
}

// A service does not end, so there is no exit status to wait for.
func TestRunServiceNeedsDetach(t *testing.T) {
	_, submitted, err := runAgainst(t, "--restart", "always", "--", "serve")
	if !cli.IsUsage(err) || !strings.Contains(err.Error(), "give --detach too") || len(submitted) > 0 {
		t.Errorf("got %v and %+v", err, submitted)
	}
}

// ps and describe show the requested share of each device and the share that a task holds.
func TestSharedGPUColumns(t *testing.T) {
	j := api.JobView{State: job.Running}
	j.Spec = job.Spec{Name: "infer", Request: gpu.Request{GPUs: 2, Share: gpu.ShareRequest{MemMiB: 4096, Cores: 30}, Types: gpu.TypeSelector{Include: []string{"V100"}}}}
	j.Tasks = []job.Task{{ID: "infer.0", State: job.Running, DeviceIDs: []string{"GPU-a", "GPU-b"}, Shares: []gpu.DeviceShare{
		{UUID: "GPU-a", Type: "V100", MemMiB: 4096, Cores: 30, MilliDevices: 300}, {UUID: "GPU-b", Type: "V100", MemMiB: 4096, Cores: 30, MilliDevices: 300},
	}}}
	var out bytes.Buffer
	if err := jobs.PrintJob(&term.TablePrinter{Writer: &out}, &j); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 × (4096 MiB, 30 %) of V100, 0 CPUs", "GPU-a (4096 MiB, 30 %), GPU-b (4096 MiB, 30 %)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("describe lacks %q:\n%s", want, out.String())
		}
	}
	mixed := &api.SharedGPUs{GPUs: 2, MemMiB: 30720, MemFreeMiB: 21504}
	for _, c := range []struct {
		agent api.AgentSummary
		want  string
	}{
		{api.AgentSummary{GPUs: 4, GPUsFree: 1}, "4 1 -"},
		{api.AgentSummary{GPUs: 4, GPUsFree: 1, Shared: mixed}, "4 1 2, 9216/30720 MiB"},
		{api.AgentSummary{Shared: mixed}, "- - 2, 9216/30720 MiB"},
		{api.AgentSummary{}, "0 0 -"},
	} {
		if got := cluster.FormatWholeGPUs(&c.agent, c.agent.GPUs) + " " + cluster.FormatWholeGPUs(&c.agent, c.agent.GPUsFree) + " " + cluster.FormatSharedGPUs(c.agent.Shared); got != c.want {
			t.Errorf("agents shows %q, want %q", got, c.want)
		}
	}
	gpus := []api.GPUView{{Task: "a"}, {}, {Task: "b, c", Shared: &api.SharedCapacity{MemMiB: 15360, MemFreeMiB: 6144, Cores: 100, CoresFree: 40}}, {Shared: &api.SharedCapacity{MemMiB: 15360, MemFreeMiB: 15360, Cores: 100, CoresFree: 100}}}
	if got, want := cluster.FormatSharedCapacity(gpus[2].Shared)+" "+cluster.FormatSharedCapacity(nil), "9216/15360 MiB, 60/100 % -"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for with, want := range map[gpu.EnforcementMethod]string{"mps": "1/2 MiB, 30/100 % (mps)", "none": "1/2 MiB, 30/100 % (no limit)"} {
		if got := cluster.FormatSharedCapacity(&api.SharedCapacity{MemMiB: 2, MemFreeMiB: 1, Cores: 100, CoresFree: 70, LimitedBy: with}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for want, list := range map[string][]api.GPUView{
		"1 of 2 GPUs held": gpus[:2], "1 of 2 GPUs held; 9216/30720 MiB (30 %) of 2 shared GPUs held": gpus, "9216/15360 MiB (60 %) of 1 shared GPU held": gpus[2:3], "0 of 0 GPUs held": nil,
	} {
		if got := cluster.SummarizeGPUs(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestShareFlags(t *testing.T) {
	_, submitted, err := runAgainst(t, "--detach", "--gpu-memory", "30%", "--gpu-cores", "25", "--", "serve")
	if err != nil || len(submitted) != 1 || submitted[0].Request.GPUs != 1 || submitted[0].Request.Share != (gpu.ShareRequest{MemPercent: 30, Cores: 25}) {
		t.Errorf("got %+v, %v", submitted, err)
	}
	_, submitted, err = runAgainst(t, "--detach", "--gpus", "2", "--gpu-memory", "1.5GiB", "--", "serve")
	if err != nil || len(submitted) != 1 || submitted[0].Request.GPUs != 2 || submitted[0].Request.Share != (gpu.ShareRequest{MemMiB: 1536}) {
		t.Errorf("got %+v, %v", submitted, err)
	}
	for want, args := range map[string][]string{
		"--gpu-memory: \"0%\" is no whole number of percent": {"--gpu-memory", "0%", "--", "serve"},
		"cores of a share are 120 %":                         {"--gpu-cores", "120", "--", "serve"},
		"parts of devices have no gpu_topology":              {"--gpu-cores", "20", "--gpus", "2", "--gpu-topology", "nvlink", "--", "serve"},
	} {
		if _, submitted, err := runAgainst(t, args...); !cli.IsUsage(err) || !strings.Contains(err.Error(), want) || len(submitted) > 0 {
			t.Errorf("%v: got %v and %+v, want %q", args, err, submitted, want)
		}
	}
}
