package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files: commit them only if you understand each change")

const deployed = "2026-01-02T03:04:05.678Z"

func settings() marathon.ParseSettings {
	return marathon.ParseSettings{Role: "web", BridgeNetwork: marathon.MesosBridge, Strict: true}
}

// readCorpus returns marathon's corpus by name.
func readCorpus(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "testdata", "apps", "*.json"))
	if err != nil || len(paths) < 60 {
		t.Fatalf("got %d definitions, want at least 60 (%v)", len(paths), err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".json")] = text
	}
	return files
}

// readCorpusJobs returns the jobs of those definitions in the corpus that ParseApp accepts and that have instances.
func readCorpusJobs(t testing.TB) map[string]job.Spec {
	t.Helper()
	all := map[string]job.Spec{}
	for name, text := range readCorpus(t) {
		app, err := marathon.ParseApp(text, settings())
		if err != nil {
			continue
		}
		if app.Version == "" {
			app.Version = deployed
		}
		spec, err := JobSpec(app, settings())
		if app.Instances == 0 {
			if !errors.Is(err, ErrSuspended) {
				t.Errorf("%s: got %v, want ErrSuspended", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all[name] = spec
	}
	return all
}

// Each definition that ParseApp accepts becomes the job in its golden file.
func TestCorpus(t *testing.T) {
	all := readCorpusJobs(t)
	if len(all) < 45 {
		t.Errorf("got %d jobs, want at least 45", len(all))
	}
	for name, spec := range all {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			e := json.NewEncoder(&got)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			if err := e.Encode(spec); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "golden", name+".json")
			if *rewrite {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got), -rewrite if it is meant:\n%s", diff)
			}
		})
	}
	stale, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil || len(stale) != len(all) {
		t.Errorf("testdata/golden has %d files for %d jobs (%v)", len(stale), len(all), err)
	}
}

func parseFields(t *testing.T, fields string) *marathon.App {
	t.Helper()
	app, err := marathon.ParseApp([]byte("{"+fields+"}"), settings())
	if err != nil {
		t.Fatalf("%s: %v", fields, err)
	}
	return app
}

