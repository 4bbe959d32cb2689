package jobfile

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// marathonBackoff is the backoff of a service that sets none.
var marathonBackoff = job.BackoffPolicy{Initial: time.Second, Factor: 1.15, Max: 5 * time.Minute}

// services are job files, and how their tasks are started and restarted.
var services = []struct {
	name, lines string
	want        job.Spec
}{
	{"true", "service: true", job.Spec{Service: &job.Service{Backoff: marathonBackoff}}},
	{"false", "service: false", job.Spec{}},
	{"no keys", "service: {}", job.Spec{Service: &job.Service{Backoff: marathonBackoff}}},
	{"all of a service", "service: {backoff: 5s, backoff_factor: 2, backoff_max: 1h, replace_after: 10m}\ngroup: /web/front", job.Spec{
		Service: &job.Service{Backoff: job.BackoffPolicy{Initial: 5 * time.Second, Factor: 2, Max: time.Hour}, ReplaceAfter: 10 * time.Minute},
		Group:   "/web/front",
	}},
	{"never replaced", "service: {replace_after: never}", job.Spec{Service: &job.Service{Backoff: marathonBackoff, ReplaceAfter: job.Unlimited}}},
	{"scaled by a queue",
		"ports: 2\nservice: {min: 1, max: 4, target: {metric: queue_length, value: 10, path: /m, port_index: 1}, cooldown: 2m, " +
			"stabilization: {up: 30s, down: 10m}}", job.Spec{
			Service: &job.Service{Backoff: marathonBackoff, Autoscaling: job.AutoscalingPolicy{
				Min: 1, Max: 4, Target: job.LoadTarget{Metric: "queue_length", Value: 10, Path: "/m", PortIndex: 1},
				Cooldown: 2 * time.Minute, Stabilization: job.StabilizationWindows{Up: 30 * time.Second, Down: 10 * time.Minute},
			}},
			Container: job.Container{Ports: []job.Port{{}, {}}},
		}},
	{"scaled by requests", "ports: 1\nservice: {max: 4, target: {requests_per_second: 50}}", job.Spec{
		Service: &job.Service{Backoff: marathonBackoff, Autoscaling: job.AutoscalingPolicy{
			Min: 1, Max: 4, Target: job.LoadTarget{RequestsPerSecond: 50, Metric: "http_requests_total", Path: "/metrics"},
			Cooldown: time.Minute, Stabilization: job.StabilizationWindows{Down: 5 * time.Minute},
		}},
		Container: job.Container{Ports: []job.Port{{}}},
	}},
	{"scaled by GPUs", "gpus: 1\nservice: {max: 4, target: {gpu_duty: 60}}", job.Spec{
		Request: gpu.Request{GPUs: 1},
		Service: &job.Service{Backoff: marathonBackoff, Autoscaling: job.AutoscalingPolicy{
			Min: 1, Max: 4, Target: job.LoadTarget{GPUDuty: 60}, Cooldown: time.Minute, Stabilization: job.StabilizationWindows{Down: 5 * time.Minute},
		}},
	}},
	{"a first pause above the usual last", "service: {backoff: 10m}", job.Spec{
		Service: &job.Service{Backoff: job.BackoffPolicy{Initial: 10 * time.Minute, Factor: 1.15, Max: 10 * time.Minute}},
	}},
	{"entrypoint and user", "entrypoint: /bin/tini\nuser: 1000:1000", job.Spec{Container: job.Container{Entrypoint: "/bin/tini", User: "1000:1000"}}},
	{"user by number", "user: 1000", job.Spec{Container: job.Container{User: "1000"}}},
	{"files", `fetch:
  - https://example.org/model.tar.gz
  - {uri: /opt/run.sh, path: bin/run, executable: true}
  - {uri: "s3://bucket/data.zip", extract: true, cache: true}
`, job.Spec{Container: job.Container{Fetch: []job.FetchArtifact{
		{URI: "https://example.org/model.tar.gz"}, {URI: "/opt/run.sh", Path: "bin/run", Executable: true}, {URI: "s3://bucket/data.zip", Extract: true, Cache: true},
	}}}},
	{"limits", "limits: {cpus: 2.5, mem: 1GiB}", job.Spec{Container: job.Container{Limits: job.ResourceLimits{CPUs: 2.5, MemMiB: 1024}}}},
	{"no limits", "limits: {cpus: unlimited, mem: unlimited}", job.Spec{Container: job.Container{Limits: job.ResourceLimits{
		CPUs:   job.Unlimited,
		MemMiB: job.Unlimited,
	}}}},
	{"one limit", "limits: {mem: 1GiB}", job.Spec{Container: job.Container{Limits: job.ResourceLimits{MemMiB: 1024}}}},
	{"parameters", `parameters: [hostname=a, "sysctl=net.core.somaxconn=1024", {key: cap-add, value: IPC_LOCK}, {key: env, value: ""}]`, job.Spec{
		Container: job.Container{Parameters: []job.DockerParameter{
			{Key: "hostname", Value: "a"}, {Key: "sysctl", Value: "net.core.somaxconn=1024"}, {Key: "cap-add", Value: "IPC_LOCK"}, {Key: "env"},
		}},
	}},
}

