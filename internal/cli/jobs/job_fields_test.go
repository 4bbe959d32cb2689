package jobs

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
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
	j := api.JobView{Job: job.Job{Spec: spec, Submitted: time.Now(), Tasks: make([]job.Task, spec.Tasks)}, State: job.Waiting}
	for i := range j.Tasks {
		j.Tasks[i].State = job.Waiting
	}
	var out bytes.Buffer
	if err := printJob(&term.TablePrinter{Writer: &out, Wide: wide}, &j); err != nil {
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
		t.Errorf("the environment's values are printed:\n%s", all)
	}
}

// Keys that are not set are shown only with -o wide, and then all of them.
func TestWideDescribeShowsDefaults(t *testing.T) {
	const plain = "name: a\ncommand: train\n"
	narrow, _ := describeFile(t, plain, false)
	wide, all := describeFile(t, plain, true)
	own := map[string]bool{}
	for _, name := range describedKeys() {
		own[name] = true
	}
	for _, key := range jobfile.Keys() {
		if own[key.Name] {
			continue
		}
		if text, ok := narrow[key.Name]; ok {
			t.Errorf("%s is printed: %q", key.Name, text)
		}
		if _, ok := wide[key.Name]; !ok {
			t.Errorf("%s is not printed:\n%s", key.Name, all)
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

// Each key that describe formats itself changes its output. A key that is listed without being shown would be in neither part.
func TestDescribeShowsDescribedKeys(t *testing.T) {
	changes := map[string]string{
		"name": "other", "tasks": "3", "matrix": "{LR: [1, 2]}", "max_parallel": "2", "gpus": "2", "share": "{memory: 1GiB}",
		"gpu_type": "[A100]", "cpus": "7", "mem": "7GiB", "command": "test", "image": "debian:12", "container": "docker",
		"service": "{}", "after": "[prepare]",
	}
	describe := func(keys map[string]string) string {
		t.Helper()
		file := ""
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			file += key + ": " + keys[key] + "\n"
		}
		_, all := describeFile(t, file, true)
		return all
	}
	for _, key := range describedKeys() {
		plain := map[string]string{"name": "a", "command": "train", "gpus": "1"}
		if key == "container" {
			plain["image"] = "debian:12"
			plain["container"] = "mesos"
		}
		without := describe(plain)
		if plain[key] = changes[key]; plain[key] == "" {
			t.Errorf("%s needs a value here that changes the job", key)
			continue
		}
		if describe(plain) == without {
			t.Errorf("describe formats %s itself, and shows nothing of %s: %s", key, key, changes[key])
		}
	}
}

// describe shows the requested share of each device and the share that a task has.
func TestDescribeShowsShares(t *testing.T) {
	j := api.JobView{State: job.Running}
	j.Spec = &job.Spec{
		Name:    "infer",
		Request: gpu.Request{GPUs: 2, Share: gpu.ShareRequest{MemMiB: 4096, Cores: 30}, Types: gpu.TypeSelector{Include: []string{"V100"}}},
	}
	j.Tasks = []job.Task{{ID: "infer.0", State: job.Running, DeviceIDs: []string{"GPU-a", "GPU-b"}, Shares: []gpu.DeviceShare{
		{UUID: "GPU-a", Type: "V100", MemMiB: 4096, Cores: 30, MilliDevices: 300}, {UUID: "GPU-b", Type: "V100", MemMiB: 4096, Cores: 30, MilliDevices: 300},
	}}}
	var out bytes.Buffer
	if err := printJob(&term.TablePrinter{Writer: &out}, &j); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 x (4096 MiB, 30 %) of V100, 0 CPUs", "GPU-a (4096 MiB, 30 %), GPU-b (4096 MiB, 30 %)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("describe lacks %q:\n%s", want, out.String())
		}
	}
}
