package readmodel

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/internal/frameworktest"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// eventTexts returns the tasks, states and messages of events.
func eventTexts(events []api.TaskEvent) (all []string) {
	for _, ev := range events {
		all = append(all, strings.TrimSpace(fmt.Sprint(ev.Task, " ", ev.State, " ", ev.Message)))
	}
	return all
}

func recordMove(v *Model, task, message string) {
	name, _, _ := strings.Cut(task, ".")
	v.ApplyRecorded(journal.Change{}, []sched.StateTransition{{Job: name, TaskID: task, State: job.Running, Message: message}}, nil)
}

// TestEventStreamResumes: a stream continues after the client's last event, with each
// event once; for an unknown event it starts with the current states.
func TestEventStreamResumes(t *testing.T) {
	v := New(journal.JournalContents{})
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("a", 1, job.Running, job.Finished)))
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("b", 2, job.Running)))
	ask := func(q apiserver.EventQuery) []api.TaskEvent {
		t.Helper()
		events, l, err := v.subscribeEvents(q)
		if err != nil {
			t.Fatal(err)
		}
		v.hub.removeListener(l)
		return events
	}
	all := ask(apiserver.EventQuery{})
	place := all[len(all)-1].ID
	recordMove(v, "a.0", "1")
	recordMove(v, "b.0", "2")
	recordMove(v, "a.0", "3")
	last := v.hub.lastEventID()
	other := newHub().lastEventID()
	states := []string{"a.0 RUNNING", "a.1 FINISHED", "b.0 RUNNING"}
	for name, c := range map[string]struct {
		q    apiserver.EventQuery
		want []string
	}{
		"missed":           {apiserver.EventQuery{After: place}, []string{"a.0 RUNNING 1", "b.0 RUNNING 2", "a.0 RUNNING 3"}},
		"missed, live":     {apiserver.EventQuery{After: place, LiveOnly: true}, []string{"a.0 RUNNING 1", "b.0 RUNNING 2", "a.0 RUNNING 3"}},
		"missed, of a job": {apiserver.EventQuery{After: place, Job: "a"}, []string{"a.0 RUNNING 1", "a.0 RUNNING 3"}},
		"nothing missed":   {apiserver.EventQuery{After: last}, nil},
		"no place":         {apiserver.EventQuery{}, states},
		"no place, live":   {apiserver.EventQuery{LiveOnly: true}, []string{"a.0 RUNNING", "b.0 RUNNING"}},
		"of a job, live":   {apiserver.EventQuery{Job: "a", LiveOnly: true}, []string{"a.0 RUNNING"}},
		"another leader's": {apiserver.EventQuery{After: other}, states},
		"none of ours":     {apiserver.EventQuery{After: "7"}, states},
		"not yet":          {apiserver.EventQuery{After: v.hub.formatEventID(v.hub.last + 1)}, states},
		"no number":        {apiserver.EventQuery{After: v.hub.epoch + "-x"}, states},
	} {
		if diff := cmp.Diff(c.want, eventTexts(ask(c.q))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	for i := range storedEvents {
		recordMove(v, "b.0", fmt.Sprint("then ", i))
	}
	got := ask(apiserver.EventQuery{After: last})
	if len(got) != storedEvents || got[0].Message != "then 0" || got[storedEvents-1].Message != fmt.Sprint("then ", storedEvents-1) || got[storedEvents-1].ID != v.hub.lastEventID() {
		t.Errorf("after %d events: got %d, %+v", storedEvents, len(got), got[:min(1, len(got))])
	}
	recordMove(v, "b.0", "one too many")
	if diff := cmp.Diff(states, eventTexts(ask(apiserver.EventQuery{After: last}))); diff != "" {
		t.Errorf("resume after an unknown event (-want +got):\n%s", diff)
	}
}

// eventBackend serves event streams from a read model.
type eventBackend struct {
	apiserver.ReadBackend
	view *Model
}

func (b eventBackend) AsOf() time.Time { return time.Time{} }

func (b eventBackend) WatchEvents(ctx context.Context, q apiserver.EventQuery) ([]api.TaskEvent, <-chan api.TaskEvent, error) {
	return b.view.WatchEvents(ctx, q)
}

// TestBrokenEventStreamResumesOverHTTP: the next stream over HTTP first contains the events
// that occurred without a stream, once each, and then later ones.
func TestBrokenEventStreamResumesOverHTTP(t *testing.T) {
	v := New(journal.JournalContents{})
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("a", 1, job.Running)))
	server := httptest.NewServer(apiserver.NewHandler(func() apiserver.Backend { return apiserver.Backend{Reads: eventBackend{view: v}} }, frameworktest.DiscardLog()))
	defer server.Close()
	defer v.hub.closeListeners()
	listen := func(after string) (next func() string, end func()) {
		t.Helper()
		r, err := http.NewRequestWithContext(frameworktest.Timeout(t), http.MethodGet, server.URL+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		if after != "" {
			r.Header.Set("Last-Event-ID", after)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(res.Body)
		next = func() string {
			for lines.Scan() {
				if lines.Text() != "" {
					return lines.Text()
				}
			}
			return ""
		}
		return next, func() { res.Body.Close() }
	}

	next, end := listen("")
	id, ok := strings.CutPrefix(next(), "id: ")
	if data := next(); !ok || !strings.Contains(data, `"state":"RUNNING"`) {
		t.Fatalf("id %q, %s", id, data)
	}
	end()
	recordMove(v, "a.0", "missed")
	next, end = listen(id)
	defer end()
	for _, want := range []string{"missed", "later"} {
		id, data := next(), next()
		if id != "id: "+v.hub.lastEventID() || !strings.Contains(data, `"message":"`+want+`"`) {
			t.Errorf("got %s, %s, want %s with id %s", id, data, want, v.hub.lastEventID())
		}
		if want == "missed" {
			recordMove(v, "a.0", "later")
		}
	}
}

// TestCordonChangesAreStreamed: cordons and uncordons in the journal cause an inventory
// event, also on a standby; other documents do not.
func TestCordonChangesAreStreamed(t *testing.T) {
	v := New(journal.JournalContents{})
	l := v.hub.addListener("")
	v.hub.subscribeInventory(l)
	for _, step := range []struct {
		key, value string
		want       int
	}{
		{"scheduler/cordon/gpu7", `{"reason":"new fans"}`, 1},
		{"scheduler/quota/research", `{}`, 1},
		{"marathon/app", `{}`, 1},
		{"scheduler/cordon/gpu7", "", 2},
	} {
		v.ApplyChange(journal.Change{Documents: map[string][]byte{step.key: []byte(step.value)}})
		if got := len(l.ch); got != step.want {
			t.Errorf("%s %q: %d events, want %d", step.key, step.value, got, step.want)
		}
	}
	// What a standby reads again after the journal was compacted.
	all := journal.JournalContents{Documents: map[string][]byte{"scheduler/cordon/gpu7": []byte(`{"reason":"new fans"}`)}}
	for range 2 {
		v.ReplaceAll(all)
		if got := len(l.ch); got != 3 {
			t.Errorf("%d events, want 3", got)
		}
	}
}

// TestSlowInventoryListenerIsDropped: a slow inventory listener is dropped like any other.
func TestSlowInventoryListenerIsDropped(t *testing.T) {
	h := newHub()
	slow, other := h.addListener(""), h.addListener("")
	h.subscribeInventory(slow)
	for range listenerBuffer + 1 {
		h.publishInventoryChange()
	}
	heard := 0
	for ev := range slow.ch {
		if ev != (api.TaskEvent{InventoryChanged: true}) {
			t.Errorf("got %+v", ev)
		}
		heard++
	}
	if heard != listenerBuffer || len(other.ch) != 0 || h.last != 0 {
		t.Errorf("%d events for one listener, %d for the other, last number %d", heard, len(other.ch), h.last)
	}
}

func TestSlowListenerIsDropped(t *testing.T) {
	h := newHub()
	slow, other := h.addListener(""), h.addListener("b")
	for range listenerBuffer + 1 {
		h.publishEvent(api.TaskEvent{Job: "a"})
	}
	n := 0
	for range slow.ch {
		n++
	}
	if n != listenerBuffer {
		t.Errorf("the slow listener got %d events before it was dropped, want %d", n, listenerBuffer)
	}
	h.publishEvent(api.TaskEvent{Job: "b"})
	if ev := <-other.ch; ev.Job != "b" {
		t.Errorf("the other listener got %+v", ev)
	}
	h.removeListener(slow)
	h.removeListener(other)
	h.removeListener(other)
	if len(h.listeners) != 0 {
		t.Errorf("%d listeners remain", len(h.listeners))
	}
}
