package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/cli/cluster"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

const asksMuch = `
name: train
gpus: 2
gpu_type: {include: [A100], exclude: [K80]}
gpu_uuid: {exclude: [GPU-bad]}
gpu_mem: 40GiB
gpu_driver: "535.104"
gpu_cuda: "12.2"
gpu_topology: nvlink
constraints: [[rack, LIKE, "r[12]"]]
disk: 10GiB
image: pytorch
command: train
env: {SEED: "7", API_KEY: "hunter2"}
secrets: {TOKEN: hf/token}
fetch: [https://example.org/model.tar.gz]
volumes: ["/data:/data:ro"]
network: bridge
ports: [8080]
labels: {team: vision}
health_check: {http: /health}
role: research
priority: 7
preemptible: true
retries: 3
timeout: 2h
run_time: 1h
max_wait: 30m
kill_grace: 90s
`

// describeFile returns the output of describe for a job file's job, by the first word of each
// line before the table of tasks.
func describeFile(t *testing.T, file string, wide bool) (lines map[string]string, all string) {
	t.Helper()
	spec, err := jobfile.Read(strings.NewReader(file), "f")
	if err != nil {
		t.Fatal(err)
	}
	j := api.JobView{Job: job.Job{Spec: *spec, Submitted: time.Now()}, State: job.Waiting}
	var out bytes.Buffer
	if err := jobs.PrintJob(&term.TablePrinter{Writer: &out, Wide: wide}, &j); err != nil {
		t.Fatal(err)
	}
	lines = map[string]string{}
	head, _, _ := strings.Cut(out.String(), "\n\n")
	for line := range strings.Lines(head) {
		name, text, _ := strings.Cut(line, " ")
		lines[name] = strings.TrimSpace(text)
	}
	return lines, out.String()
}

// describe shows the keys that are set, by their names in the job file; of the environment
// only the names.
func TestDescribeShowsJobKeys(t *testing.T) {
	got, all := describeFile(t, asksMuch, false)
	for key, want := range map[string]string{
		"gpu_uuid": "{exclude: [GPU-bad]}", "gpu_mem": "40960MiB", "gpu_driver": "535.104", "gpu_cuda": "12.2", "gpu_topology": "nvlink",
		"constraints": `[[rack, LIKE, 'r[12]']]`, "disk": "10240MiB", "env": "API_KEY, SEED", "secrets": "{TOKEN: hf/token}",
		"fetch": "[{uri: 'https://example.org/model.tar.gz'}]", "volumes": "[{source: /data, target: /data, read_only: true}]", "network": "bridge",
		"ports": "[{container: 8080}]", "labels": "{team: vision}", "role": "research", "priority": "7", "preemptible": "true",
		"retries": "3", "timeout": "2h0m0s", "run_time": "1h0m0s", "max_wait": "30m0s", "kill_grace": "1m30s",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if !strings.Contains(got["health_check"], "path: /health}, interval: 10s") {
		t.Errorf("health_check is %q", got["health_check"])
	}
	if strings.Contains(all, "hunter2") {
		t.Errorf("the environment's values are told:\n%s", all)
	}
}

// Keys that are not set are shown only with -o wide, and then all of them.
func TestWideDescribeShowsDefaults(t *testing.T) {
	const plain = "name: a\ncommand: train\n"
	narrow, _ := describeFile(t, plain, false)
	wide, all := describeFile(t, plain, true)
	own := map[string]bool{}
	for _, name := range jobs.DescribedKeys() {
		own[name] = true
	}
	for _, key := range jobfile.Keys() {
		if own[key.Name] {
			continue
		}
		if text, ok := narrow[key.Name]; ok {
			t.Errorf("%s is told: %q", key.Name, text)
		}
		if _, ok := wide[key.Name]; !ok {
			t.Errorf("%s is not told:\n%s", key.Name, all)
		}
	}
	if got, want := wide["gpu_topology"], "- (any)"; got != want {
		t.Errorf("gpu_topology is %q, want %q", got, want)
	}
	if got, want := wide["labels"], "-"; got != want {
		t.Errorf("labels are %q, want %q", got, want)
	}
	if got, want := wide["kill_grace"], "5s"; got != want {
		t.Errorf("kill_grace is %q, want %q", got, want)
	}
}

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
	shared := []api.GPUView{{State: api.WithheldGPU, Shared: &api.SharedCapacity{MemMiB: 10, MemFreeMiB: 10}}, {State: api.HeldGPU, Shared: &api.SharedCapacity{MemMiB: 10}}}
	if got, want := cluster.SummarizeGPUs(shared), "10/20 MiB (50 %) of 2 shared GPUs held; 1 withheld"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
