package deploy

import (
	"encoding/json"
	"strings"
	"testing"

	"mesos-gpu/job"
)

// All events of one instance name the version that it was started for.
func TestVersionOfEvents(t *testing.T) {
	well, sick := true, false
	instances := func(healthy *bool) []AppInstance {
		return []AppInstance{
			{Task: job.Task{ID: "t", Healthy: healthy}, Version: "configured", StartedFor: "scaled"}, {Task: job.Task{ID: "u", Healthy: healthy}, Version: "configured"},
		}
	}
	a := &appRecord{id: "/a"}
	a.updateHealth(instances(&sick))
	events := a.updateHealth(instances(&well))
	if len(events) != 2 {
		t.Fatalf("got %d events, want 2", len(events))
	}
	for i, want := range []string{"scaled", "configured"} {
		if got := events[i].(InstanceHealthChanged).Version; got != want {
			t.Errorf("event %d has version %s, want %s", i, got, want)
		}
	}
}

// An empty list is encoded as an empty list, not as null.
func TestNoPortsInEvents(t *testing.T) {
	events := StateChangeEvents("/a", AppInstance{Task: job.Task{ID: "t", State: job.Running}, Version: "v"})
	text, err := json.Marshal(events[len(events)-1])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("got %s", text)
	}
}
