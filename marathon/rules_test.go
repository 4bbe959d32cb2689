package marathon

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// details are what is wrong at each place.
func details(t *testing.T, err error) map[string]string {
	t.Helper()
	if err == nil {
		return nil
	}
	var i *Invalid
	if !errors.As(err, &i) {
		t.Fatalf("got %v, want *Invalid", err)
	}
	all := map[string]string{}
	for _, d := range i.Details {
		all[d.Path] = strings.Join(d.Errors, "\n")
	}
	return all
}

// Each rule by one definition that breaks it alone: where it is said, and
// with which words. Nothing else is said.
func TestRules(t *testing.T) {
	const run = `"id": "a", "cmd": "b"`
	const image = `"id": "a", "container": {"docker": {"image": "x"}`
	for _, test := range []struct{ app, path, text string }{
		{`"id": "a"`, "/", "nothing to run"},
		{`"id": "a", "container": {"type": "MESOS"}`, "/", "nothing to run"},
		{run + `, "args": ["c"]`, "/", "side by side"},
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
		{run + `, "role": "r"`, "/role", `"r" is none of the roles`},
		{run + `, "acceptedResourceRoles": ["x"]`, "/acceptedResourceRoles", "neither * nor"},
		{run + `, "acceptedResourceRoles": []`, "/acceptedResourceRoles", "empty"},
		{run + `, "labels": {"MARATHON_SINGLE_INSTANCE_APP": "true"}, "upgradeStrategy": {"maximumOverCapacity": 0, "minimumHealthCapacity": 1}`, "/upgradeStrategy/minimumHealthCapacity", "0 with the label"},
		{run + `, "env": {"": "x"}`, "/env/", "variable's name"},
		{run + `, "env": {"A": {"secret": "s"}}`, "/env/A/secret", "no secret store"},
		{run + `, "env": {"A": {"secret": ""}}`, "/env/A/secret", "empty"},
		{run + `, "networks": [{"mode": "host"}, {"mode": "host"}]`, "/networks", "host's network, or"},
		{run + `, "networks": [{"name": "n"}, {"name": "n"}]`, "/networks", "twice"},
		{run + `, "networks": [{"mode": "container"}]`, "/networks", "needs a name"},
		{run + `, "networks": [{"mode": "host", "name": "n"}]`, "/networks", "no name"},
		{image + `}, "networks": [{"name": "n"}, {"name": "m"}]`, "/", "one container network, not 2"},
		{image + `, "portMappings": [{"name": "p"}, {"name": "p"}]}, "networks": [{"mode": "container/bridge"}]`, "/container/portMappings", `the name "p"`},
		{image + `, "portMappings": [{"networkNames": ["m"]}]}, "networks": [{"name": "n"}]`, "/container/portMappings(0)/networkNames(0)", "none of the app's networks"},
		{image + `, "portMappings": [{}]}`, "/", "host's network"},
		{run + `, "portDefinitions": [{"port": 1}, {"port": 1}]`, "/portDefinitions", "port 1 stands twice"},
		{run + `, "portDefinitions": [{"name": "Web"}]`, "/portDefinitions(0)/name", "does not match"},
		{run + `, "healthChecks": [{"portIndex": 1}]`, "/healthChecks(0)", "beyond"},
		{run + `, "portDefinitions": [], "healthChecks": [{}]`, "/healthChecks(0)", "0 ports"},
		{run + `, "healthChecks": [{"protocol": "COMMAND"}]`, "/healthChecks(0)", "needs a command"},
		{run + `, "healthChecks": [{"command": {"value": "true"}}]`, "/healthChecks(0)", "goes with protocol COMMAND"},
		{run + `, "healthChecks": [{"protocol": "MESOS_TCP"}, {"protocol": "MESOS_HTTP"}]`, "/", "at most one health check"},
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
		{`"id": "a", "container": {"type": "MESOS", "docker": {"image": "x", "parameters": [{"key": "user", "value": "me"}]}}`, "/container/docker/parameters", "DOCKER containers alone"},
		{`"id": "a", "container": {"docker": {"image": "x", "privileged": true}}`, "/container/docker/privileged", "every GPU"},
		{run + `, "uris": ["x"], "fetch": [{"uri": "y"}]`, "/uris", "same"},
		{run + `, "ports": [1, 1]`, "/", "twice in ports"},
		{run + `, "ports": [1], "portDefinitions": [{"port": 2}]`, "/", "different things"},
		{run + `, "ipAddress": {"networkName": "n"}, "networks": [{"name": "n"}]`, "/", "leave out ipAddress"},
		{run + `, "gpu": 1`, "/gpu", "did you mean gpus?"},
		{run + `, "hostPath": "/x"`, "/hostPath", "did you mean container.volumes[].hostPath?"},
		{run + `, "tasks": 3, "tty": true`, "/tty", "no terminal"},
	} {
		t.Run(test.path+" "+test.text, func(t *testing.T) {
			_, err := Parse([]byte("{"+test.app+"}"), settings())
			got := details(t, err)
			if len(got) == 0 || !strings.Contains(got[test.path], test.text) {
				t.Fatalf("%s\ngot %q, want %q at %s", test.app, got, test.text, test.path)
			}
			for path := range got {
				if path != test.path {
					t.Errorf("%s\nsays besides at %s: %s", test.app, path, got[path])
				}
			}
		})
	}
}

// What is no JSON is another error than what is no app.
func TestMalformed(t *testing.T) {
	for _, text := range []string{"", "{", `{"id": "a"} {}`, "{]", `{"id": "a"}x`} {
		_, err := Parse([]byte(text), settings())
		if m := (*Malformed)(nil); !errors.As(err, &m) {
			t.Errorf("%q: got %v, want *Malformed", text, err)
		}
	}
}

// An element that is wrong does not move the others.
func TestPlacesAreThoseOfTheText(t *testing.T) {
	_, err := Parse([]byte(`{"id": "a", "cmd": "b", "constraints": [7, ["rack", "UNIQUE"], ["rack", "UNIQUE"], ["rack", "NEAR"]], "dependencies": [1, "/B"]}`), settings())
	got := details(t, err)
	want := []string{"/constraints(0)", "/constraints(3)", "/dependencies(0)", "/dependencies(1)"}
	if paths := sorted(got); !slices.Equal(paths, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
