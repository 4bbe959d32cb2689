//go:build mesos

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/apachemesos"
)

// TestMesosGPUUsage checks that the usage of a task's GPU gets from the agent's daemon through
// the executor, the sandbox and the agent's operator API to the scheduler, and from there to
// top and, with its history, to the page.
func TestMesosGPUUsage(t *testing.T) {
	m := startSimulatedDaemon(t)
	c := m.startScheduler(t)
	c.mustRun("submit", writeJobFile(t, "train", "name: train\ngpus: 1\ncpus: 0.1\nmem: 256MiB\ncommand: echo up; exec sleep 1000\n"))
	ended := awaitRunningTask(t, c, "train")
	id := taskID(t, c, "train")

	use := c.awaitUsage(t, "?job=train&minutes=15", func(u *api.TaskUsage) bool { return u.History != nil && len(u.History.AgesSeconds) >= 2 })
	if use.Task != id || use.Note != "" || !use.Simulated || use.AgeSeconds == nil || *use.AgeSeconds > 30 || len(use.Devices) != 1 {
		t.Fatalf("got %+v", use)
	}
	device := use.Devices[0]
	if !strings.HasPrefix(device.UUID, "GPU-") || device.Duty == nil || device.Watts == nil || device.MemMiB == nil || device.Health != gpu.Healthy {
		t.Errorf("device %+v", device)
	}
	past := use.History
	if len(past.Devices) != 1 || past.Devices[0].UUID != device.UUID || past.Devices[0].Duty[0] == nil || past.AgesSeconds[0]-past.AgesSeconds[1] < 10 {
		t.Errorf("the history is %+v", past)
	}
	line := c.mustRun("top", "train")
	for _, part := range []string{id, device.UUID, "simulated", "0 %", "25 W"} {
		if !strings.Contains(line, part) {
			t.Errorf("top lacks %q:\n%s", part, line)
		}
	}
	c.mustRun("kill", "train")
	<-ended
	if text := strings.TrimSpace(c.mustRun("top", "-o", "json")); text != "[]" {
		t.Errorf("with no task top shows %s", text)
	}
}

// startSimulatedDaemon starts Apache Mesos with an agent whose daemon simulates and measures two GPUs.
func startSimulatedDaemon(t *testing.T) *mesos {
	t.Helper()
	attributes := ""
	for line := range strings.Lines(runCommand(t, nil, "agent", "flags", "--simulate", "2xV100").out) {
		if strings.HasPrefix(line, "--attributes=") {
			attributes = strings.TrimSpace(line)
		}
	}
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime", "--resources=gpus:0", attributes)
	apachemesos.Spawn(t, nil, binary, "agent", "--simulate", "2xV100", "--agent", "http://"+m.agent,
		"--state-dir", m.daemonDir, "--runtime-dir", m.daemonDir, "--socket", m.socketPath(), "--listen", "")
	return m
}

// awaitUsage polls the usage of a job's only task until it satisfies enough.
func (c *cluster) awaitUsage(t *testing.T, query string, enough func(*api.TaskUsage) bool) api.TaskUsage {
	t.Helper()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(waitTimeout); ; {
		list := c.getUsage(t, query)
		if len(list.Tasks) == 1 && enough(&list.Tasks[0]) {
			return list.Tasks[0]
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("after %s the usage is %+v", waitTimeout, list)
		}
	}
}

func (c *cluster) getUsage(t *testing.T, query string) (list api.UsageList) {
	t.Helper()
	answer, err := http.Get(c.api + "/v1/usage" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", answer.StatusCode, err)
	}
	return list
}
