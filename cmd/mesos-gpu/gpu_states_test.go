package main

import (
	"testing"

	"mesos-gpu/framework/api"
)

// A GPU that no job can get is not shown as free.
func TestGPUStates(t *testing.T) {
	c := newFakeCluster()
	c.gpus = []api.GPUView{
		{Hostname: "h", Type: "V100", UUID: "GPU-1", State: api.FreeGPU},
		{Hostname: "h", Type: "V100", UUID: "GPU-2", State: api.HeldGPU, Task: "a.0"},
		{Hostname: "h", Type: "V100", UUID: "GPU-3", State: api.HeldGPU, Reason: api.ReasonForeignTask, Note: "held by another framework"},
		{Hostname: "h", Type: "V100", UUID: "GPU-4", State: api.WithheldGPU, Reason: api.ReasonNotOffered, Note: "sick, or cordoned there"},
		{Hostname: "h", Type: "V100", UUID: "GPU-7", State: api.WithheldGPU, Task: "c.0", Reason: api.ReasonUnhealthy, Note: "GPU is sick: XID 79"},
		{Hostname: "h", Type: "V100", UUID: "GPU-8", State: api.WithheldGPU, Reason: api.ReasonCordoned, Note: "GPU is cordoned: new fans"},
		{Hostname: "i", Type: "V100", UUID: "GPU-5", State: api.FreeGPU, Reason: api.ReasonCordoned, Note: "agent is cordoned: new fans"},
		{Hostname: "i", Type: "V100", UUID: "GPU-6", State: api.HeldGPU, Task: "b.0", Reason: api.ReasonDraining, Note: "agent is being drained"},
		{Hostname: "j", Type: "V100", Reason: api.ReasonDraining, Note: "agent is being drained"}, // agent that offers GPUs by count
		{Hostname: "k", Type: "V100"},
	}
	c.command(t, "gpus").expect(t, ""+
		"HOST  TYPE  MODEL  MEMORY  UUID   STATE     SHARED  TASK  NOTE\n"+
		"h     V100         0 MiB   GPU-1  free      -       -\n"+
		"h     V100         0 MiB   GPU-2  held      -       a.0\n"+
		"h     V100         0 MiB   GPU-3  held      -       -     held by another framework\n"+
		"h     V100         0 MiB   GPU-4  withheld  -       -     sick, or cordoned there\n"+
		"h     V100         0 MiB   GPU-7  sick      -       c.0   GPU is sick: XID 79\n"+
		"h     V100         0 MiB   GPU-8  cordoned  -       -     GPU is cordoned: new fans\n"+
		"i     V100         0 MiB   GPU-5  cordoned  -       -     agent is cordoned: new fans\n"+
		"i     V100         0 MiB   GPU-6  held      -       b.0   agent is being drained\n"+
		"j     V100         0 MiB   -      draining  -       -     agent is being drained\n"+
		"k     V100         0 MiB   -      -         -       -\n"+
		"3 of 10 GPUs held; 1 withheld; 1 sick; 2 cordoned; 1 draining\n", "", 0)
}
