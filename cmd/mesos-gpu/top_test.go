package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/testing/termtest"
)

// usageCluster is a cluster with GPU usage.
type usageCluster struct {
	*fakeCluster
	tasks []api.TaskUsage
}

func (u *usageCluster) ListUsage(_ context.Context, _ *access.Grant, q request.UsageQuery) (list api.UsageList, err error) {
	if q.Job == "gone" {
		return list, api.UnknownJob(q.Job)
	}
	for _, t := range u.tasks {
		if q.Job == "" || q.Job == t.Job {
			list.Tasks = append(list.Tasks, t)
		}
	}
	return list, nil
}

func floatPtr(v float64) *float64 { return &v }

// newUsageCluster returns a cluster with a task with two GPUs, two tasks that share a GPU, of
// which one has no memory value, one whose agent reports nothing, and one with stale values.
func newUsageCluster() *usageCluster {
	part := func(task string, used *float64) api.TaskUsage {
		return api.TaskUsage{Task: task, Job: task[:5], Hostname: "b", AgeSeconds: floatPtr(4), Devices: []gpu.DeviceUsage{
			{UUID: "GPU-3", Shared: true, Duty: floatPtr(0.9), MemUsedMiB: used, MemMiB: floatPtr(4096), Watts: floatPtr(70),
				Celsius: floatPtr(50), ThrottledSeconds: floatPtr(12.4), Health: gpu.Healthy},
		}}
	}
	return &usageCluster{newFakeCluster(), []api.TaskUsage{
		{Task: "train.0", Job: "train", Hostname: "a", AgeSeconds: floatPtr(2.1), Simulated: true, Devices: []gpu.DeviceUsage{
			{UUID: "GPU-1", Duty: floatPtr(0.5), MemUsedMiB: floatPtr(1536), MemMiB: floatPtr(16384), Watts: floatPtr(100), Celsius: floatPtr(60)},
			{UUID: "GPU-2", Duty: floatPtr(1), MemUsedMiB: floatPtr(512), MemMiB: floatPtr(16384), Watts: floatPtr(200), Celsius: floatPtr(70)},
		}},
		part("infer.0", floatPtr(1024)), part("infer.1", nil),
		{Task: "stock.0", Job: "stock", Hostname: "c", Devices: []gpu.DeviceUsage{}, Note: "its agent reports none\x1b[2J"},
		{Task: "stale.0", Job: "stale", Hostname: "b", AgeSeconds: floatPtr(90),
			Devices: []gpu.DeviceUsage{{UUID: "GPU-4", Duty: floatPtr(1), Watts: floatPtr(999)}}, Note: "stale"},
	}}
}

func (u *usageCluster) command(t *testing.T, line string) commandRun {
	t.Helper()
	return commandAt(t, serveBackend(t, u), strings.Fields(line)...)
}

func TestTop(t *testing.T) {
	newUsageCluster().command(t, "top").expect(t, ""+
		"TASK     HOST  GPU             DUTY   MEMORY           POWER  TEMP   AGE   NOTE\n"+
		"train.0  a     GPU-1           50 %   1.5 of 16.0 GiB  100 W  60 °C  2 s   simulated\n"+
		"train.0  a     GPU-2           100 %  0.5 of 16.0 GiB  200 W  70 °C  2 s   simulated\n"+
		"infer.0  b     GPU-3 (shared)  90 %   1.0 of 4.0 GiB   70 W   50 °C  4 s\n"+
		"infer.1  b     GPU-3 (shared)  90 %   - of 4.0 GiB     70 W   50 °C  4 s\n"+
		"stale.0  b     GPU-4           100 %  -                999 W  -      90 s  stale\n"+
		"stock.0  c     -               -      -                -      -      -     its agent reports none\\x1b[2J\n", "", 0)
	newUsageCluster().command(t, "top infer --sort task -o wide --no-headers").expect(t, ""+
		"infer.0  b  GPU-3 (shared)  90 %  1.0 of 4.0 GiB  70 W  50 °C  4 s  healthy  12 s\n"+
		"infer.1  b  GPU-3 (shared)  90 %  - of 4.0 GiB    70 W  50 °C  4 s  healthy  12 s\n", "", 0)
}