// TestLaunchKeys checks what each key sets, and that it is written as it was read.
func TestLaunchKeys(t *testing.T) {
	for _, c := range services {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(head+c.lines), "f.yaml")
			if err != nil {
				t.Fatal(err)
			}
			want, err := Read(strings.NewReader(head), "f.yaml")
			if err != nil {
				t.Fatal(err)
			}
			want.Service, want.Group, want.Container, want.Request.GPUs = c.want.Service, c.want.Group, c.want.Container, c.want.Request.GPUs
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			written(t, got)
		})
	}
}

func TestLaunchKeysReject(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"service in a word", "service: always", `f.yaml:4:10: service: "always" is neither true nor false, nor keys such as {backoff: 1s}`},
		{"service in a list", "service: [true]",
			`f.yaml:4:10: service: needs keys: backoff, backoff_factor, backoff_max, cooldown, max, min, replace_after, shutdown_delay, stabilization, target`},
		{"no max", "service: {target: {gpu_duty: 50}}", `f.yaml:4:10: service: max: needed with min and target`},
		{"two targets", "service: {max: 2, target: {gpu_duty: 50, value: 1}}", `service: target: use one of {gpu_duty: 60}`},
		{"misspelt target", "service: {max: 2, target: {gpu_duti: 50}}", `f.yaml:4:28: service: target: unknown key "gpu_duti"; did you mean "gpu_duty"?`},
		{"more tasks than max", "tasks: 3\nservice: {max: 2, target: {metric: m, value: 1}}\nports: 1",
			`f.yaml:4:8: tasks: 3 is not between the service's min: 1 and max: 2`},
		{"no port for metrics", "service: {max: 2, target: {metric: m, value: 1}}", `service: target: port_index: 0: the job has 0 ports`},
		{"misspelt key", "service:\n  backof: 1s", `f.yaml:5:3: service: unknown key "backof"; did you mean "backoff"?`},
		{"backoff", "service: {backoff: 5}", `f.yaml:4:20: service: backoff: "5" is not a duration`},
		{"no backoff", "service: {backoff: 0s}", `f.yaml:4:20: service: backoff: 0s is not above 0: leave it out for the default`},
		{"factor", "service:\n  backoff_factor: twice", `f.yaml:5:19: service: backoff_factor: "twice" is not a number`},
		{"shrinks", "service: {backoff_factor: 0.5}", `f.yaml:4:10: service: backoff from 1s by 0.5 to 5m0s: it does not shrink`},
		{"max", "service: {backoff_max: -1s}", `f.yaml:4:24: service: backoff_max: -1s is not above 0`},
		{"max below the first", "service: {backoff_max: 1ms}", `f.yaml:4:10: service: backoff from 1s by 1.15 to 1ms: it does not shrink`},
		{"replacement", "service: {replace_after: soon}", `f.yaml:4:26: service: replace_after: "soon" is not a duration such as 30s, 2h, 7d or 01:30:00, nor never`},
		{"replacement at once", "service: {replace_after: 0s}", `f.yaml:4:26: service: replace_after: 0s is not above 0`},
		{"replacement in a list", "service: {replace_after: [1m]}", `f.yaml:4:26: service: replace_after: "" is not a duration such as 30s, 2h, 7d or 01:30:00, nor never`},
		{"gang", "gang: true\nservice: true", `f.yaml:4:7: gang: the job is a service: its tasks are started again one by one`},
		{"group", "group: a b", `f.yaml:4:8: group: "a b": use 1 to 255 letters`},
		{"no group", "group:", `f.yaml:4:7: group: needs a word`},
		{"user", "user: a b", `f.yaml:4:7: user: "a b" holds a blank`},
		{"users", "user: [a]", `f.yaml:4:7: user: needs a word`},
		{"entrypoint of words", "entrypoint: [/bin/sh, -c]", `f.yaml:4:13: entrypoint: needs a word`},
		{"one file", "fetch: https://a/b", `f.yaml:4:8: fetch: needs a list, for example [https://example.org/model.tar.gz]`},
		{"misspelt file", "fetch:\n  - uri: /a\n    exrtact: true", `f.yaml:6:5: fetch: item 1: unknown key "exrtact"; did you mean "extract"?`},
		{"empty file", `fetch: [""]`, `f.yaml:4:9: fetch: item 1: needs a word`},
		{"relative file", "fetch: [model.bin]", `f.yaml:4:9: fetch: "model.bin" is neither an absolute path of the agent nor a URI of http`},
		{"file without URI", "fetch: [{path: a}]", `f.yaml:4:9: fetch: "" is neither an absolute path`},
		{"extract", "fetch:\n  - uri: /a\n    extract: tar", `f.yaml:6:14: fetch: item 1: extract: "tar" is neither true nor false`},
		{"limits in a word", "limits: unlimited", `f.yaml:4:9: limits: needs keys: cpus, mem`},
		{"limit of CPUs", "limits: {cpus: many}", `f.yaml:4:16: limits: cpus: "many" is not a number, nor unlimited`},
		{"limit of memory", "limits:\n  mem: -1", `f.yaml:5:8: limits: mem: "-1" is not a size such as 512MiB or 4GiB, nor unlimited`},
		{"limit below", "limits: {mem: 1MiB}", `f.yaml:4:15: limits: mem: 1 is not between the task's own 256 and`},
		{"parameter", "parameters: [privileged]", `f.yaml:4:14: parameters: item 1: "privileged" is not an option of docker run: write KEY=VALUE, without dashes`},
		{"parameter with dashes", "parameters: [--hostname=a]", `f.yaml:4:14: parameters: item 1: "--hostname" is not an option of docker run without its dashes`},
		{"parameter mapping", "parameters: {hostname: a}", `f.yaml:4:13: parameters: needs a list, for example [init=true]`},
		{"parameter's value", "parameters:\n  - key: env\n    value: [a]", `f.yaml:6:12: parameters: item 1: value: is not a single value`},
		{"no key", "parameters: [{value: a}]", `f.yaml:4:14: parameters: item 1: "" is not an option of docker run`},
		{"of mesos", "container: mesos\nparameters: [init=true]", `f.yaml:5:13: entrypoint and parameters need container: docker`},
		{"alias", "group: &g a\nservice: {backoff: *g}", `f.yaml:5:20: service: backoff: job files take no YAML aliases`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(head+c.lines), "f.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant …%s…", err, c.want)
			}
		})
	}
}
