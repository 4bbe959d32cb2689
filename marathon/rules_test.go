package marathon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// errorDetails returns the mistakes by path.
func errorDetails(t *testing.T, err error) map[string]string {
	t.Helper()
	if err == nil {
		return nil
	}
	var i *ValidationError
	if !errors.As(err, &i) {
		t.Fatalf("got %v, want *Invalid", err)
	}
	all := map[string]string{}
	for _, d := range i.Details {
		all[d.Path] = strings.Join(d.Errors, "\n")
	}
	return all
}

// Each rule, with a definition that breaks only this rule. The error has one path and one message.
func TestEachRuleIsEnforced(t *testing.T) {
	const run = `"id": "a", "cmd": "b"`
	const image = `"id": "a", "container": {"docker": {"image": "x"}`
	for _, test := range []struct{ app, path, text string }{
		{`"id": "a"`, "/", "nothing to run"},
		{`"id": "a", "container": {"type": "MESOS"}`, "/", "nothing to run"},
		{run + `, "args": ["c"]`, "/", "exclude each other"},
		{`"id": "a", "cmd": ""`, "/cmd", "empty"},
		{run + `, "container": {"type": "DOCKER"}`, "/container/docker", "needs an image"},
		{`"cmd": "b"`, "/id", "needed"},
		{`"id": "/", "cmd": "b"`, "/id", "names no app"},
		{`"id": "/a/tasks", "cmd": "b"`, "/id", "does not end with"},
		{`"id": "/a_b", "cmd": "b"`, "/id", "lower-case"},
		{`"id": "/a-", "cmd": "b"`, "/id", "lower-case"},
		{run + `, "dependencies": ["/x", "/Y"]`, "/dependencies(1)", "lower-case"},
		{run + `, "cpus": 0`, "/cpus", "0 is less than 0.001"},
		{run + `, "gpus": 1.5`, "/gpus", "whole number"},
		{run + `, "instances": 2147483648`, "/instances", "32 bits"},
		{run + `, "backoffFactor": 0.9`, "/backoffFactor", "0.9 is less than 1"},
		{run + `, "upgradeStrategy": {"maximumOverCapacity": 1.5, "minimumHealthCapacity": 1}`, "/upgradeStrategy/maximumOverCapacity", "1.5 is more than 1"},
		{run + `, "upgradeStrategy": {"maximumOverCapacity": 1}`, "/upgradeStrategy/minimumHealthCapacity", "needed"},
		{run + `, "unreachableStrategy": {"inactiveAfterSeconds": 1}`, "/unreachableStrategy/inactiveAfterSeconds", "1 is more than the expungeAfterSeconds of 0"},
		{run + `, "resourceLimits": {"mem": 1}`, "/resourceLimits/mem", "limit of 1 is below the request of 128"},
		{run + `, "role": "r"`, "/role", `"r" is not one of the roles`},
		{run + `, "acceptedResourceRoles": ["x"]`, "/acceptedResourceRoles", "neither * nor"},
		{run + `, "acceptedResourceRoles": []`, "/acceptedResourceRoles", "empty"},
		{run + `, "labels": {"MARATHON_SINGLE_INSTANCE_APP": "true"}, "upgradeStrategy": {"maximumOverCapacity": 0, "minimumHealthCapacity": 1}`,
			"/upgradeStrategy/minimumHealthCapacity", "0 with the label"},
		{run + `, "env": {"": "x"}`, "/env/", "variable's name"},
		{run + `, "env": {"A": {"secret": "s"}}`, "/env/A/secret", `no entry "s"`},
		{run + `, "env": {"A.b": {"secret": "s"}}, "secrets": {"s": {"source": "s"}}`, "/env/A.b", "letters, digits and underscores"},
		{run + `, "secrets": {"s": {"source": "../s"}}`, "/secrets/s/source", "not a secret's name"},
		{image + `, "volumes": [{"containerPath": "/a", "secret": "s"}]}`, "/container/volumes(0)/secret", `no entry "s"`},
		{run + `, "env": {"A": {"secret": ""}}`, "/env/A/secret", "empty"},
		{run + `, "networks": [{"mode": "host"}, {"mode": "host"}]`, "/networks", "host's network, or"},
		{run + `, "networks": [{"name": "n"}, {"name": "n"}]`, "/networks", "twice"},
		{run + `, "networks": [{"mode": "container"}]`, "/networks", "needs a name"},
		{run + `, "networks": [{"mode": "host", "name": "n"}]`, "/networks", "no name"},
		{image + `}, "networks": [{"name": "n"}, {"name": "m"}]`, "/", "one container network, not 2"},
		{image + `, "portMappings": [{"name": "p"}, {"name": "p"}]}, "networks": [{"mode": "container/bridge"}]`, "/container/portMappings", `the name "p"`},
		{image + `, "portMappings": [{"networkNames": ["m"]}]}, "networks": [{"name": "n"}]`,
			"/container/portMappings(0)/networkNames(0)", "not one of the app's networks"},
		{run + `, "portDefinitions": [{"port": 1}, {"port": 1}]`, "/portDefinitions", "port 1 is given twice"},
		{run + `, "portDefinitions": [{"name": "Web"}]`, "/portDefinitions(0)/name", "does not match"},
		{run + `, "healthChecks": [{"portIndex": 1}]`, "/healthChecks(0)", "beyond"},
		{run + `, "portDefinitions": [], "healthChecks": [{}]`, "/healthChecks(0)", "0 ports"},
		{run + `, "healthChecks": [{"protocol": "COMMAND"}]`, "/healthChecks(0)", "needs a command"},
		{run + `, "healthChecks": [{"command": {"value": "true"}}]`, "/healthChecks(0)", "goes with protocol COMMAND"},
		{run + `, "readinessChecks": [{}]`, "/readinessChecks(0)/portName", "there are default"},
		{run + `, "readinessChecks": [{"portName": "default", "timeoutSeconds": 30}]`, "/readinessChecks(0)/timeoutSeconds", "30 is not less"},
		{run + `, "readinessChecks": [{"portName": "default"}, {"portName": "default"}]`, "/readinessChecks", "at most one, not 2"},
		{run + `, "check": {}`, "/check", "not 0"},
		{run + `, "check": {"tcp": {}, "exec": {"command": {"shell": "true"}}}`, "/check", "not 2"},
		{run + `, "check": {"exec": {"command": {"shell": "true", "argv": ["true"]}}}`, "/check/exec/command", "either shell or argv"},
		{run + `, "check": {"exec": {}}`, "/check/exec/command", "needed"},
		{run + `, "check": {"http": {"portIndex": 1}}`, "/check/http", "beyond"},
		{run + `, "portDefinitions": [], "check": {"tcp": {}}`, "/check/tcp", "0 ports"},
		{run + `, "check": {"http": {"scheme": "HTTPS"}}`, "/check/http/scheme", "plain HTTP"},
		{run + `, "constraints": [["rack", "NEAR"]]`, "/constraints(0)", "the operators are"},
		{image + `, "volumes": [{"containerPath": "/a", "mode": "RO"}]}`, "/container/volumes(0)", "one of hostPath"},
		{image + `, "volumes": [{"containerPath": "/a", "hostPath": "/b"}]}`, "/container/volumes(0)/mode", "needed"},
		{`"id": "a", "container": {"docker": {"image": "x", "parameters": [{"key": "gpus", "value": "all"}]}}`, "/container/docker/parameters(0)/key", `"gpus"`},
		{`"id": "a", "container": {"docker": {"image": "x", "parameters": [{"key": "cap-add", "value": "SYS_ADMIN"}]}}`,
			"/container/docker/parameters(0)/value", "may open every GPU"},
		{`"id": "a", "container": {"type": "MESOS", "docker": {"image": "x", "parameters": [{"key": "user", "value": "me"}]}}`,
			"/container/docker/parameters", "DOCKER containers alone"},
		{`"id": "a", "container": {"docker": {"image": "x", "privileged": true}}`, "/container/docker/privileged", "every GPU"},
		{run + `, "uris": ["/x"], "fetch": [{"uri": "/y"}]`, "/uris", "equivalent"},
		{run + `, "ports": [1, 1]`, "/", "twice in ports"},
		{run + `, "ports": [1], "portDefinitions": [{"port": 2}]`, "/", "contradict each other"},
		{image + `}, "ipAddress": {"networkName": "n"}, "networks": [{"name": "n"}]`, "/", "remove ipAddress"},
		{run + `, "gpu": 1`, "/gpu", "did you mean gpus?"},
		{run + `, "hostPath": "/x"`, "/hostPath", "did you mean container.volumes[].hostPath?"},
		{run + `, "tasks": 3, "tty": true`, "/tty", "no terminal"},
	} {
		t.Run(test.path+" "+test.text, func(t *testing.T) { requireSingleError(t, test.app, test.path, test.text) })
	}
}

