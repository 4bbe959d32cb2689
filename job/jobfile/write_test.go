package jobfile

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mesos-gpu/job"
)

// written writes the job, reads it again and compares.
func written(t *testing.T, spec *job.Spec) string {
	t.Helper()
	var text strings.Builder
	if err := Write(&text, spec); err != nil {
		t.Fatal(err)
	}
	again, err := Read(strings.NewReader(text.String()), "written")
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	if diff := cmp.Diff(spec, again, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("read again (-want +got):\n%s\n%s", diff, text.String())
	}
	inJSON, err := EncodeJSON(spec)
	if err != nil || !json.Valid(inJSON) {
		t.Fatalf("%v: not JSON: %s", err, inJSON)
	}
	again, err = Read(bytes.NewReader(inJSON), "written")
	if diff := cmp.Diff(spec, again, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Fatalf("read again from JSON, %v (-want +got):\n%s\n%s", err, diff, inJSON)
	}
	return text.String()
}

// every is a list of job files that together contain every key.
var every = []string{head + `
tasks: 2
gpus: 4
gpu_type: {include: [V100, A100], exclude: [K80]}
gpu_uuid: [GPU-a, GPU-b, GPU-c, GPU-d]
gpu_mem: 40GB
gpu_driver: "535.104"
gpu_cuda: "12.2"
gpu_topology: nvlink
cpus: 0.5
mem: 1.5GB
disk: 10GiB
env: {EMPTY: "", NULL: "null", LINES: "a\nb\n", SEED: "7", YES: "yes"}
constraints: [[hostname, UNIQUE], "rack GROUP_BY 2"]
volumes: ["/data:/data:ro"]
shm_size: 128MiB
ulimits: {memlock: unlimited, stack: "1:unlimited", nofile: 65536}
role: research/vision
priority: -5
preemptible: true
gang: true
retries: 3
timeout: 12h
run_time: 90m
max_wait: 24h
idle_timeout: 2h
kill_grace: 30s
`, head + `
container: docker
service: {backoff: 2s, replace_after: never, shutdown_delay: 5s}
group: /web
user: root
entrypoint: /bin/sh
fetch: [{uri: /a, path: b, cache: true}]
devices: [/dev/infiniband]
limits: {cpus: 4, mem: unlimited}
parameters: [{key: env, value: ""}]
force_pull: true
pull_secret: team/registry
ipc: private
network: bridge
ports: [8080, {name: metrics}]
labels: {team: vision}
health_check: {http: {port_index: 1, tls: true}, failures: never}
check: {command: [test, -e, ""]}
`, head + `
env: {node.name: a, "a b": c}
image_entrypoint: true
ports: [{host: 8080}]
health_check: [{tcp: 80, failures: never}, {command: [probe]}]
`, head + `
share: {memory: 4GiB, cores: 30, gpus: 2}
`, head + `
gpus: 3
share: {memory: 30%}
`, head + `
share: {cores: 100}
stdin: true
tty: true
`, head + `
matrix: {lr: [0.1, 1e-3, ""], SEED: [1], include: [{lr: 1, extra: x}, {only: "a b"}], exclude: [{lr: "0.1"}]}
max_parallel: 2
guaranteed: true
timeout: 1h
on_timeout: requeue
warn: {signal: USR1, file: warned, http: /warn, before: 5m}
ports: 1
min_run_time: 10m
preempt_after: 2m
checkpoint_dir: /data/checkpoints
container: mesos
network: front
network_labels: {zone: a}
secrets: {TOKEN: hub/token}
secret_files: {token: hub/token}
workdir: ../src
artifacts: [results, model.pt]
notify: [mailto:alice@example.org, {to: "https://hooks.example.org/x", on: [start, failure]}]
after: [prepare, {job: clean, state: ended}]
`, head + `
schedule: {cron: "0 3 * * mon-fri", time_zone: Europe/Berlin, overlap: replace, history: 7}
`, `name: no-image
command: [./train.sh]
chdir: submit
`}

// The written files contain every key, and read as the same jobs.
func TestWriteHasEveryKey(t *testing.T) {
	has := map[string]bool{}
	for _, file := range every {
		spec, err := Read(strings.NewReader(file), "f")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(written(t, spec)) {
			if key, _, ok := strings.Cut(line, ":"); ok {
				has[key] = true
			}
		}
	}
	for _, key := range Keys() {
		if !has[key.Name] {
			t.Errorf("%s is read and not written", key.Name)
		}
	}
}

// Text is preserved, including characters with a meaning in YAML.
func TestWriteKeepsText(t *testing.T) {
	for _, text := range []string{
		" a", "a ", "\ta", "a\n", "a\n\n", "\na", "\n a\n", "a\n  b\n c", "a\r\nb", "a\rb", "a\u0085b", "a\u2028b", "\ufeffa",
		"a\x1bb", "ü: #x", "- a", "null", "~", "1e3", "0x10",
		"yes", "2026-01-02", "'a\"", "a: b", "a #b", "*a", "&a", "!!a", "---", "a\n---\nb", "%a", "@a", "`a", "{a}", "[a",
		"{{x}}", `a \{{ x }} \\{{y}}`, "{{matrix.x}}", strings.Repeat("long ", 100),
	} {
		spec := &job.Spec{Name: "a", Image: "i", Command: []string{"run", text}, Env: map[string]string{"A": text}}
		spec.SetDefaults()
		written(t, spec)
		spec.Command = shellCommand(text)
		written(t, spec)
	}
}

func TestWriteRejectsInvalidUTF8(t *testing.T) {
	spec := &job.Spec{Name: "a", Command: []string{"run", "\xff"}}
	spec.SetDefaults()
	var text strings.Builder
	if err := Write(&text, spec); err == nil || !strings.Contains(err.Error(), `write job file of a: "\xff" is not UTF-8`) || text.Len() != 0 {
		t.Errorf("got %v and %q", err, text.String())
	}
}
