package marathon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Definitions in the styles of tools and packages that write them, and what becomes of each: the ports, the paths of
// the warnings, or the path of the mistake. They were written for this test.
func TestDefinitionsOfForeignTools(t *testing.T) {
	const ok = ""
	for _, test := range []struct {
		name, app string
		warnings  []string
		// mistake is "PATH: TEXT", or ok.
		mistake string
	}{
		{"a command with the default port", `{"id": "/hello", "cmd": "python3 -m http.server $PORT0", "cpus": 0.1, "mem": 32, "instances": 1}`, nil, ok},
		{"a web service behind a load balancer", `{"id": "/web", "container": {"type": "DOCKER", "docker": {"image": "web:1", "network": "BRIDGE", "portMappings": [
			{"containerPort": 80, "hostPort": 0, "servicePort": 10080, "protocol": "tcp"}], "forcePullImage": true}},
			"labels": {"HAPROXY_GROUP": "external", "HAPROXY_0_VHOST": "web.example"}, "healthChecks": [{"protocol": "HTTP", "portIndex": 0, "path": "/health"}]}`,
			nil, ok},
		{"as Marathon 1.4 answers for the host's network",
			`{"id": "/x", "container": {"type": "DOCKER", "volumes": [], "docker": {"image": "a", "network": "HOST", "portMappings": [], "privileged": false, "parameters": []}},
			"portDefinitions": [{"port": 10000, "protocol": "tcp", "name": "api", "labels": {}}], "healthChecks": [{"protocol": "HTTP", "portIndex": 0}], "readinessChecks": [{"portName": "api"}], "ipAddress": null, "residency": null}`,
			nil, ok},
		{"a package with its maintainer",
			`{"id": "/db", "cmd": "run", "maintainer": "me@example.org", "container": {"type": "DOCKER", "docker": {"image": "db:3"}, "comment": "x"}}`,
			[]string{"/container/comment", "/maintainer"}, ok},
		{"definitions of ports in an overlay network",
			`{"id": "/api", "container": {"type": "DOCKER", "docker": {"image": "a", "network": "USER"}}, "ipAddress": {"networkName": "dcos"}}`,
			nil, ok},
		{"named addresses for ports in an overlay network",
			`{"id": "/api", "container": {"type": "DOCKER", "docker": {"image": "a"}}, "networks": [{"mode": "container", "name": "dcos"}],
			"portDefinitions": [{"name": "web", "port": 0, "labels": {"VIP_0": "/api:80"}}]}`, []string{"/portDefinitions(0)"}, ok},
		{"a load balancer with many ports", `{"id": "/lb", "cmd": "lb", "requirePorts": true, "ports": [80, 443, ` + numbers(10000, 10103) + `]}`, nil, ok},
		{"more ports than a task has", `{"id": "/lb", "cmd": "lb", "ports": [` + numbers(10000, 11001) + `]}`, nil, "/portDefinitions: 1001 are more than 1000"},
		{"old forms of fetched files", `{"id": "/jar", "cmd": "java -jar app.jar", "uris": ["https://repo.example/app.jar"], "user": "app"}`, nil, ok},
		{"a queue with an external volume",
			`{"id": "/queue", "instances": 1, "container": {"type": "DOCKER", "docker": {"image": "q:1"}, "volumes": [{"containerPath": "/var/lib/q", "mode": "RW",
			"external": {"name": "q-data", "provider": "dvdi", "options": {"dvdi/driver": "rexray"}}}]}, "upgradeStrategy": {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}}`,
			nil, ok},
		{"a secret as a variable", `{"id": "/s", "cmd": "run", "env": {"TOKEN": {"secret": "token"}}, "secrets": {"token": {"source": "/team/token"}}}`, nil, ok},
		{"a secret as a file",
			`{"id": "/s", "container": {"docker": {"image": "a"}, "volumes": [{"containerPath": "/run/key", "secret": "key"}]}, "secrets": {"key": {"source": "key"}}}`,
			nil, ok},
		{"a secret as a file in the sandbox",
			`{"id": "/s", "cmd": "cat path", "container": {"type": "MESOS", "volumes": [{"containerPath": "path", "secret": "key"}]}, "secrets": {"key": {"source": "key"}}}`,
			nil, ok},
		{"a monitoring agent that mounts the agent's files",
			`{"id": "/mon", "constraints": [["hostname", "UNIQUE"]], "container": {"docker": {"image": "mon:1"}, "volumes": [
			{"containerPath": "/rootfs", "hostPath": "/", "mode": "RO"}, {"containerPath": "/var/run/docker.sock", "hostPath": "/var/run/docker.sock", "mode": "RW"}, {"containerPath": "/dev/disk", "hostPath": "/dev/disk", "mode": "RO"}]}}`,
			nil, ok},
		{"a monitoring agent in place of the container's own /sys",
			`{"id": "/mon", "container": {"docker": {"image": "mon:1"}, "volumes": [{"containerPath": "/sys", "hostPath": "/sys", "mode": "RO"}]}}`,
			nil, "/container/volumes(0)/containerPath: has already"},
		{"a privileged container", `{"id": "/p", "container": {"docker": {"image": "a", "privileged": true}}}`, nil, "/container/docker/privileged: every GPU"},
		{"a service of Mesos's own containerizer",
			`{"id": "/gpu", "cmd": "train", "gpus": 1, "container": {"type": "MESOS", "docker": {"image": "cuda:12"}}, "networks": [{"mode": "host"}], "healthChecks": [{"protocol": "MESOS_HTTP", "portIndex": 0, "delaySeconds": 5}]}`,
			nil, ok},
		{"a persistent volume",
			`{"id": "/pv", "cmd": "x", "container": {"type": "MESOS", "docker": {"image": "a"}, "volumes": [{"containerPath": "data", "mode": "RW", "persistent": {"size": 100}}]}}`,
			nil, "/container/volumes(0)/persistent: no disk is reserved"},
		{"port mappings in the host's network",
			`{"id": "/site", "container": {"docker": {"image": "site", "network": "HOST", "portMappings": [{"containerPort": 80, "hostPort": 80}]}}, "healthChecks": [{"protocol": "HTTP", "portIndex": 0}]}`,
			[]string{"/container/portMappings"}, ok},
		{"port mappings without a network",
			`{"id": "/site", "container": {"type": "MESOS", "docker": {"image": "site"}, "portMappings": [{"containerPort": 80, "name": "web"}]}, "portDefinitions": [{"port": 0, "name": "http"}], "readinessChecks": [{"portName": "http"}]}`,
			[]string{"/container/portMappings"}, ok},
		{"both forms of ports, which agree", `{"id": "/a", "cmd": "x", "ports": [0], "portDefinitions": [{"port": 0, "protocol": "tcp", "name": "http"}]}`, nil, ok},
	} {
		t.Run(test.name, func(t *testing.T) {
			var warnings []string
			s := testSettings()
			s.Strict, s.Warn = false, func(w Warning) { warnings = append(warnings, w.Path) }
			_, err := ParseApp([]byte(test.app), s)
			if path, text, _ := strings.Cut(test.mistake, ": "); test.mistake != ok {
				if got := errorDetails(t, err); !strings.Contains(got[path], text) {
					t.Errorf("got %v, want a mistake at %s", got, test.mistake)
				}
				return
			}
			if err != nil || !slices.Equal(warnings, test.warnings) {
				t.Errorf("got %v, warnings at %v, want those at %v", err, warnings, test.warnings)
			}
		})
	}
}

// numbers returns the numbers from first up to but not including end.
func numbers(first, end int) string {
	var all []string
	for n := first; n < end; n++ {
		all = append(all, fmt.Sprint(n))
	}
	return strings.Join(all, ", ")
}
