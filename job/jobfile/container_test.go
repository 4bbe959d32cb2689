package jobfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

const head = "name: a\nimage: debian:12\ncommand: serve\n"

// containers are job files and the containers that they define.
var containers = []struct {
	name, file string
	want       job.Container
}{
	{"all, in short", head + `
volumes: ["/data:/data:ro", "scratch:/scratch"]
network: bridge
ports: [8080, "9090/udp"]
force_pull: true
shm_size: 128MiB
ipc: private
ulimits: {memlock: unlimited, nofile: 65536, stack: "8388608:16777216"}
labels: {team: vision, level: 3}
health_check: {http: /health}
check: {command: nvidia-smi}
`, job.Container{
		Volumes: []job.Volume{{Source: "/data", Target: "/data", ReadOnly: true}, {Source: "scratch", Target: "/scratch"}},
		Network: job.BridgeNetwork, Ports: []job.Port{{Container: 8080}, {Container: 9090, Protocol: job.UDP}}, ForcePull: true, ShmMiB: 128, IPC: job.PrivateIPC,
		Ulimits: []job.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}, {Name: "nofile", Soft: 65536, Hard: 65536}, {Name: "stack", Soft: 8388608, Hard: 16777216}},
		Labels:  map[string]string{"team": "vision", "level": "3"},
		HealthCheck: &job.HealthCheck{
			Check: job.Check{HTTP: &job.HTTPCheck{Path: "/health"}, Interval: job.DefaultCheckInterval, Timeout: job.DefaultCheckTimeout},
			Grace: job.DefaultHealthGrace, Failures: job.DefaultHealthFailures,
		},
		Check: &job.Check{Command: []string{"/bin/sh", "-c", "nvidia-smi"}, Interval: job.DefaultCheckInterval, Timeout: job.DefaultCheckTimeout},
	}},
	{"all, in long", head + `
volumes:
  - {source: /data, target: /in, read_only: true}
  - {source: models, target: /models, driver: nfs}
network: weave
ports:
  - {name: http, container: 8080, protocol: tcp}
  - {name: metrics}
health_check:
  http: {path: /health, port_index: 1, tls: true}
  delay: 1s
  interval: 2s
  timeout: 3s
  grace: 4s
  failures: never
check:
  tcp: {port_index: 0}
  delay: 5s
`, job.Container{
		Volumes: []job.Volume{{Source: "/data", Target: "/in", ReadOnly: true}, {Source: "models", Target: "/models", Driver: "nfs"}},
		Network: "weave", Ports: []job.Port{{Name: "http", Container: 8080, Protocol: job.TCP}, {Name: "metrics"}},
		HealthCheck: &job.HealthCheck{
			Check: job.Check{
				HTTP:  &job.HTTPCheck{CheckPort: job.CheckPort{Index: 1}, Path: "/health", TLS: true},
				Delay: time.Second, Interval: 2 * time.Second, Timeout: 3 * time.Second,
			},
			Grace: 4 * time.Second, Failures: job.Unlimited,
		},
		Check: &job.Check{TCP: &job.TCPCheck{}, Delay: 5 * time.Second, Interval: job.DefaultCheckInterval, Timeout: job.DefaultCheckTimeout},
	}},
	{"without an image", "name: a\ncommand: serve\nports: 1\nulimits: {core: 0}\nhealth_check: {tcp: 8080, failures: 1}\n", job.Container{
		Ports: make([]job.Port, 1), Ulimits: []job.Ulimit{{Name: "core"}},
		HealthCheck: &job.HealthCheck{
			Check: job.Check{TCP: &job.TCPCheck{CheckPort: job.CheckPort{Port: 8080}}, Interval: job.DefaultCheckInterval, Timeout: job.DefaultCheckTimeout},
			Grace: job.DefaultHealthGrace, Failures: 1,
		},
	}},
	{"a path by default", head + "ports: 1\nhealth_check: {http: {}}\n", job.Container{
		Ports: make([]job.Port, 1),
		HealthCheck: &job.HealthCheck{
			Check: job.Check{HTTP: &job.HTTPCheck{Path: "/"}, Interval: job.DefaultCheckInterval, Timeout: job.DefaultCheckTimeout},
			Grace: job.DefaultHealthGrace, Failures: job.DefaultHealthFailures,
		},
	}},
	{"host ports", head + "network: bridge\nports: [\"80:8080\", \"53:5353/udp\", {name: any}, {host: 9000}]\n", job.Container{
		Network: job.BridgeNetwork,
		Ports:   []job.Port{{Host: 80, Container: 8080}, {Host: 53, Container: 5353, Protocol: job.UDP}, {Name: "any"}, {Host: 9000}},
	}},
	{"several health checks", head + "health_check: [{tcp: 80}, {command: probe, failures: never}, {tcp: 81, grace: 1s}]\n", job.Container{
		HealthCheck: healthOf(job.Check{TCP: tcpOf(80)}, job.DefaultHealthGrace, job.DefaultHealthFailures),
		MoreHealthChecks: []job.HealthCheck{
			*healthOf(job.Check{Command: shellCommand("probe")}, job.DefaultHealthGrace, job.Unlimited),
			*healthOf(job.Check{TCP: tcpOf(81)}, time.Second, job.DefaultHealthFailures),
		},
	}},
	{"first port", head + "network: host\nports: 1\nhealth_check: {tcp: first}\n", job.Container{
		Network: job.HostNetwork, Ports: []job.Port{{}},
		HealthCheck: healthOf(job.Check{TCP: tcpOf(0)}, job.DefaultHealthGrace, job.DefaultHealthFailures),
	}},
	{"the image's entrypoint", head + "image_entrypoint: true\n", job.Container{ImageEntrypoint: true}},
	{"nothing", head, job.Container{}},
}

