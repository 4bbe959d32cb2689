package readmodel

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/backendtest"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// eventTexts returns the tasks, states and messages of events.
func eventTexts(events []api.TaskEvent) (all []string) {
	for _, ev := range events {
		all = append(all, strings.TrimSpace(fmt.Sprint(ev.Task, " ", ev.State, " ", ev.Message)))
	}
	return all
}

func lastEventID(h *eventHub) string { return h.formatEventID(h.lastNumber()) }

func openTestStream(t *testing.T, v *Model, q request.EventQuery) *eventStream {
	t.Helper()
	s, err := v.openStream(q)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readAvailable returns all events that a stream can read without waiting.
func readAvailable(t *testing.T, s *eventStream) (all []api.TaskEvent) {
	t.Helper()
	for {
		b, then := s.readBatch()
		all = append(all, b.Events...)
		if b.Missed {
			t.Error("the stream has missed events")
		}
		if then != streamContinues {
			return all
		}
	}
}

func recordMove(v *Model, task, message string) {
	name, _, _ := strings.Cut(task, ".")
	v.ApplyRecorded(journal.Change{}, []sched.StateTransition{{Job: name, TaskID: task, State: job.Running, Message: message}}, nil, nil)
}

// TestEventStreamResumes: a stream continues after the client's last event, with each
// event once; for an unknown event it starts with the current states.
func TestEventStreamResumes(t *testing.T) {
	v := New(journal.JournalContents{})
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("a", 1, job.Running, job.Finished)))
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("b", 2, job.Running)))
	ask := func(q request.EventQuery) []api.TaskEvent {
		t.Helper()
		s := openTestStream(t, v, q)
		v.hub.removeListener(s.listener)
		return readAvailable(t, s)
	}
	all := ask(request.EventQuery{})
	place := all[len(all)-1].ID
	recordMove(v, "a.0", "1")
	recordMove(v, "b.0", "2")
	recordMove(v, "a.0", "3")
	last := lastEventID(v.hub)
	other := lastEventID(newHub())
	states := []string{"a.0 RUNNING", "a.1 FINISHED", "b.0 RUNNING"}
	for name, c := range map[string]struct {
		q    request.EventQuery
		want []string
	}{
		"missed":           {request.EventQuery{After: place}, []string{"a.0 RUNNING 1", "b.0 RUNNING 2", "a.0 RUNNING 3"}},
		"missed, live":     {request.EventQuery{After: place, LiveOnly: true}, []string{"a.0 RUNNING 1", "b.0 RUNNING 2", "a.0 RUNNING 3"}},
		"missed, of a job": {request.EventQuery{After: place, Job: "a"}, []string{"a.0 RUNNING 1", "a.0 RUNNING 3"}},
		"nothing missed":   {request.EventQuery{After: last}, nil},
		"no place":         {request.EventQuery{}, states},
		"no place, live":   {request.EventQuery{LiveOnly: true}, []string{"a.0 RUNNING", "b.0 RUNNING"}},
		"of a job, live":   {request.EventQuery{Job: "a", LiveOnly: true}, []string{"a.0 RUNNING"}},
		"another leader's": {request.EventQuery{After: other}, states},
		"none of ours":     {request.EventQuery{After: "7"}, states},
		"not yet":          {request.EventQuery{After: v.hub.formatEventID(v.hub.last + 1)}, states},
		"no number":        {request.EventQuery{After: v.hub.epoch + "-x"}, states},
	} {
		if diff := cmp.Diff(c.want, eventTexts(ask(c.q))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	for i := range storedEvents {
		recordMove(v, "b.0", fmt.Sprint("then ", i))
	}
	got := ask(request.EventQuery{After: last})
	if len(got) != storedEvents || got[0].Message != "then 0" ||
		got[storedEvents-1].Message != fmt.Sprint("then ", storedEvents-1) || got[storedEvents-1].ID != lastEventID(v.hub) {
		t.Errorf("after %d events: got %d, %+v", storedEvents, len(got), got[:min(1, len(got))])
	}
	recordMove(v, "b.0", "one too many")
	if diff := cmp.Diff(states, eventTexts(ask(request.EventQuery{After: last}))); diff != "" {
		t.Errorf("resume after an unknown event (-want +got):\n%s", diff)
	}
}

// eventBackend serves event streams from a read model.
type eventBackend struct {
	backendtest.Reads
	backendtest.Commands
	view *Model
}

func (b eventBackend) AsOf() time.Time { return time.Time{} }

func (b eventBackend) WatchEvents(ctx context.Context, q request.EventQuery) (<-chan request.EventBatch, error) {
	return b.view.WatchEvents(ctx, q)
}

func (b eventBackend) KnowsEvent(id string) bool { return b.view.KnowsEvent(id) }

func (b eventBackend) ReadStates(q request.EventQuery, visit func(*request.EventBatch) error) (position string, err error) {
	return b.view.ReadStates(q, visit)
}

// TestBrokenEventStreamResumesOverHTTP: the next stream over HTTP first contains the events
// that occurred without a stream, once each, and then later ones.
func TestBrokenEventStreamResumesOverHTTP(t *testing.T) {
	v := New(journal.JournalContents{})
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("a", 1, job.Running)))
	server := httptest.NewServer(apiserver.NewHandler(func() apiserver.Backend { return backendtest.NewLeader(eventBackend{view: v}) },
		frameworktest.DiscardLog()))
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
		if id != "id: "+lastEventID(v.hub) || !strings.Contains(data, `"message":"`+want+`"`) {
			t.Errorf("got %s, %s, want %s with id %s", id, data, want, lastEventID(v.hub))
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
	s := openTestStream(t, v, request.EventQuery{WithInventory: true})
	without := openTestStream(t, v, request.EventQuery{})
	got := len(readAvailable(t, s))
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
		if got += len(readAvailable(t, s)); got != step.want {
			t.Errorf("%s %q: %d events, want %d", step.key, step.value, got, step.want)
		}
	}
	// What a standby reads again after the journal was compacted.
	all := journal.JournalContents{Documents: map[string][]byte{"scheduler/cordon/gpu7": []byte(`{"reason":"new fans"}`)}}
	for range 2 {
		v.ReplaceAll(all)
		if got += len(readAvailable(t, s)); got != 3 {
			t.Errorf("%d events, want 3", got)
		}
	}
	if events := readAvailable(t, without); len(events) > 0 {
		t.Errorf("a stream without the inventory got %+v", events)
	}
}

