package api

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mesos-gpu/marathon"
)

// Each case updates the app of the first definition. The result must equal the app of the last definition.
func TestUpdateMergesIntoStoredApp(t *testing.T) {
	for name, c := range map[string]struct{ stored, update, want string }{
		"nothing":          {`{"cmd": "a", "cpus": 2}`, `{}`, `{"cmd": "a", "cpus": 2}`},
		"null":             {`{"cmd": "a", "cpus": 2}`, `{"cpus": null, "cmd": null}`, `{"cmd": "a", "cpus": 2}`},
		"instances":        {`{"cmd": "a", "cpus": 2}`, `{"instances": 0}`, `{"cmd": "a", "cpus": 2, "instances": 0}`},
		"env whole":        {`{"cmd": "a", "env": {"A": "1", "B": "2"}}`, `{"env": {"C": "3"}}`, `{"cmd": "a", "env": {"C": "3"}}`},
		"labels emptied":   {`{"cmd": "a", "labels": {"a": "b"}}`, `{"labels": {}}`, `{"cmd": "a"}`},
		"constraints gone": {`{"cmd": "a", "constraints": [["hostname", "UNIQUE"]]}`, `{"constraints": []}`, `{"cmd": "a"}`},
		"id of the path":   {`{"cmd": "a"}`, `{"id": "/another", "cmd": "b"}`, `{"cmd": "b"}`},
		"status sent back": {`{"cmd": "a"}`, `{"cmd": "b", "tasksRunning": 3, "tasks": [], "deployments": []}`, `{"cmd": "b"}`},
		"fetch by uris": {`{"cmd": "a", "fetch": [{"uri": "http://x/a"}]}`, `{"uris": ["http://x/b.tgz"]}`,
			`{"cmd": "a", "fetch": [{"uri": "http://x/b.tgz"}]}`},
		"ports": {`{"cmd": "a", "portDefinitions": [{"port": 80, "name": "web"}]}`, `{"ports": [0, 0]}`,
			`{"cmd": "a", "portDefinitions": [{"port": 0}, {"port": 0}]}`},
		"ports of a client": {`{"cmd": "a", "portDefinitions": [{"port": 80, "name": "web"}]}`,
			`{"ports": null, "dependencies": null, "instances": 2}`,
			`{"cmd": "a", "portDefinitions": [{"port": 80, "name": "web"}], "instances": 2}`},
		"ports and definitions": {`{"cmd": "a", "portDefinitions": [{"port": 80, "name": "web"}]}`,
			`{"ports": [], "portDefinitions": [{"port": 81}]}`, `{"cmd": "a", "portDefinitions": [{"port": 81}]}`},
		"resource limits": {`{"cmd": "a", "resourceLimits": {"cpus": 4}}`, `{"mem": 64}`, `{"cmd": "a", "resourceLimits": {"cpus": 4}, "mem": 64}`},
		"container whole": {`{"container": {"docker": {"image": "a", "forcePullImage": true}}}`,
			`{"container": {"docker": {"image": "b"}}}`, `{"container": {"docker": {"image": "b"}}}`},
		"host to bridge": {`{"container": {"docker": {"image": "a"}}, "portDefinitions": [{"port": 80, "name": "web"}]}`,
			`{"networks": [{"mode": "container/bridge"}]}`,
			`{"container": {"docker": {"image": "a"}}, "networks": [{"mode": "container/bridge"}]}`},
		"host to bridge old": {`{"container": {"docker": {"image": "a"}}}`,
			`{"container": {"docker": {"image": "a", "network": "BRIDGE", "portMappings": [{"containerPort": 80}]}}}`,
			`{"container": {"docker": {"image": "a"}, "portMappings": [{"containerPort": 80}]}, "networks": [{"mode": "container/bridge"}]}`},
		"bridge to host": {`{"container": {"docker": {"image": "a"}, "portMappings": [{"containerPort": 80}]}, "networks": [{"mode": "container/bridge"}]}`,
			`{"networks": [{"mode": "HOST"}]}`, `{"container": {"docker": {"image": "a"}}}`},
		"bridge to host old": {`{"container": {"docker": {"image": "a"}, "portMappings": [{"containerPort": 80}]}, "networks": [{"mode": "container/bridge"}]}`,
			`{"container": {"docker": {"image": "b", "network": "HOST"}}}`, `{"container": {"docker": {"image": "b"}}}`},
		"unknown NETWORK": {`{"container": {"docker": {"image": "a"}}, "networks": [{"mode": "container/bridge"}]}`,
			`{"container": {"docker": {"image": "b", "NETWORK": "HOST"}}}`,
			`{"container": {"docker": {"image": "b"}}, "networks": [{"mode": "container/bridge"}]}`},
		"bridge to overlay": {`{"container": {"docker": {"image": "a"}, "portMappings": [{"containerPort": 80, "hostPort": 0}]}, "networks": [{"mode": "container/bridge"}]}`,
			`{"networks": [{"mode": "container", "name": "dcos"}]}`,
			`{"container": {"docker": {"image": "a"}, "portMappings": [{"containerPort": 80, "hostPort": 0}]}, "networks": [{"mode": "container", "name": "dcos"}]}`},
		"empty networks": {`{"container": {"docker": {"image": "a"}, "portMappings": [{"containerPort": 80}]}, "networks": [{"mode": "container/bridge"}]}`,
			`{"networks": []}`, `{"container": {"docker": {"image": "a"}}}`},
		"to an own address": {`{"container": {"docker": {"image": "a"}}}`, `{"ipAddress": {"networkName": "dcos"}}`,
			`{"container": {"docker": {"image": "a"}}, "networks": [{"mode": "container", "name": "dcos"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mergePatch(parseApp(t, c.stored), parsePatch(t, c.update), marathon.ParseSettings{Role: "*"})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(parseApp(t, c.want), got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestMergeRejects(t *testing.T) {
	for name, c := range map[string]struct{ stored, update, path string }{
		"cmd and args":  {`{"cmd": "a"}`, `{"args": ["b"]}`, "/"},
		"a wrong type":  {`{"cmd": "a"}`, `{"cpus": "many"}`, "/cpus"},
		"a wrong field": {`{"cmd": "a"}`, `{"cpu": 1}`, "/cpu"},
		"networks":      {`{"cmd": "a"}`, `{"networks": 3}`, "/networks"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mergePatch(parseApp(t, c.stored), parsePatch(t, c.update), marathon.ParseSettings{Role: "*", Strict: true})
			var invalid *marathon.ValidationError
			if !errors.As(err, &invalid) || invalid.Details[0].Path != c.path {
				t.Errorf("got %v, want *marathon.Invalid at %s", err, c.path)
			}
		})
	}
}

// The stored app is shared and must not change.
func TestMergeDoesNotModifyStoredApp(t *testing.T) {
	stored := parseApp(t,
		`{"container": {"docker": {"image": "a"}, "portMappings": [{"containerPort": 80}]}, "networks": [{"mode": "container/bridge"}], "labels": {"a": "b"}}`)
	before, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mergePatch(stored, parsePatch(t, `{"networks": [{"mode": "host"}], "labels": {"a": "c"}}`), marathon.ParseSettings{Role: "*"}); err != nil {
		t.Fatal(err)
	}
	after, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(before), string(after)); d != "" {
		t.Errorf("-before +after:\n%s", d)
	}
}

func parseApp(t *testing.T, text string) *marathon.App {
	t.Helper()
	a, err := parseComplete(parsePatch(t, text), "/a", marathon.ParseSettings{Role: "*"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func parsePatch(t *testing.T, text string) appPatch {
	t.Helper()
	p, err := readPatch([]byte(text), marathon.ParseSettings{Role: "*"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