// Without strictness an unknown field is dropped, and so are port definitions that have no form outside the host's
// network. The caller learns of both, unless the definition is invalid.
func TestDroppedPartsAreWarnings(t *testing.T) {
	const overlay = `"id": "a", "container": {"docker": {"image": "x"}}, "networks": [{"name": "n"}]`
	for _, test := range []struct {
		app  string
		want []Warning
	}{
		{`"id": "a", "cmd": "b"`, nil},
		{`"id": "a", "cmd": "b", "gpu": 1, "container": {"docker": {"image": "x", "maintainer": "me"}}`, []Warning{
			{"/container/docker/maintainer", "there is no such field"}, {"/gpu", "there is no such field; did you mean gpus?"}}},
		{overlay + `, "portDefinitions": [{"port": 80}]`, nil},
		{overlay + `, "portDefinitions": [{"port": 0, "name": "web", "labels": {"VIP_0": "/web:80"}}]`, []Warning{
			{"/portDefinitions(0)", "it is for the host's network: write its name, labels and port in container.portMappings"}}},
	} {
		var got []Warning
		s := testSettings()
		s.Strict, s.Warn = false, func(w Warning) { got = append(got, w) }
		app, err := ParseApp([]byte("{"+test.app+"}"), s)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q and %v, want %q", test.app, got, err, test.want)
			continue
		}
		if text := string(encodeJSON(t, app)); strings.Contains(text, "maintainer") || strings.Contains(text, "VIP_0") {
			t.Errorf("%s: what has no effect is stored: %s", test.app, text)
		}
		got = nil
		if g, err := ParseGroup([]byte(`{"apps": [{`+test.app+`}]}`), "/g", s); err != nil || len(got) != len(test.want) || len(g.Apps) != 1 {
			t.Errorf("%s in a group: got %q and %v", test.app, got, err)
		}
	}
	s := testSettings()
	s.Strict, s.Warn = false, func(w Warning) { t.Errorf("an invalid definition: warning %v", w) }
	if _, err := ParseApp([]byte(`{"id": "a", "gpu": 1}`), s); err == nil {
		t.Error("a definition with nothing to run is accepted")
	}
}