// TestInventoryChangesAreCombined: a reader that does not read is notified once of any number
// of changes.
func TestInventoryChangesAreCombined(t *testing.T) {
	v := New(journal.JournalContents{})
	s := openTestStream(t, v, request.EventQuery{WithInventory: true})
	for range 2 * storedEvents {
		v.PublishInventoryChange()
	}
	events := readAvailable(t, s)
	if len(events) != 1 || events[0] != (api.TaskEvent{InventoryChanged: true}) || v.hub.last != 0 {
		t.Errorf("got %d events, last number %d", len(events), v.hub.last)
	}
}

// TestSlowStreamIsEnded: a stream whose events are overwritten ends with Missed, in the middle
// of the present states too. Other streams are unaffected.
func TestSlowStreamIsEnded(t *testing.T) {
	v := New(journal.JournalContents{})
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("a", 1, job.Running), frameworktest.JobInStates("b", 2, make([]job.State, 2*eventBatch)...)))
	slow, resumed, other := openTestStream(t, v, request.EventQuery{}), openTestStream(t, v,
		request.EventQuery{After: lastEventID(v.hub)}), openTestStream(t, v, request.EventQuery{Job: "a"})
	if b, then := slow.readBatch(); len(b.Events) != eventBatch || then != streamContinues || b.Position != "" {
		t.Fatalf("got %d states, position %q", len(b.Events), b.Position)
	}
	readAvailable(t, other)
	for i := range storedEvents + 1 {
		recordMove(v, "b.0", fmt.Sprint(i))
		if i%1000 == 0 {
			readAvailable(t, other)
		}
	}
	for name, s := range map[string]*eventStream{"states": slow, "events": resumed} {
		if b, then := s.readBatch(); !b.Missed || len(b.Events) > 0 || then != streamEnds {
			t.Errorf("%s: got %d events, missed %t", name, len(b.Events), b.Missed)
		}
	}
	recordMove(v, "a.0", "last")
	if got := eventTexts(readAvailable(t, other)); !slices.Equal(got, []string{"a.0 RUNNING last"}) {
		t.Errorf("the other stream got %v", got)
	}
}

