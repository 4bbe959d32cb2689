package e2e

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
)

// TestTopShowsSimulatedUsage checks the usage of simulated GPUs, whole and shared, from the
// daemon through the executor, the sandbox, the agent and the scheduler to the command top. It
// must be marked as simulated.
func TestTopShowsSimulatedUsage(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "2xV100", "--share", "1")
	c.mustRun("submit", writeJobFile(t, "whole", "name: whole\ngpus: 1\ncpus: 0.1\nmem: 256MiB\ncommand: sleep 600\n"))
	c.mustRun("submit", writeJobFile(t, "part", "name: part\ncpus: 0.1\nmem: 256MiB\nshare: {memory: 3GiB, cores: 30}\ncommand: sleep 600\n"))
	got := map[string]api.TaskUsage{}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(waitTimeout); ; {
		var tasks []api.TaskUsage
		decodeJSON(t, c.mustRun("top", "-o", "json"), &tasks)
		known := 0
		for _, task := range tasks {
			got[task.Job] = task
			if task.Note == "" {
				known++
			}
		}
		if known == 2 {
			break
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("no usage of both tasks after %s:\n%s", waitTimeout, c.mustRun("top"))
		}
	}
	for name, shared := range map[string]bool{"whole": false, "part": true} {
		u := got[name]
		if !u.Simulated || u.AgeSeconds == nil || *u.AgeSeconds > 30 || len(u.Devices) != 1 {
			t.Errorf("%s: %+v", name, u)
			continue
		}
		d := u.Devices[0]
		if !strings.HasPrefix(d.UUID, "GPU-") || d.Shared != shared || d.Duty == nil || *d.Duty > 0.1 || d.Watts == nil || *d.Watts < 25 || *d.Watts > 45 {
			t.Errorf("%s: device %+v, shared: want %t", name, d, shared)
		}
	}
	for _, args := range [][]string{{"top", "whole"}, {"top", "--by", "agent"}} {
		if text := c.mustRun(args...); !strings.Contains(text, "simulated") || !strings.Contains(text, " W ") {
			t.Errorf("%v shows:\n%s", args, text)
		}
	}
}
