package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/cluster"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// specOf returns the job of "mesos-gpu run --image i --name a" with these flags.
func specOf(line ...string) (*job.Spec, error) {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags := jobs.AddJobFlags(f)
	if err := f.Parse(append([]string{"--name", "a", "--image", "i", "--mem", "1GiB"}, line...)); err != nil {
		return nil, err
	}
	return flags.JobSpec(nil)
}

// TestFlagsMatchJobFile checks that flags and job file keys have the same effect.
func TestFlagsMatchJobFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		file  string
	}{
		{"nothing", nil, ""},
		{"all", []string{
			"-v", "/data:/data:ro", "--volume", "scratch:/scratch", "--network", "bridge", "-p", "8080", "--publish", "9090/udp", "--shm-size", "512MiB",
			"--ipc", "private", "--ulimit", "memlock=unlimited", "--ulimit", "stack=1:2", "-l", "team=vision", "--label", "note=a=b", "--pull", "always",
			"--health-http", "/health", "--health-interval", "2s", "--health-timeout", "3s", "--health-start-period", "4s", "--health-retries", "5", "--health-delay", "1s",
		}, `
volumes: ["/data:/data:ro", "scratch:/scratch"]
network: bridge
ports: [8080, 9090/udp]
shm_size: 512MiB
ipc: private
ulimits: {memlock: unlimited, stack: "1:2"}
labels: {team: vision, note: a=b}
force_pull: true
health_check: {http: /health, interval: 2s, timeout: 3s, grace: 4s, failures: 5, delay: 1s}
`},
		{"how it ends", []string{"--kill-grace", "90s", "--timeout", "1h"}, "kill_grace: 90s\ntimeout: 1h"},
		{"what it is given", []string{"--disk", "10GiB", "--secret", "DB_PASSWORD=db/password", "--secret", "TOKEN=hf"}, "disk: 10GiB\nsecrets: {DB_PASSWORD: db/password, TOKEN: hf}"},
		{"how it starts", []string{"--entrypoint", "/bin/tini", "-u", "1000:1000"}, "entrypoint: /bin/tini\nuser: 1000:1000"},
		{"not a service", []string{"--restart", "no", "--user", "root"}, "user: root"},
		{"a service", []string{"--restart", "always"}, "service: true"},
		{"host ports", []string{"--ports", "2", "--health-tcp", "first"}, "ports: 2\nhealth_check: {tcp: {port_index: 0}}"},
		{"a command", []string{"--health-cmd", "curl -f x", "--health-retries", "-1"}, "health_check: {command: curl -f x, failures: never}"},
		{"a port by number", []string{"--health-http", "8080/health"}, "health_check: {http: {port: 8080, path: /health}}"},
		{"another by number", []string{"--health-tcp", "8080"}, "health_check: {tcp: 8080}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := specOf(c.flags...)
			if err != nil {
				t.Fatal(err)
			}
			want, err := jobfile.Read(strings.NewReader("name: a\nimage: i\nmem: 1GiB\n"+c.file), "f")
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Ports) == 0 {
				got.Ports = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-file +flags):\n%s", diff)
			}
		})
	}
}

func TestInvalidFlags(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"-v /data", `--volume: "/data" is no volume: write SOURCE:TARGET`},
		{"-p 80:8080", `the container's own port 8080 needs network: bridge`},
		{"-p 8080", `the container's own port 8080 needs network: bridge`},
		{"--ports 1 -p 8080", `--publish: --ports counts ports without a container port`},
		{"-p 80x", `--publish: "80x" is no port`},
		{"--publish 99999", `--publish: `},
		{"--disk big", `--disk: "big" is not a size`},
		{"--secret TOKEN", `--secret: "TOKEN": write NAME=value: the value is the secret's name`},
		{"--secret TOKEN=../other", `"../other" is no secret's name`},
		{"--ports -1", `--ports: -1 is not between 0 and 100`},
		{"--ports 1000000000", `--ports: 1000000000 is not between 0 and 100`},
		{"--network none --ports 1", `ports: 1, and network: none reaches none of them`},
		{"--ulimit memlock", `--ulimit: "memlock": write NAME=LIMIT`},
		{"--ulimit memlock=x", `--ulimit: memlock: "x" is no limit`},
		{"--shm-size big", `--shm-size: "big" is not a size`},
		{"--ipc shareable", `ipc: "shareable" is neither private nor host`},
		{"--label team", `--label: "team": write NAME=value`},
		{"--pull never", `--pull: "never" is neither always nor missing`},
		{"--restart on-failure:3", `--restart: "on-failure:3" is neither always nor no: --retries says how often`},
		{"--restart always --retries 1", `retries: the job is a service`},
		{"-u a\x7f", `user: "a\x7f" holds a blank`},
		{"--entrypoint /bin/tini --label a", `--label: "a": write NAME=value`},
		{"--health-retries 2", `a health check is one of --health-cmd, --health-http and --health-tcp: 0 are given`},
		{"--health-cmd x --health-tcp 1", `--health-tcp: 2 are given`},
		{"--health-http x/y", `--health-http: "x" is no port from 1 to 65535`},
		{"--health-tcp 1:2", `--health-tcp: "1:2" is no port from 1 to 65535`},
		{"--health-tcp 1/udp", `--health-tcp: "1/udp" is no port from 1 to 65535`},
		{"--health-http /", `health_check: http: port_index 0, and the job has 0 ports`},
	} {
		_, err := specOf(strings.Fields(c.line)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || !cli.IsUsage(err) {
			t.Errorf("%s: got %v, want the usage error …%s…", c.line, err, c.want)
		}
	}
}