// Each field by itself: how the job differs from that of an app without the field.
func TestEachFieldChangesJob(t *testing.T) {
	const (
		run    = `"id": "/g/a", "cmd": "x"`
		docker = `"id": "/g/a", "container": {"docker": {"image": "x"}`
		mesos  = `"id": "/g/a", "cmd": "x", "container": {"type": "MESOS", "docker": {"image": "x"}`
		bridge = docker + `, "portMappings": [{"containerPort": 80, "name": "http"}, {"protocol": "udp"}]}, "networks": [{"mode": "container/bridge"}]`
	)
	type spec = job.Spec
	for name, test := range map[string]struct {
		app    string
		change func(*spec)
	}{
		"cmd":                   {run, func(s *spec) {}},
		"cmd in a docker image": {docker + `}, "cmd": "y"`, func(s *spec) { setImage(s); s.Entrypoint, s.Command = "/bin/sh", []string{"-c", "y"} }},
		"cmd in a mesos image":  {mesos + `}`, func(s *spec) { setImage(s); s.Containerizer = job.Mesos; s.Command = shellCommand("x") }},
		"args":                  {`"id": "/g/a", "args": ["x", "-y"]`, func(s *spec) { s.Command = []string{"x", "-y"} }},
		"args of a mesos image": {`"id": "/g/a", "args": ["-y"], "container": {"type": "MESOS", "docker": {"image": "x"}}`, func(s *spec) {
			setImage(s)
			s.Containerizer, s.Command, s.ImageEntrypoint = job.Mesos, []string{"-y"}, true
		}},
		"args of a docker image": {docker + `}, "args": ["-y"]`, func(s *spec) { setImage(s); s.Command = []string{"-y"} }},
		"image alone":            {docker + `}`, setImage},
		"forcePullImage":         {docker + `, "docker": {"image": "x", "forcePullImage": true}}`, func(s *spec) { setImage(s); s.ForcePull = true }},
		"parameters": {docker + `, "docker": {"image": "x", "parameters": [{"key": "w", "value": "/a"}]}}`, func(s *spec) {
			setImage(s)
			s.Parameters = []job.DockerParameter{{Key: "w", Value: "/a"}}
		}},
		"shmSize": {mesos + `, "linuxInfo": {"ipcInfo": {"mode": "PRIVATE", "shmSize": 64}}}`,
			func(s *spec) { setImage(s); s.Containerizer = job.Mesos; s.Command = shellCommand("x"); s.ShmMiB = 64 }},
		"host volume": {docker + `, "volumes": [{"containerPath": "/a/", "hostPath": "/b//c", "mode": "ro"}]}`, func(s *spec) {
			setImage(s)
			s.Volumes = []job.Volume{{Source: "/b/c", Target: "/a", ReadOnly: true}}
		}},
		"volume in the sandbox": {docker + `, "volumes": [{"containerPath": "a", "hostPath": "/b", "mode": "RW"}]}`, func(s *spec) {
			setImage(s)
			s.Volumes = []job.Volume{{Source: "/b", Target: "/mnt/mesos/sandbox/a"}}
		}},
		"external volume": {docker +
			`, "volumes": [{"containerPath": "/a", "mode": "RW", "external": {"name": "v", "provider": "dvdi", "options": {"dvdi/driver": "d"}}}]}`, func(s *spec) {
			setImage(s)
			s.Volumes = []job.Volume{{Source: "v", Target: "/a", Driver: "d"}}
		}},
		"user": {run + `, "user": "me"`, func(s *spec) { s.User = "me" }},
		"env": {run + `, "env": {"node.name": "b", "MARATHON_APP_ID": "mine"}`,
			func(s *spec) { s.Env["node.name"], s.Env["MARATHON_APP_ID"] = "b", "mine" }},
		"secrets": {run +
			`, "env": {"DB": {"secret": "db"}, "MARATHON_APP_ID": {"secret": "other"}}, "secrets": {"db": {"source": "/prod/db"}, "other": {"source": "x"}, "unused": {"source": "y"}}`,
			func(s *spec) {
				delete(s.Env, "MARATHON_APP_ID")
				s.Secrets = map[string]string{"DB": "prod/db", "MARATHON_APP_ID": "x"}
			}},
		"pullConfig": {docker + `, "docker": {"image": "x", "pullConfig": {"secret": "registry"}}}, "secrets": {"registry": {"source": "/prod/registry"}}`,
			func(s *spec) {
				setImage(s)
				s.PullSecret = "prod/registry"
			}},
		"secrets as files": {mesos +
			`, "volumes": [{"containerPath": "/run/db/", "secret": "db"}, {"containerPath": "key", "secret": "key"}, {"containerPath": "/a", "hostPath": "/a", "mode": "RO"}]}, "secrets": {"db": {"source": "/prod/db"}, "key": {"source": "k"}}`,
			func(s *spec) {
				setImage(s)
				s.Containerizer, s.Command = job.Mesos, shellCommand("x")
				s.Volumes = []job.Volume{{Source: "/a", Target: "/a", ReadOnly: true}}
				s.SecretFiles = map[string]string{"/run/db": "prod/db", "key": "k"}
			}},
		"instances": {run + `, "instances": 7`, func(s *spec) { s.Tasks = 7 }},
		"cpus":      {run + `, "cpus": 0.5`, func(s *spec) { s.CPUs = 0.5; s.Env["MARATHON_APP_RESOURCE_CPUS"] = "0.5" }},
		"mem":       {run + `, "mem": 64.5`, func(s *spec) { s.MemMiB = 64.5; s.Env["MARATHON_APP_RESOURCE_MEM"] = "64.5" }},
		"disk":      {run + `, "disk": 10`, func(s *spec) { s.DiskMiB = 10; s.Env["MARATHON_APP_RESOURCE_DISK"] = "10.0" }},
		"gpus":      {run + `, "gpus": 2`, func(s *spec) { s.Request.GPUs = 2; s.Constraints = nil; s.Env["MARATHON_APP_RESOURCE_GPUS"] = "2" }},
		"gpus in docker": {docker + `}, "gpus": 2`, func(s *spec) {
			setImage(s)
			s.Request.GPUs = 2
			s.Constraints = nil
			s.Env["MARATHON_APP_RESOURCE_GPUS"] = "2"
		}},
		"resourceLimits": {run + `, "resourceLimits": {"cpus": 2, "mem": "unlimited"}`, func(s *spec) {
			s.Limits = job.ResourceLimits{CPUs: 2, MemMiB: job.Unlimited}
		}},
		"acceptedResourceRoles": {run + `, "acceptedResourceRoles": ["web", "*"]`, func(s *spec) {}},
		"what is not reserved": {run + `, "acceptedResourceRoles": ["*"]`, func(s *spec) {
			s.Constraints = append(s.Constraints, job.Constraint{Field: "@reservation", Operator: job.Is, Value: "unreserved"})
		}},
		"what is reserved": {run + `, "acceptedResourceRoles": ["web"]`, func(s *spec) {
			s.Constraints = append(s.Constraints, job.Constraint{Field: "@reservation", Operator: job.Is, Value: "reserved"})
		}},
		"constraints": {run + `, "constraints": [["gpu_type", "like", "V100|A100"], ["hostname", "UNIQUE"]]`, func(s *spec) {
			s.Constraints = append([]job.Constraint{{Field: "gpu_type", Operator: job.Like, Value: "V100|A100"}, {Field: "hostname", Operator: job.Unique}},
				s.Constraints...)
		}},
		"precise GPU type": {run + `, "constraints": [["gpu_type", "IS", "A100-80GB"]]`, func(s *spec) {
			s.Constraints = append([]job.Constraint{{Field: "gpu_type", Operator: job.Is, Value: "A100-80GB"}}, s.Constraints...)
		}},
		"labels": {run + `, "labels": {"team-name": "vision"}`, func(s *spec) {
			s.Labels["team-name"] = "vision"
			s.Env["MARATHON_APP_LABELS"], s.Env["MARATHON_APP_LABEL_TEAM_NAME"] = "TEAM_NAME", "vision"
		}},
		"a long label": {run + `, "labels": {"a": "` + strings.Repeat("x", 512) + `"}`, func(s *spec) { s.Labels["a"] = strings.Repeat("x", 512) }},
		"gpu label": {run + `, "labels": {"GPU_SCHEDULING_BEHAVIOR": "unrestricted"}`, func(s *spec) {
			s.Labels[marathon.GPULabel] = "unrestricted"
			s.Constraints = nil
			s.Env["MARATHON_APP_LABELS"], s.Env["MARATHON_APP_LABEL_GPU_SCHEDULING_BEHAVIOR"] = marathon.GPULabel, "unrestricted"
		}},
		"fetch": {run + `, "fetch": [{"uri": "/a", "executable": true, "cache": true, "destPath": "b"}, {"uri": "http://h/a.zip"}]`, func(s *spec) {
			s.Fetch = []job.FetchArtifact{{URI: "/a", Path: "b", Executable: true, Cache: true}, {URI: "http://h/a.zip", Extract: true}}
		}},
		"uris": {run + `, "uris": ["http://h/a.zip"]`, func(s *spec) { s.Fetch = []job.FetchArtifact{{URI: "http://h/a.zip", Extract: true}} }},
		"backoff": {run + `, "backoffSeconds": 5, "backoffFactor": 2, "maxLaunchDelaySeconds": 60`, func(s *spec) {
			s.Service.Backoff = job.BackoffPolicy{Initial: 5 * time.Second, Factor: 2, Max: time.Minute}
		}},
		"no backoff": {run + `, "backoffSeconds": 0`, func(s *spec) { s.Service.Backoff.Initial = time.Millisecond }},
		"backoff above its bound": {run + `, "backoffSeconds": 5, "maxLaunchDelaySeconds": 2`,
			func(s *spec) { s.Service.Backoff.Initial, s.Service.Backoff.Max = 2*time.Second, 2*time.Second }},
		"kill grace":    {run + `, "taskKillGracePeriodSeconds": 30`, func(s *spec) { s.KillGrace = 30 * time.Second }},
		"no kill grace": {run + `, "taskKillGracePeriodSeconds": 0`, func(s *spec) { s.KillGrace = time.Millisecond }},
		"unreachable": {run + `, "unreachableStrategy": {"inactiveAfterSeconds": 60, "expungeAfterSeconds": 90}`,
			func(s *spec) { s.Service.ReplaceAfter = time.Minute }},
		"unreachable disabled": {run + `, "unreachableStrategy": "disabled"`, func(s *spec) { s.Service.ReplaceAfter = -1 }},
		"portDefinitions": {run + `, "portDefinitions": [{"port": 80, "name": "http", "labels": {"VIP_0": "a"}}, {"protocol": "udp"}, {"protocol": "udp,tcp"}]`,
			func(s *spec) {
				s.Ports = []job.Port{{Name: "http", Service: 80}, {Protocol: job.UDP}, {}}
			}},
		"requirePorts":  {run + `, "requirePorts": true, "ports": [8080, 0]`, func(s *spec) { s.Ports = []job.Port{{Host: 8080}, {}} }},
		"service ports": {run + `, "ports": [8080, 0]`, func(s *spec) { s.Ports = []job.Port{{Service: 8080}, {}} }},
		"hostPort": {docker + `, "portMappings": [{"containerPort": 80, "hostPort": 8080}, {"hostPort": 9090}]}, "networks": [{"mode": "container/bridge"}]`,
			func(s *spec) {
				setImage(s)
				s.Network, s.Ports = job.BridgeNetwork, []job.Port{{Container: 80, Host: 8080}, {Host: 9090}}
			}},
		"no ports": {run + `, "portDefinitions": []`, func(s *spec) { s.Ports = nil }},
		"bridge": {bridge, func(s *spec) {
			setImage(s)
			s.Network = job.BridgeNetwork
			s.Ports = []job.Port{{Name: "http", Container: 80}, {Protocol: job.UDP}}
		}},
		"container network": {docker + `, "portMappings": [{"containerPort": 80, "hostPort": 0}]}, "networks": [{"name": "overlay"}]`,
			func(s *spec) { setImage(s); s.Network, s.Ports = "overlay", []job.Port{{Container: 80}} }},
		"CNI network": {mesos + `, "portMappings": [{"containerPort": 80, "hostPort": 0}]}, "networks": [{"name": "front", "labels": {"zone": "a"}}]`, func(s *spec) {
			setImage(s)
			s.Containerizer, s.Command = job.Mesos, shellCommand("x")
			s.Network, s.NetworkLabels, s.Ports = "front", map[string]string{"zone": "a"}, []job.Port{{Container: 80}}
		}},
		"CNI network of old definitions": {run +
			`, "ipAddress": {"networkName": "front", "labels": {"zone": "a"}, "discovery": {"ports": [{"number": 80, "name": "http", "protocol": "tcp"}]}}`,
			func(s *spec) {
				s.Network, s.NetworkLabels, s.Ports = "front", map[string]string{"zone": "a"}, nil
				s.Env["PORT0"], s.Env["PORT_80"], s.Env["PORTS"] = "80", "80", ""
			}},
		"bridge of a mesos container": {mesos + `, "portMappings": [{"containerPort": 80}]}, "networks": [{"mode": "container/bridge"}]`, func(s *spec) {
			setImage(s)
			s.Containerizer, s.Command = job.Mesos, shellCommand("x")
			s.Network, s.Ports = "mesos-bridge", []job.Port{{Container: 80}}
		}},
		"labels of docker's networks": {docker + `, "portMappings": []}, "networks": [{"name": "overlay", "labels": {"zone": "a"}}]`,
			func(s *spec) { setImage(s); s.Network, s.Ports = "overlay", nil }},
		"ports of a container's network alone": {docker +
			`, "portMappings": [{"containerPort": 80}, {"name": "b"}, {"containerPort": 10000}]}, "networks": [{"name": "overlay"}], "check": {"http": {"portIndex": 1}}`,
			func(s *spec) {
				setImage(s)
				s.Network, s.Ports = "overlay", nil
				for k, v := range map[string]string{
					"PORT0":      "80",
					"PORT_80":    "80",
					"PORT1":      "10001",
					"PORT_10001": "10001",
					"PORT2":      "10000",
					"PORT_10000": "10000",
					"PORT":       "10001",
					"PORTS":      "10001",
				} {
					s.Env[k] = v
				}
				s.Check = &job.Check{
					HTTP:     &job.HTTPCheck{CheckPort: job.CheckPort{Port: 10001}, Path: "/"},
					Delay:    15 * time.Second,
					Interval: time.Minute,
					Timeout:  20 * time.Second,
				}
			}},
		"health by HTTP": {run + `, "healthChecks": [{"path": "ok"}]`, func(s *spec) {
			s.HealthCheck = withoutDelay(newHealthCheck(job.Check{HTTP: &job.HTTPCheck{Path: "/ok"}}))
		}},
		"health by HTTPS": {run + `, "healthChecks": [{"protocol": "MESOS_HTTPS", "port": 443}]`, func(s *spec) {
			s.HealthCheck = newHealthCheck(job.Check{HTTP: &job.HTTPCheck{CheckPort: job.CheckPort{Port: 443}, Path: "/", TLS: true}})
		}},
		"delay of Mesos's checks": {run +
			`, "healthChecks": [{"protocol": "MESOS_HTTP", "delaySeconds": 7}, {"protocol": "MESOS_TCP", "delaySeconds": 7}, {"protocol": "COMMAND", "command": {"value": "true"}, "delaySeconds": 7}]`,
			func(s *spec) {
				s.HealthCheck = newHealthCheck(job.Check{HTTP: &job.HTTPCheck{Path: "/"}})
				s.MoreHealthChecks = []job.HealthCheck{*newHealthCheck(job.Check{TCP: &job.TCPCheck{}}), *newHealthCheck(job.Check{Command: shellCommand("true")})}
				for _, h := range s.HealthChecks() {
					h.Delay = 7 * time.Second
				}
			}},
		"no delay of Marathon's checks": {run + `, "healthChecks": [{"protocol": "HTTPS", "delaySeconds": 7}]`, func(s *spec) {
			s.HealthCheck = withoutDelay(newHealthCheck(job.Check{HTTP: &job.HTTPCheck{Path: "/", TLS: true}}))
		}},
		"several health checks": {run +
			`, "healthChecks": [{"protocol": "TCP"}, {"path": "/ok"}, {"protocol": "TCP"}, {"protocol": "COMMAND", "command": {"value": "true"}, "maxConsecutiveFailures": 7}]`,
			func(s *spec) {
				s.HealthCheck = withoutDelay(newHealthCheck(job.Check{TCP: &job.TCPCheck{}}))
				s.MoreHealthChecks = []job.HealthCheck{
					*withoutDelay(newHealthCheck(job.Check{HTTP: &job.HTTPCheck{Path: "/ok"}})),
					*newHealthCheck(job.Check{Command: shellCommand("true")}),
				}
				s.MoreHealthChecks[1].Failures = 7
			}},
		"health by TCP": {run + `, "healthChecks": [{"protocol": "TCP"}]`,
			func(s *spec) { s.HealthCheck = withoutDelay(newHealthCheck(job.Check{TCP: &job.TCPCheck{}})) }},
		"health by COMMAND": {run + `, "healthChecks": [{"protocol": "COMMAND", "command": {"value": "true"}}]`,
			func(s *spec) { s.HealthCheck = newHealthCheck(job.Check{Command: shellCommand("true")}) }},
		"health times": {run +
			`, "healthChecks": [{"protocol": "TCP", "gracePeriodSeconds": 0, "intervalSeconds": 1, "timeoutSeconds": 2, "delaySeconds": 0, "maxConsecutiveFailures": 0}]`,
			func(s *spec) {
				s.HealthCheck = &job.HealthCheck{
					Check:    job.Check{TCP: &job.TCPCheck{}, Delay: firstProbe, Interval: time.Second, Timeout: 2 * time.Second},
					Grace:    time.Millisecond,
					Failures: job.Unlimited,
				}
			}},
		"check by exec": {run + `, "check": {"exec": {"command": {"argv": ["a", "b"]}}}`, func(s *spec) {
			s.Check = &job.Check{Command: []string{"a", "b"}, Delay: 15 * time.Second, Interval: time.Minute, Timeout: 20 * time.Second}
		}},
		// Fields for deployments, readiness and users have no effect on the job.
		"killSelection":   {run + `, "killSelection": "OLDEST_FIRST"`, func(s *spec) {}},
		"upgradeStrategy": {run + `, "upgradeStrategy": {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}`, func(s *spec) {}},
		"dependencies":    {run + `, "dependencies": ["/b"]`, func(s *spec) {}},
		"readinessChecks": {run + `, "readinessChecks": [{"portName": "default"}]`, func(s *spec) {}},
	} {
		t.Run(name, func(t *testing.T) {
			app := parseFields(t, test.app)
			app.Version = deployed
			got, err := JobSpec(app, settings())
			if err != nil {
				t.Fatal(err)
			}
			want := newPlainJob()
			test.change(&want)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.app, diff)
			}
		})
	}
}

