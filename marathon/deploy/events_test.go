package deploy

import (
	"encoding/json"
	"strings"
	"testing"
)

// All events of one instance name the version that it was started for.
func TestVersionOfEvents(t *testing.T) {
	well, sick := true, false
	before := []AppInstance{{TaskID: "t", Version: "configured", StartedFor: "scaled", Healthy: &sick}, {TaskID: "u", Version: "configured", Healthy: &sick}}
	after := []AppInstance{{TaskID: "t", Version: "configured", StartedFor: "scaled", Healthy: &well}, {TaskID: "u", Version: "configured", Healthy: &well}}
	events := healthChanges("/a", before, after)
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
	events := StateChangeEvents("/a", "v", AppInstance{TaskID: "t", State: "RUNNING"})
	text, err := json.Marshal(events[len(events)-1])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("got %s", text)
	}
}