func tcpOf(port int) *job.TCPCheck { return &job.TCPCheck{CheckPort: job.CheckPort{Port: port}} }

func healthOf(c job.Check, grace time.Duration, failures int) *job.HealthCheck {
	c.Interval, c.Timeout = job.DefaultCheckInterval, job.DefaultCheckTimeout
	return &job.HealthCheck{Check: c, Grace: grace, Failures: failures}
}

// TestContainer checks what a file defines, and that the API's encoding preserves it.
func TestContainer(t *testing.T) {
	for _, c := range containers {
		t.Run(c.name, func(t *testing.T) {
			spec, err := Read(strings.NewReader(c.file), "f.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, spec.Container); diff != "" {
				t.Errorf("container (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			var again job.Spec
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			again.SetDefaults()
			if diff := cmp.Diff(*spec, again); diff != "" {
				t.Errorf("through JSON (-sent +got):\n%s", diff)
			}
		})
	}
}

// containerRefusals are lines after head, and the errors for them.
var containerRefusals = []struct{ name, lines, want string }{
	{"volume without a target", `volumes: ["/data"]`, `f.yaml:4:11: volumes: item 1: "/data" is not a volume: write SOURCE:TARGET or SOURCE:TARGET:ro`},
	{"volume option", `volumes: ["/d:/d:z"]`, `f.yaml:4:11: volumes: item 1: "/d:/d:z" has the option "z", which is neither ro nor rw`},
	{"one volume", `volumes: /data:/data`, `f.yaml:4:10: volumes: needs a list, for example ["/data:/data:ro"]`},
	{"unknown volume key", "volumes:\n  - source: /d\n    target: /d\n    readonly: true",
		`f.yaml:7:5: volumes: item 1: unknown key "readonly"; did you mean "read_only"?`},
	{"relative source", `volumes: ["./d:/d"]`, `f.yaml:4:11: volumes: "./d" is neither an absolute path of the agent nor a volume's name`},
	{"too many ports", `ports: 8080`, `f.yaml:4:8: ports: 8080 is not between 0 and 1000: write a container port as a list, for example [8080]`},
	{"negative ports", `ports: -1`, `f.yaml:4:8: ports: -1 is not between 0 and 1000`},
	{"no host port", `ports: [":8080"]`, `f.yaml:4:9: ports: item 1: ":8080" is not a port from 1 to 65535, such as 8080 or 9090/udp, nor HOST:PORT`},
	{"host port too large", `ports: ["65536:80"]`, `f.yaml:4:9: ports: item 1: "65536:80" is not a port from 1 to 65535`},
	{"host port number", "ports: [{host: 0}]", `f.yaml:4:16: ports: item 1: host: 0 is not between 1 and 65535`},
	{"host port twice", "network: bridge\nports: [\"80:8080\", {host: 80}]", `f.yaml:5:8: ports: host port 80 is given twice`},
	{"no health checks", `health_check: []`, `f.yaml:4:15: health_check: is an empty list: leave it out`},
	{"second health check", "health_check:\n  - tcp: 80\n  - interal: 1s", `f.yaml:6:5: health_check: item 2: unknown key "interal"; did you mean "interval"?`},
	{"second without a way", `health_check: [{tcp: 80}, {}]`, `f.yaml:4:27: health_check: item 2: has 0 of command, http and tcp: name one`},
	{"protocol", `ports: [80/sctp]`, `f.yaml:4:9: ports: item 1: "80/sctp": the protocol is neither tcp nor udp`},
	{"port of the host's network", `ports: [80]`, `f.yaml:4:8: ports: the container's own port 80 needs network: bridge`},
	{"port number", "network: bridge\nports: [{container: 65536}]", `f.yaml:5:21: ports: item 1: container: 65536 is not between 1 and 65535`},
	{"pull", `force_pull: always`, `f.yaml:4:13: force_pull: "always" is neither true nor false`},
	{"shm", `shm_size: big`, `f.yaml:4:11: shm_size: "big" is not a size such as 512MiB or 4GiB`},
	{"ipc", `ipc: shareable`, `f.yaml:4:6: ipc: "shareable" is neither private nor host`},
	{"ulimit", "ulimits:\n  memlock: lots", `f.yaml:5:12: ulimits: memlock: "lots" is not a limit: write a number, unlimited or SOFT:HARD`},
	{"ulimit's name", `ulimits: {mem: 1}`, `f.yaml:4:16: ulimits: "mem" is not one of core, cpu`},
	{"ulimit list", `ulimits: [memlock]`, `f.yaml:4:10: ulimits: needs NAME: value pairs`},
	{"label", `labels: {a: [b]}`, `f.yaml:4:13: labels: a is not a single value`},
	{"label twice", "labels:\n  a: 1\n  a: 2", `f.yaml:6:3: labels: a is given twice`},
	{"misspelt check", "health_check:\n  http: /\n  interal: 1s", `f.yaml:6:3: health_check: unknown key "interal"; did you mean "interval"?`},
	{"check in one word", `health_check: /health`, `f.yaml:4:15: health_check: needs keys: command, delay, failures, grace, http, interval, tcp, timeout`},
	{"check with grace", `check: {command: x, grace: 1s}`, `f.yaml:4:21: check: unknown key "grace"; the keys are command, delay, http, interval, tcp, timeout`},
	{"no way", `health_check: {delay: 1s}`, `f.yaml:4:15: health_check: has 0 of command, http and tcp: name one`},
	{"two ways", `health_check: {http: {port: 80}, tcp: 80}`, `f.yaml:4:15: health_check: has 2 of command, http and tcp: name one`},
	{"two ports", `health_check: {http: {port: 80, port_index: 0}}`, `f.yaml:4:45: health_check: http: port_index: excludes port: write one of them`},
	{"no such index", `health_check: {http: /}`, `f.yaml:4:22: health_check: http: port_index 0, and the job has 0 ports: name a port, or ask for more`},
	{"negative index", `health_check: {tcp: {port_index: -1}}`, `f.yaml:4:34: health_check: tcp: port_index: -1 is not between 0 and 99`},
	{"tcp in words", `health_check: {tcp: here}`, `f.yaml:4:21: health_check: tcp: "here" is not a whole number`},
	{"no failures", `health_check: {tcp: 80, failures: 0}`, `f.yaml:4:35: health_check: failures: "0" is neither a whole number above 0 nor never`},
	{"no interval", `health_check: {tcp: 80, interval: 0s}`, `f.yaml:4:35: health_check: interval: 0s is not above 0: leave it out for the default`},
	{"grace", `health_check: {tcp: 80, grace: 5}`, `f.yaml:4:32: health_check: grace: "5" is not a duration: write 5s for seconds, or 5m for minutes`},
	{"alias", "labels: &l {a: b}\nhealth_check: {http: *l}", `f.yaml:5:22: health_check: http: job files take no YAML aliases`},
	{"alias in a list", "ipc: &l private\nports: [*l]", `f.yaml:5:9: ports: item 1: job files take no YAML aliases`},
}

func TestContainerKeysReject(t *testing.T) {
	for _, c := range containerRefusals {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(head+c.lines), "f.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant …%s…", err, c.want)
			}
		})
	}
}

// TestReadReportsEveryMistakeInsideAKey, each with its own line.
func TestReadReportsEveryMistakeInsideAKey(t *testing.T) {
	_, err := Read(strings.NewReader(head+"health_check:\n  tcp: x\n  delay: y\nvolumes:\n  - z\n  - /a\n"), "f.yaml")
	for _, want := range []string{
		"f.yaml:5:8: health_check: tcp", "f.yaml:6:10: health_check: delay", "f.yaml:8:5: volumes: item 1",
		"f.yaml:9:5: volumes: item 2",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want also %s", err, want)
		}
	}
}
