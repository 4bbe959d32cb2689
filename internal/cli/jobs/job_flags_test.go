package jobs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// specOf returns the job of "mesos-gpu run --image i --name a" with these flags.
func specOf(line ...string) (*job.Spec, error) {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags := addJobFlags(f)
	if err := f.Parse(append([]string{"--name", "a", "--image", "i", "--mem", "1GiB"}, line...)); err != nil {
		return nil, err
	}
	return flags.JobSpec(nil, nil)
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
			"--health-http", "/health", "--health-interval", "2s", "--health-timeout", "3s", "--health-start-period", "4s",
			"--health-retries", "5", "--health-delay", "1s",
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
		{"what it is given", []string{"--disk", "10GiB", "--secret", "DB_PASSWORD=db/password", "--secret", "TOKEN=hf"},
			"disk: 10GiB\nsecrets: {DB_PASSWORD: db/password, TOKEN: hf}"},
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
		{"-v /data", `--volume: "/data" is not a volume: write SOURCE:TARGET`},
		{"-p 80:8080", `the container's own port 8080 needs network: bridge`},
		{"-p 8080", `the container's own port 8080 needs network: bridge`},
		{"--ports 1 -p 8080", `--publish: --ports counts ports without a container port`},
		{"-p 80x", `--publish: "80x" is not a port`},
		{"--publish 99999", `--publish: `},
		{"--disk big", `--disk: "big" is not a size`},
		{"--secret TOKEN", `--secret: "TOKEN": write NAME=value: the value is the secret's name`},
		{"--secret TOKEN=../other", `"../other" is not a secret's name`},
		{"--ports -1", `--ports: -1 is not between 0 and 100`},
		{"--ports 1000000000", `--ports: 1000000000 is not between 0 and 100`},
		{"--network none --ports 1", `ports: 1, and network: none reaches none of them`},
		{"--ulimit memlock", `--ulimit: "memlock": write NAME=LIMIT`},
		{"--ulimit memlock=x", `--ulimit: memlock: "x" is not a limit`},
		{"--shm-size big", `--shm-size: "big" is not a size`},
		{"--ipc shareable", `ipc: "shareable" is neither private nor host`},
		{"--label team", `--label: "team": write NAME=value`},
		{"--pull never", `--pull: "never" is neither always nor missing`},
		{"--restart on-failure:3", `--restart: "on-failure:3" is neither always nor no: --retries sets how often`},
		{"--restart always --retries 1", `retries: the job is a service`},
		{"-u a\x7f", `user: "a\x7f" holds a blank`},
		{"--entrypoint /bin/tini --label a", `--label: "a": write NAME=value`},
		{"--health-retries 2", `a health check is one of --health-cmd, --health-http and --health-tcp: 0 are given`},
		{"--health-cmd x --health-tcp 1", `--health-tcp: 2 are given`},
		{"--health-http x/y", `--health-http: "x" is not a port from 1 to 65535`},
		{"--health-tcp 1:2", `--health-tcp: "1:2" is not a port from 1 to 65535`},
		{"--health-tcp 1/udp", `--health-tcp: "1/udp" is not a port from 1 to 65535`},
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