func TestEnvironmentFlags(t *testing.T) {
	s, err := specOf("--env", "A=b=c", "--env", "B=")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "b=c", "B": ""}, s.Env); diff != "" {
		t.Error(diff)
	}
	if _, err := specOf("--env", "A"); err == nil || !strings.Contains(err.Error(), `--env: "A": write NAME=value`) {
		t.Errorf("got %v", err)
	}
}

// runAgainst runs a command line against an API that accepts jobs.
func runAgainst(t *testing.T, line ...string) (printed string, submitted []job.Spec, err error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var spec job.Spec
		if err := json.NewDecoder(r.Body).Decode(&spec); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/jobs" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		submitted = append(submitted, spec)
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("{}"))
	}))
	t.Cleanup(s.Close)
	var out bytes.Buffer
	c := newRoot(cli.ProcessIO{Stdout: &out, Stderr: io.Discard, Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": s.URL}[name] }})
	c.SetArgs(append([]string{"run"}, line...))
	err = c.ExecuteContext(t.Context())
	return out.String(), submitted, err
}

// With --detach run submits the job, prints its name and returns.
func TestRunDetached(t *testing.T) {
	for _, line := range [][]string{
		{"--detach", "--name", "web", "--restart", "always", "--", "serve"},
		{"-d", "--", "train"},
	} {
		printed, submitted, err := runAgainst(t, line...)
		if err != nil || len(submitted) != 1 || printed != submitted[0].Name+"\n" {
			t.Errorf("%v: got %v, %q and %+v", line, err, printed, submitted)
			continue
		}
		if got, want := submitted[0].Service != nil, slices.Contains(line, "always"); got != want {
			t.Errorf("%v: a service: got %v, want %v", line, got, want)
		}
	}
}

// A grace period of 0 is rejected, because the job would get the default.
func TestRunRejectsZeroGrace(t *testing.T) {
	_, submitted, err := runAgainst(t, "-d", "--kill-grace", "0", "--", "train")
	if !cli.IsUsage(err) || !strings.Contains(err.Error(), "--kill-grace") || len(submitted) > 0 {
		t.Errorf("got %v and %+v", err, submitted)
	}
}

// A service does not end, so there is no exit status to wait for.
func TestRunServiceNeedsDetach(t *testing.T) {
	_, submitted, err := runAgainst(t, "--restart", "always", "--", "serve")
	if !cli.IsUsage(err) || !strings.Contains(err.Error(), "give --detach too") || len(submitted) > 0 {
		t.Errorf("got %v and %+v", err, submitted)
	}
}

func TestHealthColumn(t *testing.T) {
	yes, no := true, false
	j := api.JobView{State: job.Running}
	j.Spec = job.Spec{Name: "serve", Service: &job.Service{Backoff: job.BackoffPolicy{Initial: time.Second, Factor: 2, Max: time.Hour}}, Container: job.Container{HealthCheck: &job.HealthCheck{}}}
	j.Submitted = time.Now()
	j.Tasks = []job.Task{
		{ID: "serve.0", State: job.Running, Healthy: &yes, Ports: []int{31000, 31001}},
		{ID: "serve.1", State: job.Running, Healthy: &no, Check: "HTTP status 503"},
		{ID: "serve.2", State: job.Starting},
		{ID: "serve.3", State: job.Failed, Healthy: &yes},
		{ID: "serve.4", State: job.Killed, KillReason: job.KillByScaling},
	}
	if got := jobs.FormatHealthy(&j); got != "1 of 4" {
		t.Errorf("ps shows %q", got)
	}
	if got := jobs.FormatHealthy(&api.JobView{}); got != "-" {
		t.Errorf("ps shows %q of a job without a check", got)
	}
	var out bytes.Buffer
	if err := jobs.PrintJob(&term.TablePrinter{Writer: &out}, &j); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[float64]string{1: "1 CPU", 0.5: "0.5 CPUs", 2: "2 CPUs", 0: "0 CPUs"} {
		if got := jobs.FormatCPUs(n); got != want {
			t.Errorf("describe shows %q, want %q", got, want)
		}
	}
	for _, want := range []string{"healthy ", "31000 31001", "unhealthy, check: HTTP status 503", "service      wants 4 tasks; pauses of 1s by 2 to 1h0m0s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("describe lacks %q:\n%s", want, out.String())
		}
	}
}