// TestStatesReadInPartsEqualSnapshot: events during the present states are sent exactly for
// the tasks whose states were sent before. The result is the present state of every task, with
// no event out of order, and the stream can be resumed only after the last state.
func TestStatesReadInPartsEqualSnapshot(t *testing.T) {
	v := New(journal.JournalContents{})
	jobs := []*job.Job{
		frameworktest.JobInStates("a", 1, slices.Repeat([]job.State{job.Waiting}, 2*eventBatch)...),
		frameworktest.JobInStates("b", 2, slices.Repeat([]job.State{job.Waiting}, 2*eventBatch)...),
	}
	v.ApplyChange(frameworktest.ChangeOf(jobs...))
	move := func(j *job.Job, i int, to job.State) {
		j.Tasks[i].State = to
		v.ApplyRecorded(journal.Change{Tasks: []job.Task{j.Tasks[i]}},
			[]sched.StateTransition{{Job: j.Spec.Name, TaskID: j.Tasks[i].ID, Index: i, State: to}}, nil, nil)
	}
	s := openTestStream(t, v, request.EventQuery{})
	sent := map[string][]job.State{}
	for step := 0; ; step++ {
		b, then := s.readBatch()
		for i, ev := range b.Events {
			sent[ev.Task] = append(sent[ev.Task], ev.State)
			if last := i == len(b.Events)-1; s.readsStates && ev.ID != "" || !s.readsStates && b.Position != "" && last != (ev.ID == b.Position) {
				t.Fatalf("step %d: event %d has the id %q, position %q", step, i, ev.ID, b.Position)
			}
		}
		if then == streamWaits {
			break
		}
		if step < 2 { // one task whose state was sent, one at the boundary, one to come
			for _, i := range [][]int{{0, eventBatch - 1, eventBatch}, {0, 2*eventBatch - 1}}[step] {
				move(jobs[0], i, []job.State{job.Launching, job.Running}[step])
			}
			move(jobs[1], 2*eventBatch-1, []job.State{job.Launching, job.Running}[step])
		}
	}
	for _, j := range jobs {
		for i := range j.Tasks {
			states := sent[j.Tasks[i].ID]
			if len(states) == 0 || states[len(states)-1] != j.Tasks[i].State {
				t.Fatalf("%s: got %v, is %s", j.Tasks[i].ID, states, j.Tasks[i].State)
			}
			if compact := slices.Compact(slices.Clone(states)); len(compact) != len(states) {
				t.Errorf("%s: got %v, with repetitions", j.Tasks[i].ID, states)
			}
		}
	}
	if got := sent[jobs[1].Tasks[2*eventBatch-1].ID]; !slices.Equal(got, []job.State{job.Running}) {
		t.Errorf("a task that changed before its state was sent: got %v", got)
	}
}

// TestStreamsEndWithModel: streams end when the model publishes nothing further, also those
// that start later, and a stream that ends leaves no listener.
func TestStreamsEndWithModel(t *testing.T) {
	v := New(journal.JournalContents{})
	ctx, cancel := context.WithCancel(t.Context())
	canceled, err := v.WatchEvents(ctx, request.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	open, err := v.WatchEvents(t.Context(), request.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range canceled {
	}
	v.CloseListeners()
	for range open {
	}
	late, err := v.WatchEvents(t.Context(), request.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for range late {
	}
	v.hub.mu.Lock()
	defer v.hub.mu.Unlock()
	if len(v.hub.listeners) != 0 {
		t.Errorf("%d listeners remain", len(v.hub.listeners))
	}
}