// An empty list of port mappings, as Marathon 1.4 answers in the host's network, is the same as none.
func TestEmptyPortMappingsOfHostNetwork(t *testing.T) {
	app, err := ParseApp([]byte(`{"id": "/x", "container": {"type": "DOCKER", "docker": {"image": "a", "network": "HOST", "portMappings": []}},
		"portDefinitions": [{"port": 10000, "name": "api"}], "healthChecks": [{"protocol": "HTTP", "portIndex": 0}],
		"readinessChecks": [{"portName": "api"}]}`), testSettings())
	if err != nil || len(app.PortDefinitions) != 1 || app.Container.PortMappings != nil {
		t.Errorf("got %v, %+v", err, app)
	}
}

// The same for features that Marathon has and a job does not.
func TestJobRules(t *testing.T) {
	const run = `"id": "a", "cmd": "b"`
	const image = `"id": "a", "container": {"docker": {"image": "x"}`
	const mesos = `"id": "a", "cmd": "b", "container": {"type": "MESOS", "docker": {"image": "x"}`
	const external = `"mode": "RW", "external": {"provider": "dvdi", "name": `
	large := func(n int) string { return strings.Repeat("x", n) }
	for _, test := range []struct{ app, path, text string }{
		{`"cmd": "b", "id": "` + large(256) + `"`, "/id", "257 characters, more than 255"},
		{run + `, "instances": 10001`, "/instances", "10001 is more than 10000"},
		{run + `, "mem": 0`, "/mem", "0 MiB run nothing"},
		{`"id": "a", "args": ["", "b"]`, "/args(0)", "empty"},
		{run + `, "constraints": [` + `["a", "CLUSTER"], ["b", "CLUSTER"]` + manyConstraints(47) + `]`, "/constraints", "49 are more than 48"},
		{run + `, "env": {"A=B": "x"}`, "/env/A=B", "holds an equals sign"},
		{run + `, "env": {"A": "\u0000"}`, "/env/A", "NUL"},
		{run + `, "user": "a b"`, "/user", "does not match"},
		{run + `, "labels": {"": "x"}`, "/labels/", "is empty"},
		{run + `, "labels": {"mesos-gpu.job": "x"}`, "/labels/mesos-gpu.job", "the scheduler sets"},
		{run + `, "labels": {"marathon.version": "x"}`, "/labels/marathon.version", "the scheduler sets"},
		{`"id": "a", "cmd": "` + large(121<<10) + `"`, "/cmd", "put it into a file"},
		{`"id": "a", "args": ["` + large(100<<10) + `", "` + large(100<<10) + `", "` + large(100<<10) + `"]`, "/", "put what is large into files"},
		{run + `, "fetch": [{"uri": "docker.tar.gz"}]`, "/fetch(0)/uri", "neither an absolute path"},
		{run + `, "fetch": [{"uri": "gopher://a"}]`, "/fetch(0)/uri", "nor a URI of http"},
		{run + `, "fetch": [{"uri": "/a", "destPath": "/b"}]`, "/fetch(0)/destPath", "leaves the sandbox"},
		{`"id": "a", "cmd": "b", "container": {"type": "MESOS", "volumes": [{"containerPath": "/b", "secret": "s"}]}, "secrets": {"s": {"source": "s"}}`,
			"/container/volumes", "gets secrets in its sandbox only"},
		{image + `, "volumes": [{"containerPath": "/b", "secret": "s"}, {"containerPath": "/b", "hostPath": "/b", "mode": "RO"}]}, "secrets": {"s": {"source": "s"}}`,
			"/container/volumes(1)/containerPath", "two volumes are at /b"},
		{image + `, "volumes": [{"containerPath": "/` + large(1024) + `", "secret": "s"}]}, "secrets": {"s": {"source": "s"}}`,
			"/container/volumes(0)/containerPath", "too long"},
		{mesos + `}, "networks": [{"name": "n"}, {"name": "m"}]`, "/networks", "joins one container network, not 2"},
		{run + `, "networks": [{"name": "n", "labels": {"": "x"}}]`, "/networks(0)/labels", "name is empty"},
		{run + `, "networks": [{"name": "n", "labels": {"a": "\u0000"}}]`, "/networks(0)/labels/a", "NUL"},
		{run + `, "ipAddress": {"networkName": "a:b"}`, "/networks(0)/name", "is not a network's name"},
		{image + `}, "networks": [{"name": "none"}]`, "/networks(0)/name", "another mode"},
		{image + `, "portMappings": [{"hostPort": 80}, {"hostPort": 80, "protocol": "udp"}]}, "networks": [{"name": "n"}]`,
			"/container/portMappings(1)/hostPort", "80 is given twice"},
		{image + `, "portMappings": [{"protocol": "udp,tcp"}]}, "networks": [{"name": "n"}]`, "/container/portMappings(0)/protocol", "two ports"},
		{image + `, "portMappings": [{"hostPort": 0}, {}]}, "networks": [{"name": "n"}]`, "/container/portMappings", "all of them, or none"},
		{run + `, "healthChecks": [{}` + strings.Repeat(`, {"port": 1}`, 20) + `]`, "/healthChecks", "21 are more than 20"},
		{run + `, "healthChecks": [{"path": "/a b"}]`, "/healthChecks(0)/path", "blank"},
		{run + `, "healthChecks": [{"port": 0}]`, "/healthChecks(0)/port", "0 is less than 1"},
		{run + `, "check": {"http": {"path": "/a b"}}`, "/check/http/path", "blank"},
		{run + `, "check": {"exec": {"command": {"argv": [""]}}}`, "/check/exec/command/argv(0)", "empty"},
		{`"id": "a", "cmd": "b", "container": {"type": "MESOS", "volumes": [{"containerPath": "/a", "hostPath": "/b", "mode": "RW"}]}`,
			"/container/volumes", "without container.docker.image"},
		{mesos + `, "docker": {"image": "x", "pullConfig": {"secret": "s"}}}, "secrets": {"s": {"source": "s"}}`,
			"/container/docker/pullConfig", "use DOCKER, or --docker_config"},
		{image + `, "docker": {"image": "x", "pullConfig": {"secret": "s"}}}, "secrets": {"t": {"source": "s"}}`,
			"/container/docker/pullConfig/secret", "secrets has no entry \"s\""},
		{image + `, "volumes": [{"containerPath": "/a", "hostPath": "b", "mode": "RW"}]}`, "/container/volumes(0)/hostPath", "absolute path"},
		{image + `, "volumes": [{"containerPath": "/a:b", "hostPath": "/b", "mode": "RW"}]}`, "/container/volumes(0)/containerPath", "colon"},
		{image + `, "volumes": [{"containerPath": "/dev/", "hostPath": "/b", "mode": "RW"}]}`, "/container/volumes(0)/containerPath", "has already"},
		{image + `, "volumes": [{"containerPath": "../a", "hostPath": "/b", "mode": "RW"}]}`, "/container/volumes(0)/containerPath", "leaves the sandbox"},
		{mesos + `, "volumes": [{"containerPath": "a", "hostPath": "/b", "mode": "RW"}]}`, "/container/volumes(0)/containerPath", "write /a"},
		{image + `, "volumes": [{"containerPath": "/a", "hostPath": "/b", "mode": "RW"}, {"containerPath": "/a/", "hostPath": "/c", "mode": "RW"}]}`,
			"/container/volumes(1)/containerPath", "two volumes"},
		{mesos + `, "volumes": [{"containerPath": "/a", ` + external +
			`"n", "options": {"dvdi/driver": "d"}}}]}, "upgradeStrategy": {"minimumHealthCapacity": 0, "maximumOverCapacity": 0}`,
			"/container/volumes(0)/external", "use DOCKER"},
		{image + `, "volumes": [{"containerPath": "/a", ` + external + `"n,size=1", "options": {"dvdi/driver": "d"}}}]}`,
			"/container/volumes(0)/external/name", "not a volume's name"},
		{image + `, "volumes": [{"containerPath": "/a", ` + external +
			`"n", "options": {"dvdi/driver": "d"}}}, {"containerPath": "/b", ` + external +
			`"m", "options": {"dvdi/driver": "e"}}}]}`, "/container/volumes(1)/external/options", "drivers d and e"},
		{image + `, "linuxInfo": {"ipcInfo": {"mode": "PRIVATE", "shmSize": 129}}}`, "/container/linuxInfo/ipcInfo/shmSize", "more than the mem of 128"},
		{`"id": "a", "cmd": "b", "container": {"type": "MESOS", "linuxInfo": {"ipcInfo": {"mode": "PRIVATE", "shmSize": 1}}}`,
			"/container/linuxInfo/ipcInfo/shmSize", "without container.docker.image"},
		{mesos + `, "linuxInfo": {"ipcInfo": {"mode": "PRIVATE", "shmSize": 4096}}}, "mem": 8192`, "/container/linuxInfo/ipcInfo/shmSize", "32 bits"},
	} {
		t.Run(test.path+" "+test.text, func(t *testing.T) { requireSingleError(t, test.app, test.path, test.text) })
	}
}