// A shared GPU of an agent counts once, with the memory of each task; stale values are
// ignored.
func TestTopByAgent(t *testing.T) {
	newUsageCluster().command(t, "top --by agent").expect(t, ""+
		"HOST  TASKS  GPUS  DUTY  MEMORY           POWER  TEMP   AGE  NOTE\n"+
		"a     1      2     75 %  2.0 of 32.0 GiB  300 W  70 °C  2 s  simulated\n"+
		"b     3      2     90 %  1.0 of 8.0 GiB   70 W   50 °C  4 s  1 of 3 tasks: stale\n"+
		"c     1      0     -     -                -      -      -    1 of 1 task: its agent reports none\\x1b[2J\n", "", 0)
	var agents []struct {
		GPUs  int
		Watts *float64
	}
	r := newUsageCluster().command(t, "top --by agent -o json")
	if err := json.Unmarshal([]byte(r.out), &agents); err != nil || len(agents) != 3 || agents[0].GPUs != 2 || *agents[0].Watts != 300 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestTopSorts(t *testing.T) {
	for order, want := range map[string]string{
		"task":    "infer.0 infer.1 stale.0 stock.0 train.0 train.0",
		"-task":   "train.0 train.0 stock.0 stale.0 infer.1 infer.0",
		"duty":    "train.0 stale.0 infer.0 infer.1 train.0 stock.0",
		"memory":  "train.0 infer.0 train.0 infer.1 stock.0 stale.0",
		"power":   "stale.0 train.0 train.0 infer.0 infer.1 stock.0",
		"temp":    "train.0 train.0 infer.0 infer.1 stock.0 stale.0",
		"-age":    "stock.0 train.0 train.0 infer.0 infer.1 stale.0",
		"-memory": "infer.1 stock.0 stale.0 train.0 infer.0 train.0",
	} {
		r := newUsageCluster().command(t, "top --no-headers --sort "+order)
		var got []string
		for line := range strings.Lines(r.out) {
			got = append(got, strings.Fields(line)[0])
		}
		if strings.Join(got, " ") != want || r.status != 0 {
			t.Errorf("%s: got %v, status %d %s, want %s", order, got, r.status, r.err, want)
		}
	}
}

func TestTopAsJSON(t *testing.T) {
	var tasks []api.TaskUsage
	r := newUsageCluster().command(t, "top train -o json")
	if err := json.Unmarshal([]byte(r.out), &tasks); err != nil || len(tasks) != 1 || len(tasks[0].Devices) != 2 || *tasks[0].Devices[1].Duty != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
	(&usageCluster{fakeCluster: newFakeCluster()}).command(t, "top -o json").expect(t, "[]\n", "", 0)
	(&usageCluster{fakeCluster: newFakeCluster()}).command(t, "top --by agent -o json").expect(t, "[]\n", "", 0)
}

func TestInvalidTopFlags(t *testing.T) {
	for line, want := range map[string]string{
		"top --by job":               "--by job: use task or agent",
		"top --sort size":            "--sort size: use age, duty, host, memory, power, task or temp",
		"top --by agent --sort task": "the lines are agents",
		"top a b":                    `takes no "b"`,
	} {
		newUsageCluster().command(t, line).expect(t, "", want, 2)
	}
	newUsageCluster().command(t, "top gone").expect(t, "", `there is no job "gone"`, 1)
}

// On a terminal top runs until interrupted, unless a flag or machine-readable output prevents
// it.
func TestTopWatchesOnTerminal(t *testing.T) {
	address := serveBackend(t, newUsageCluster())
	for line, stays := range map[string]bool{"top": true, "top --watch=false": false, "top -o json": false} {
		seen, tty := termtest.OpenTerminal(t, 200)
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			ended <- runCommandLine(ctx, strings.Fields(line), cli.ProcessIO{
				Stdin:  strings.NewReader(""),
				Stdout: tty,
				Stderr: io.Discard,
				Getenv: func(name string) string {
					return map[string]string{"MESOS_GPU_API": address}[name]
				},
			})
			tty.Close()
		}()
		text, err := bufio.NewReader(seen).ReadString('\n')
		if redrawn := strings.HasPrefix(text, "\x1b[2J"); err != nil || redrawn != stays {
			t.Errorf("%s: shown is %q, %v; want that it stays: %t", line, text, err, stays)
		}
		if stays {
			interrupt()
		}
		if status := <-ended; status != 0 {
			t.Errorf("%s: the status is %d", line, status)
		}
		interrupt()
	}
}
