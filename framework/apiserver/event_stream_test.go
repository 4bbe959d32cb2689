package apiserver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// TestLiveEventsOmitEndedTasks checks that a stream of live tasks starts with those only.
// Simultaneous events are sent together, each once and in order.
func TestLiveEventsOmitEndedTasks(t *testing.T) {
	const changes = 500
	for query, want := range map[string]string{"": "WAITING KILLED", "?state=live": ""} {
		f := &fakeBackend{changes: make(chan api.TaskEvent, 2*changes), ended: []api.TaskEvent{{Job: "old", Task: "old.0", State: job.Killed}}}
		for range changes {
			f.changes <- api.TaskEvent{Job: "train", Task: "train.0", State: job.Running}
			f.changes <- api.TaskEvent{Job: "train", Task: "train.0", State: job.Finished}
		}
		close(f.changes)
		res, err := http.Get(serveBackend(t, f).URL + "/v1/events" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		want = strings.TrimSpace(want + strings.Repeat(" RUNNING FINISHED", changes))
		if got := eventStates(string(text)); got != want {
			t.Errorf("%q: got %d bytes %.60q, want %d %.60q", query, len(got), got, len(want), want)
		}
	}
}

// TestEventIDsAdvancePastHiddenEvents checks that a client receives the stream position
// with each event, even if it may not see the last initial one, and can resume there.
func TestEventIDsAdvancePastHiddenEvents(t *testing.T) {
	f := &fakeBackend{
		now:     []api.TaskEvent{{Job: "train", Task: "train.0"}, {Job: "web", Task: "web.0", ID: "e-7"}},
		whose:   map[string][2]string{"train": {"research", ""}, "web": {"prod", ""}},
		changes: make(chan api.TaskEvent, 1),
	}
	f.changes <- api.TaskEvent{Job: "train", Task: "train.0", ID: "e-8"}
	close(f.changes)
	status, _, body := sendRequest(t, "GET", serveWithPolicy(t, f, rolePolicy())+"/v1/events?job=train&state=live", "", "Who", "viewer", "Last-Event-ID", "e-5")
	const event = `data: {"time":"0001-01-01T00:00:00Z","job":"train","task":"train.0"}` + "\n\n"
	if want := event + "id: e-7\n\nid: e-8\n" + event; status != 200 || body != want {
		t.Errorf("got %d\n%s\nwant\n%s", status, body, want)
	}
	if want := (request.EventQuery{Job: "train", LiveOnly: true, After: "e-5"}); f.stream != want {
		t.Errorf("requested stream %+v, want %+v", f.stream, want)
	}
	for _, state := range []string{"dead", api.EndedJobs} {
		if status, _, body := sendRequest(t, "GET", serveBackend(t, f).URL+"/v1/events?state="+state, ""); status != 400 ||
			!strings.Contains(body, "is not live: leave it out for all tasks") {
			t.Errorf("%s: got %d %s", state, status, body)
		}
	}
}

// TestInventoryEvents checks that they have a name and no position, and are sent only to
// clients that request them, whatever tasks the requester may see.
func TestInventoryEvents(t *testing.T) {
	for query, want := range map[string]bool{"": false, "?inventory=false": false, "?inventory=true": true, "?inventory=true&job=train": true} {
		f := &fakeBackend{now: []api.TaskEvent{}, whose: map[string][2]string{"train": {"research", ""}, "web": {"prod", ""}}, changes: make(chan api.TaskEvent, 3)}
		for _, ev := range []api.TaskEvent{{InventoryChanged: true}, {Job: "web", Task: "web.0", ID: "e-1"}, {InventoryChanged: true}} {
			f.changes <- ev
		}
		close(f.changes)
		status, _, body := sendRequest(t, "GET", serveWithPolicy(t, f, rolePolicy())+"/v1/events"+query, "", "Who", "viewer")
		if twice := strings.Repeat("event: inventory\ndata: {}\n\n", 2); status != 200 || body != twice || f.stream.WithInventory != want {
			t.Errorf("%q: got %d %q, requested stream %+v", query, status, body, f.stream)
		}
	}
	if status, _, body := sendRequest(t, "GET", serveBackend(t, &fakeBackend{}).URL+"/v1/events?inventory=yes", ""); status != 400 ||
		!strings.Contains(body, "neither true nor false") {
		t.Errorf("got %d %s", status, body)
	}
}

// eventStates returns the states of a stream's events, in order.
func eventStates(stream string) string {
	var all []string
	for line := range strings.Lines(stream) {
		if _, rest, ok := strings.Cut(line, `"state":"`); ok {
			state, _, _ := strings.Cut(rest, `"`)
			all = append(all, state)
		}
	}
	return strings.Join(all, " ")
}