// newPlainJob returns the job of {"id": "/g/a", "cmd": "x"}.
func newPlainJob() job.Spec {
	return job.Spec{
		Name: "g_a.mjwaidke", Group: "/g/a", Role: "web", Tasks: 1, CPUs: 1, MemMiB: 128, KillGrace: 5 * time.Second,
		Command: []string{"/bin/sh", "-c", "x"}, Containerizer: job.Mesos,
		Env: map[string]string{
			"MARATHON_APP_ID": "/g/a", "MARATHON_APP_VERSION": deployed, "MARATHON_APP_LABELS": "",
			"MARATHON_APP_RESOURCE_CPUS": "1.0", "MARATHON_APP_RESOURCE_MEM": "128.0", "MARATHON_APP_RESOURCE_DISK": "0.0", "MARATHON_APP_RESOURCE_GPUS": "0",
		},
		Container:   job.Container{Ports: []job.Port{{Name: "default"}}, Labels: map[string]string{"marathon.app": "/g/a", "marathon.version": deployed}},
		Constraints: []job.Constraint{{Field: "@gpus", Operator: job.Is, Value: "0"}},
		Service: &job.Service{
			Backoff:      job.BackoffPolicy{Initial: time.Second, Factor: 1.15, Max: 5 * time.Minute},
			ReplaceAfter: time.Millisecond,
		},
	}
}

