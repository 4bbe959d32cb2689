package api

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"mesos-gpu/job"
)

// TestLiveEvents: a stream of what lives begins without what has ended, and
// tells each end from then on. Events that come together are pushed together,
// each once and in order.
func TestLiveEvents(t *testing.T) {
	for query, want := range map[string]string{"": "WAITING KILLED", "?state=ended": "WAITING KILLED", "?state=live": "WAITING"} {
		f := &fake{changes: make(chan Event, 2*maxPush), ended: []Event{{Job: "old", Task: "old.0", State: job.Killed}}}
		for range maxPush / 100 { // more than one push takes
			f.changes <- Event{Job: "train", Task: "train.0", State: job.Running}
			f.changes <- Event{Job: "train", Task: "train.0", State: job.Finished}
		}
		close(f.changes)
		res, err := http.Get(serve(t, f).URL + "/v1/events" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		want += strings.Repeat(" RUNNING FINISHED", maxPush/100)
		if got := states(string(text)); got != want {
			t.Errorf("%q: got %d bytes %.60q, want %d %.60q", query, len(got), got, len(want), want)
		}
	}
}

// states are those of a stream's events, in order.
func states(stream string) string {
	var all []string
	for line := range strings.Lines(stream) {
		if _, rest, ok := strings.Cut(line, `"state":"`); ok {
			state, _, _ := strings.Cut(rest, `"`)
			all = append(all, state)
		}
	}
	return strings.Join(all, " ")
}
