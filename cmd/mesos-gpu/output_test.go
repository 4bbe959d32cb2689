package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// The machine-readable output is the response of the API.
func TestJSONMatchesAPI(t *testing.T) {
	c := newFakeCluster(fakeJob("a", time.Hour, job.Running))
	c.gpus = []api.GPUView{{UUID: "GPU-1", Type: "V100", MemMiB: 16384}}
	var jobs []api.JobView
	if r := c.command(t, "ps -o json"); json.Unmarshal([]byte(r.out), &jobs) != nil || len(jobs) != 1 || jobs[0].State != job.Running {
		t.Errorf("got %+v", r)
	}
	var gpus []api.GPUView
	if r := c.command(t, "gpus --output=json"); json.Unmarshal([]byte(r.out), &gpus) != nil || len(gpus) != 1 || gpus[0] != c.gpus[0] {
		t.Errorf("got %+v", r)
	}
	newFakeCluster().command(t, "ps -o json").expect(t, "[]\n", "", 0)
	newFakeCluster().command(t, "ps -o yaml").expect(t, "[]\n", "", 0)
}

// The YAML output is readable: it has no braces around objects.
func TestDescribePrintsYAML(t *testing.T) {
	c := newFakeCluster(fakeJob("a", time.Hour, job.Running))
	if r := c.command(t, "describe a -o yaml"); !strings.HasPrefix(r.out, "spec:\n  name: a\n  tasks: 1\n") ||
		strings.ContainsAny(r.out, "{") && !strings.Contains(r.out, "{}") {
		t.Errorf("got status %d:\n%s", r.status, r.out)
	}
}