func setImage(s *job.Spec) {
	s.Containerizer, s.Image, s.Command = job.Docker, "x", nil
	s.Env["MARATHON_APP_DOCKER_IMAGE"] = "x"
}

func newHealthCheck(c job.Check) *job.HealthCheck {
	c.Delay, c.Interval, c.Timeout = 15*time.Second, time.Minute, 20*time.Second
	return &job.HealthCheck{Check: c, Grace: 5 * time.Minute, Failures: 3}
}

// withoutDelay is for checks that Marathon runs itself: delaySeconds has no effect on them.
func withoutDelay(h *job.HealthCheck) *job.HealthCheck {
	h.Delay = firstProbe
	return h
}

// Constraints keep their operators and values, in order.
func TestConstraintOperators(t *testing.T) {
	for _, words := range [][]string{
		{"hostname", "UNIQUE"}, {"rack", "CLUSTER"}, {"rack", "CLUSTER", "r1"}, {"@zone", "GROUP_BY"}, {"@region", "GROUP_BY", "3"},
		{"@hostname", "MAX_PER", "2"}, {"cores", "IS", "32.5"}, {"gpu_type", "LIKE", "V100|A100"}, {"gpu_type", "UNLIKE", "K80"},
	} {
		app := parseFields(t, `"id": "/a", "cmd": "x", "gpus": 1`)
		app.Constraints = [][]string{words}
		spec, err := JobSpec(app, settings())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := spec.Constraints[0].String(), strings.Join(words, " "); len(spec.Constraints) != 1 || got != want {
			t.Errorf("got %v, want %s", spec.Constraints, want)
		}
	}
}

