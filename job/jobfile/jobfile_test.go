package jobfile

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func TestReadWholeFile(t *testing.T) {
	got, err := Read(strings.NewReader(`
name: train
tasks: 2
gpus: 4
gpu_type: {include: [V100, A100], exclude: K80}
cpus: 1.5
mem: 4GiB
disk: 10 GiB
command: [python, train.py, "--epochs=3"]
env: {SEED: 7, EMPTY: ""}
image: registry.example/train:1
container: docker
kill_grace: 30s
`), "train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &job.Spec{
		Name: "train", Tasks: 2,
		Request: gpu.Request{GPUs: 4, Types: gpu.TypeSelector{Include: []string{"V100", "A100"}, Exclude: []string{"K80"}}},
		CPUs:    1.5, MemMiB: 4096, DiskMiB: 10240,
		Command: []string{"python", "train.py", "--epochs=3"},
		Env:     map[string]string{"SEED": "7", "EMPTY": ""},
		Image:   "registry.example/train:1", Containerizer: job.Docker, KillGrace: 30 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestReadEveryGPURequirement(t *testing.T) {
	got, err := Read(strings.NewReader(`
name: train
tasks: 8
gpus: 4
gpu_uuid: {exclude: [GPU-bad]}
gpu_mem: 40GB
gpu_driver: "535.104"
gpu_cuda: "12.2"
gpu_topology: nvlink
constraints: [[hostname, unique], "rack GROUP_BY 2"]
ports: 2
role: research/vision
priority: -5
preemptible: true
gang: true
retries: 3
timeout: 12h
run_time: 90m
max_wait: 24h
command: train
`), "train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &job.Spec{
		Name: "train", Tasks: 8,
		Request: gpu.Request{
			GPUs: 4, Devices: gpu.DeviceSelector{Exclude: []string{"GPU-bad"}}, MinMemMiB: 38147,
			MinDriver: "535.104", MinCUDA: "12.2", Topology: gpu.NVLink,
		},
		CPUs: job.DefaultCPUs, MemMiB: job.DefaultMemMiB, Command: []string{"/bin/sh", "-c", "train"},
		Containerizer: job.Mesos, KillGrace: job.DefaultKillGrace,
		Constraints: []job.Constraint{{Field: "hostname", Operator: job.Unique}, {Field: "rack", Operator: job.GroupBy, Value: "2"}},
		Container:   job.Container{Ports: make([]job.Port, 2)}, Role: "research/vision", Priority: -5, Preemptible: true, Gang: true, Retries: 3,
		Timeout: 12 * time.Hour, RunTime: 90 * time.Minute, MaxWait: 24 * time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	got, err := Read(strings.NewReader(`{"name": "x", "gpus": 1, "gpu_type": "v100", "command": "nvidia-smi -L"}`), "x.json")
	if err != nil {
		t.Fatal(err)
	}
	want := &job.Spec{
		Name: "x", Tasks: 1, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"v100"}}},
		CPUs: job.DefaultCPUs, MemMiB: job.DefaultMemMiB, Command: []string{"/bin/sh", "-c", "nvidia-smi -L"},
		Containerizer: job.Mesos, KillGrace: job.DefaultKillGrace,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// The word same among the types is for one type in all tasks of a gang, in every spelling that is read and written.
func TestSameGPUType(t *testing.T) {
	for line, want := range map[string]gpu.TypeSelector{
		"same":                          {Same: true},
		"[same, H100, A100]":            {Same: true, Include: []string{"H100", "A100"}},
		"[A100, same]":                  {Same: true, Include: []string{"A100"}},
		"{include: same, exclude: K80}": {Same: true, Exclude: []string{"K80"}},
	} {
		got, err := Read(strings.NewReader("name: x\ntasks: 2\ngang: true\ngpus: 1\ncommand: ls\ngpu_type: "+line), "x.yaml")
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if diff := cmp.Diff(want, got.Request.Types); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
		var text strings.Builder
		if err := Write(&text, got); err != nil {
			t.Fatal(err)
		}
		again, err := Read(strings.NewReader(text.String()), "x.yaml")
		if err != nil {
			t.Fatalf("%v in\n%s", err, text.String())
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("%s is written as\n%s and read as (-want +got):\n%s", line, text.String(), diff)
		}
	}
}

func TestReadShares(t *testing.T) {
	for _, c := range []struct {
		lines string
		gpus  int
		want  gpu.ShareRequest
	}{
		{"share: {memory: 4GiB}", 1, gpu.ShareRequest{MemMiB: 4096}},
		{"share: {memory: 1.5, cores: 0}", 1, gpu.ShareRequest{MemMiB: 2}},
		{"share: {memory: 30%, cores: 30, gpus: 2}", 2, gpu.ShareRequest{MemPercent: 30, Cores: 30}},
		{"share: {memory: 100 %, gpus: 2}\ngpus: 2", 2, gpu.ShareRequest{MemPercent: 100}},
		{"gpus: 3\nshare: {cores: 100}\ngpu_topology: any", 3, gpu.ShareRequest{Cores: 100}},
	} {
		got, err := Read(strings.NewReader(head+"\n"+c.lines+"\n"), "f")
		if err != nil {
			t.Errorf("%s: %v", c.lines, err)
			continue
		}
		if got.Request.GPUs != c.gpus || got.Request.Share != c.want {
			t.Errorf("%s: got %d GPUs, %+v; want %d, %+v", c.lines, got.Request.GPUs, got.Request.Share, c.gpus, c.want)
		}
	}
}

// refusals are job files and the errors for them.
var refusals = []struct{ name, file, want string }{
	{"misspelt key", "name: a\ngpu_typ: V100\ngpus: 1\ncommand: ls", `f.yaml:2:1: unknown key "gpu_typ"; did you mean "gpu_type"?`},
	{"strange key", "name: a\nzzzzzzzz: 1\ncommand: ls", `f.yaml:2:1: unknown key "zzzzzzzz": see mesos-gpu explain`},
	{"half a GPU", "name: a\ngpus: 0.5\ncommand: ls", `f.yaml:2:7: gpus: 0.5 is not a whole number: use 1`},
	{"wordy GPU", "name: a\ngpus: one\ncommand: ls", `f.yaml:2:7: gpus: "one" is not a whole number`},
	{"negative", "name: a\ngpus: -1\ncommand: ls", `f.yaml:2:7: gpus: -1 is not between 0 and 1024`},
	{"twice", "name: a\nname: b\ncommand: ls", `f.yaml:2:1: name is already set in line 1`},
	{"no image", "name: a\ncontainer: docker\ncommand: ls", `f.yaml: image: a docker task needs one`},
	{"no command", "name: a\ngpus: 1", `f.yaml: command: a task without an image needs one`},
	{"no name", "command: ls", `f.yaml: name "": use 1 to 63`},
	{"type without GPU", "name: a\ngpu_type: V100\ncommand: ls", `f.yaml:2:11: gpu_type V100 needs gpus: 1 or more`},
	{"size", "name: a\nmem: lots\ncommand: ls", `f.yaml:2:6: mem: "lots" is not a size`},
	{"containerizer", "name: a\ncontainer: lxc\ncommand: ls", `f.yaml:2:12: container: "lxc" is neither docker nor mesos`},
	{"env", "name: a\ncommand: ls\nenv: {A=B: 1}", `f.yaml:3:12: env: "A=B" is not a variable's name`},
	{"grace", "name: a\ncommand: ls\nkill_grace: soon", `f.yaml:3:13: kill_grace: "soon" is not a duration`},
	{"invalid UTF-8", "name: a\ncommand: ls \xff\n", `f.yaml:2:13: the byte 0xff is not UTF-8`},
	{"a control character", "name: ä \x01\n", `f.yaml:1:9: the control character U+0001 is not allowed: write it as an escape in double quotes, "\x01"`},
	{"a number that is too large", "name: a\ngpus: 99999999999999999999\ncommand: ls", `f.yaml:2:7: gpus: 99999999999999999999 is too large`},
	{"empty", "", `f.yaml: empty: a job file holds`},
	{"two jobs", "name: a\ncommand: ls\n---\nname: b\n", `f.yaml:3:1: a second document starts here`},
	{"alias", "name: &n a\ncommand: *n", `f.yaml:2:10: command: job files take no YAML aliases`},
	{"no tasks", "name: a\ncommand: ls\ntasks: 0", `f.yaml:3:8: tasks: 0 is not above 0`},
	{"share of nothing", "name: a\nshare: {gpus: 1}\ncommand: ls", `f.yaml:2:8: share: needs memory, cores or both`},
	{"share in a word", "name: a\nshare: 4GiB\ncommand: ls", `f.yaml:2:8: share: needs keys: cores, gpus, memory`},
	{"share's memory", "name: a\nshare: {memory: much}\ncommand: ls",
		`f.yaml:2:17: share: memory: "much" is not a size such as 512MiB or 4GiB, nor a part such as 30%`},
	{"share's percent", "name: a\nshare: {memory: 0.5%}\ncommand: ls", `f.yaml:2:17: share: memory: "0.5%" is not a whole number of percent from 1% to 100%`},
	{"share's cores", "name: a\nshare: {cores: 101}\ncommand: ls", `f.yaml:2:16: share: cores of a share are 101 %: give 1 to 100`},
	{"share of no GPU", "name: a\nshare: {memory: 1GiB, gpus: 0}\ncommand: ls", `f.yaml:2:29: share: gpus: 0 is not above 0`},
	{"two numbers of GPUs", "name: a\nshare: {memory: 1GiB, gpus: 2}\ngpus: 3\ncommand: ls",
		`f.yaml:2:29: share: gpus: 2, and gpus: 3 in line 3: write one of them`},
	{"share with topology", "name: a\nshare: {memory: 1GiB, gpus: 2}\ngpu_topology: nvlink\ncommand: ls",
		`f.yaml:2:8: share: parts of devices have no gpu_topology: leave nvlink out, or ask for whole GPUs`},
	{"list", "- a", `f.yaml:1:1: a job file is a list of keys`},
	{"bad YAML", "name: [a", `f.yaml:1:7: the [ is not closed`},
}

func TestReadRejects(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.file), "f.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant …%s…", err, c.want)
			}
		})
	}
}