// manyConstraints returns n different constraints, to be added to others.
func manyConstraints(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `, ["a", "UNLIKE", "%d"]`, i)
	}
	return b.String()
}

func requireSingleError(t *testing.T, app, path, text string) {
	t.Helper()
	_, err := ParseApp([]byte("{"+app+"}"), testSettings())
	got := errorDetails(t, err)
	if len(got) == 0 || !strings.Contains(got[path], text) {
		t.Fatalf("%.500s\ngot %q, want %q at %s", app, got, text, path)
	}
	for other := range got {
		if other != path {
			t.Errorf("%.500s\nsays besides at %s: %s", app, other, got[other])
		}
	}
}

// Text that is not JSON causes another error than an invalid app.
func TestMalformedJSONIsRejected(t *testing.T) {
	for _, text := range []string{"", "{", `{"id": "a"} {}`, "{]", `{"id": "a"}x`} {
		_, err := ParseApp([]byte(text), testSettings())
		if m := (*SyntaxError)(nil); !errors.As(err, &m) {
			t.Errorf("%q: got %v, want *Malformed", text, err)
		}
	}
}

// An invalid element does not change the indexes of the others.
func TestErrorPathsMatchSource(t *testing.T) {
	_, err := ParseApp([]byte(`{"id": "a", "cmd": "b", "constraints": [7, ["rack", "UNIQUE"], ["rack", "UNIQUE"], ["rack", "NEAR"]], "dependencies": [1, "/B"]}`),
		testSettings())
	got := errorDetails(t, err)
	want := []string{"/constraints(0)", "/constraints(3)", "/dependencies(0)", "/dependencies(1)"}
	if paths := sortedKeys(got); !slices.Equal(paths, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