// The scheduler's GPU behavior applies to apps without the label and without GPUs.
func TestGPUBehavior(t *testing.T) {
	for _, test := range []struct {
		setting, label string
		gpus           int
		kept           bool
	}{
		{"", "", 0, true},
		{marathon.GPURestricted, "", 0, true},
		{marathon.GPUUnrestricted, "", 0, false},
		{marathon.GPUUnrestricted, marathon.GPURestricted, 0, true},
		{marathon.GPURestricted, marathon.GPUUnrestricted, 0, false},
		{marathon.GPURestricted, marathon.GPURestricted, 1, false},
	} {
		app := parseFields(t, `"id": "/a", "cmd": "x"`)
		app.GPUs = test.gpus
		if test.label != "" {
			app.Labels[marathon.GPULabel] = test.label
		}
		s := settings()
		s.GPUBehavior = test.setting
		spec, err := JobSpec(app, s)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(spec.Constraints) == 1; got != test.kept {
			t.Errorf("%+v: constraints %v", test, spec.Constraints)
		}
	}
}

// Scaling keeps the job's name, which depends on the last change of another kind.
func TestScalingKeepsJobSpec(t *testing.T) {
	app := parseFields(t, `"id": "/a", "cmd": "x", "version": "2026-01-03T00:00:00.000Z"`)
	app.VersionInfo = &marathon.VersionInfo{LastScalingAt: app.Version, LastConfigChangeAt: deployed}
	spec, err := JobSpec(app, settings())
	if err != nil {
		t.Fatal(err)
	}
	if id, version, ok := AppOf(&spec); !ok || id != "/a" || version != deployed {
		t.Errorf("got %q %q %v, want /a %s", id, version, ok, deployed)
	}
}