// TestMistakesAreBounded checks that a file with only mistakes is rejected quickly.
func TestMistakesAreBounded(t *testing.T) {
	_, err := Read(strings.NewReader(strings.Repeat("gpuz: 1\n", 100_000)), "f.yaml")
	if got := strings.Count(err.Error(), "f.yaml:"); got != maxMistakes+1 || !strings.Contains(err.Error(), "the rest was not read") {
		t.Errorf("got %d complaints, want %d and that more follows", got, maxMistakes)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]float64{"512": 512, "512MiB": 512, "4 GiB": 4096, "1TiB": 1 << 20, "512KiB": 0.5, "1.048576MB": 1} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %g, %v; want %g", in, got, err, want)
		}
	}
	for _, in := range []string{"", "MiB", "-1GiB", "NaN", "0", "1e400", "4XB", "8gb", "8G"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %g, want an error", in, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("name: a\ngpus: 1\ncommand: ls\n")
	f.Add(`{"name":"a","gpu_type":{"include":["V100"]},"gpus":1,"command":["x"]}`)
	f.Add("a: &a [*a]\n")
	for _, c := range containers {
		f.Add(c.file)
	}
	for _, c := range services {
		f.Add(head + c.lines)
	}
	for _, c := range orders {
		f.Add(head + c.lines)
	}
	for _, file := range every {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := Read(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		if err := spec.Validate(); err != nil {
			t.Errorf("accepted what Validate refuses: %v", err)
		}
		written(t, spec)
	})
}