// ps and describe show the requested share of each device and the share that a task holds.
func TestSharedGPUColumns(t *testing.T) {
	j := api.JobView{State: job.Running}
	j.Spec = job.Spec{Name: "infer", Request: gpu.Request{GPUs: 2, Share: gpu.ShareRequest{MemMiB: 4096, Cores: 30}, Types: gpu.TypeSelector{Include: []string{"V100"}}}}
	j.Tasks = []job.Task{{ID: "infer.0", State: job.Running, DeviceIDs: []string{"GPU-a", "GPU-b"}, Shares: []gpu.DeviceShare{
		{UUID: "GPU-a", Type: "V100", MemMiB: 4096, Cores: 30, MilliDevices: 300}, {UUID: "GPU-b", Type: "V100", MemMiB: 4096, Cores: 30, MilliDevices: 300},
	}}}
	var out bytes.Buffer
	if err := jobs.PrintJob(&term.TablePrinter{Writer: &out}, &j); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 × (4096 MiB, 30 %) of V100, 0 CPUs", "GPU-a (4096 MiB, 30 %), GPU-b (4096 MiB, 30 %)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("describe lacks %q:\n%s", want, out.String())
		}
	}
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
		if got := cluster.FormatWholeGPUs(&c.agent, c.agent.GPUs) + " " + cluster.FormatWholeGPUs(&c.agent, c.agent.GPUsFree) + " " + cluster.FormatSharedGPUs(c.agent.Shared); got != c.want {
			t.Errorf("agents shows %q, want %q", got, c.want)
		}
	}
	gpus := []api.GPUView{{Task: "a"}, {}, {Task: "b, c", Shared: &api.SharedCapacity{MemMiB: 15360, MemFreeMiB: 6144, Cores: 100, CoresFree: 40}}, {Shared: &api.SharedCapacity{MemMiB: 15360, MemFreeMiB: 15360, Cores: 100, CoresFree: 100}}}
	if got, want := cluster.FormatSharedCapacity(gpus[2].Shared)+" "+cluster.FormatSharedCapacity(nil), "9216/15360 MiB, 60/100 % -"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for with, want := range map[gpu.EnforcementMethod]string{"mps": "1/2 MiB, 30/100 % (mps)", "none": "1/2 MiB, 30/100 % (no limit)"} {
		if got := cluster.FormatSharedCapacity(&api.SharedCapacity{MemMiB: 2, MemFreeMiB: 1, Cores: 100, CoresFree: 70, LimitedBy: with}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for want, list := range map[string][]api.GPUView{
		"1 of 2 GPUs held": gpus[:2], "1 of 2 GPUs held; 9216/30720 MiB (30 %) of 2 shared GPUs held": gpus, "9216/15360 MiB (60 %) of 1 shared GPU held": gpus[2:3], "0 of 0 GPUs held": nil,
	} {
		if got := cluster.SummarizeGPUs(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestShareFlags(t *testing.T) {
	_, submitted, err := runAgainst(t, "--detach", "--gpu-memory", "30%", "--gpu-cores", "25", "--", "serve")
	if err != nil || len(submitted) != 1 || submitted[0].Request.GPUs != 1 || submitted[0].Request.Share != (gpu.ShareRequest{MemPercent: 30, Cores: 25}) {
		t.Errorf("got %+v, %v", submitted, err)
	}
	_, submitted, err = runAgainst(t, "--detach", "--gpus", "2", "--gpu-memory", "1.5GiB", "--", "serve")
	if err != nil || len(submitted) != 1 || submitted[0].Request.GPUs != 2 || submitted[0].Request.Share != (gpu.ShareRequest{MemMiB: 1536}) {
		t.Errorf("got %+v, %v", submitted, err)
	}
	for want, args := range map[string][]string{
		"--gpu-memory: \"0%\" is no whole number of percent": {"--gpu-memory", "0%", "--", "serve"},
		"cores of a share are 120 %":                         {"--gpu-cores", "120", "--", "serve"},
		"parts of devices have no gpu_topology":              {"--gpu-cores", "20", "--gpus", "2", "--gpu-topology", "nvlink", "--", "serve"},
	} {
		if _, submitted, err := runAgainst(t, args...); !cli.IsUsage(err) || !strings.Contains(err.Error(), want) || len(submitted) > 0 {
			t.Errorf("%v: got %v and %+v, want %q", args, err, submitted, want)
		}
	}
}
