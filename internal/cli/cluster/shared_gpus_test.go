package cluster

import (
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
)

// agents and gpus show how much of the shared GPUs is in use.
func TestSharedGPUColumns(t *testing.T) {
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
		if got := formatWholeGPUs(&c.agent, c.agent.GPUs) + " " + formatWholeGPUs(&c.agent, c.agent.GPUsFree) + " " +
			formatSharedGPUs(c.agent.Shared); got != c.want {
			t.Errorf("agents shows %q, want %q", got, c.want)
		}
	}
	gpus := []api.GPUView{
		{Task: "a"},
		{},
		{Task: "b, c", Shared: &api.SharedCapacity{MemMiB: 15360, MemFreeMiB: 6144, Cores: 100, CoresFree: 40}},
		{Shared: &api.SharedCapacity{MemMiB: 15360, MemFreeMiB: 15360, Cores: 100, CoresFree: 100}},
	}
	if got, want := formatSharedCapacity(gpus[2].Shared)+" "+formatSharedCapacity(nil), "9216/15360 MiB, 60/100 % -"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for with, want := range map[gpu.EnforcementMethod]string{"mps": "1/2 MiB, 30/100 % (mps)", "none": "1/2 MiB, 30/100 % (no limit)"} {
		if got := formatSharedCapacity(&api.SharedCapacity{MemMiB: 2, MemFreeMiB: 1, Cores: 100, CoresFree: 70, LimitedBy: with}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for want, list := range map[string][]api.GPUView{
		"1 of 2 GPUs held": gpus[:2],
		"1 of 2 GPUs held; 9216/30720 MiB (30 %) of 2 shared GPUs held": gpus,
		"9216/15360 MiB (60 %) of 1 shared GPU held":                    gpus[2:3],
		"0 of 0 GPUs held": nil,
	} {
		if got := summarizeGPUs(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	shared := []api.GPUView{
		{State: api.WithheldGPU, Shared: &api.SharedCapacity{MemMiB: 10, MemFreeMiB: 10}},
		{State: api.HeldGPU, Shared: &api.SharedCapacity{MemMiB: 10}},
	}
	if got, want := summarizeGPUs(shared), "10/20 MiB (50 %) of 2 shared GPUs held; 1 withheld"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
