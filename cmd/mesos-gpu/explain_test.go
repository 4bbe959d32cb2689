package main

import (
	"strings"
	"testing"

	"mesos-gpu/job/jobfile"
)

// Each key is listed and explained; an unknown key suggests the right one.
func TestExplain(t *testing.T) {
	all := newFakeCluster().command(t, "explain")
	for _, key := range jobfile.Keys() {
		if !strings.Contains(all.out, "\n"+key.Name+" ") {
			t.Errorf("%s is not listed", key.Name)
		}
		one := newFakeCluster().command(t, "explain "+key.Name)
		if !strings.HasPrefix(one.out, key.Name+"\n\n") || one.status != 0 ||
			!strings.Contains(strings.Join(strings.Fields(one.out), " "), strings.Join(strings.Fields(key.Doc), " ")) {
			t.Errorf("%s is explained by %+v", key.Name, one)
		}
	}
	newFakeCluster().command(t, "explain gpu").expect(t, "", `a job file has no key "gpu"; did you mean "gpus"?: see mesos-gpu explain`, 2)
}

// All nested keys that explain lists have an explanation.
func TestExplainNestedKeys(t *testing.T) {
	var walk func(path string)
	walk = func(path string) {
		key, err := jobfile.ExplainKey(path)
		if err != nil || key.Name != path || key.Doc == "" {
			t.Errorf("%s is explained by %+v, %v", path, key, err)
		}
		for _, part := range key.Parts {
			walk(path + "." + part)
		}
	}
	for _, key := range jobfile.Keys() {
		walk(key.Name)
	}
	newFakeCluster().command(t, "explain share.memory").expect(t, "share.memory\n\n  memory of each GPU: 4GiB, or 30% of its memory\n", "", 0)
	if r := newFakeCluster().command(t, "explain check.http"); !strings.Contains(strings.Join(strings.Fields(r.out), " "),
		"mesos-gpu explain check.http.KEY: path, port, port_index, tls") {
		t.Errorf("got %+v", r)
	}
	for path, want := range map[string]string{
		"share.memroy":        `share has no key "memroy"; did you mean "share.memory"?: see mesos-gpu explain`,
		"share.x":             `share has no key "x", but cores, gpus, memory`,
		"gpus.x":              "gpus has no keys inside",
		"shar.memory":         `a job file has no key "shar"; did you mean "share"?`,
		"health_check.http.x": `health_check.http has no key "x", but path`,
	} {
		newFakeCluster().command(t, "explain "+path).expect(t, "", want, 2)
	}
}
