package readmodel

import (
	"errors"
	"fmt"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// TestReadStates: the states of all tasks are read once each, a stream continues after them, an error of the visitor ends the
// reading, and so do more events than are stored.
func TestReadStates(t *testing.T) {
	tasks := make([]job.Task, 2*eventBatch+1)
	for i := range tasks {
		tasks[i] = job.Task{ID: fmt.Sprintf("train.%d.1.0", i), Job: "train", Index: i, State: job.Running}
	}
	tasks[0].State = job.Finished
	v := New(journal.JournalContents{Jobs: []*job.Job{{Spec: &job.Spec{Name: "train", Tasks: len(tasks)}, Tasks: tasks}}})
	for _, q := range []request.EventQuery{{}, {LiveOnly: true}, {After: "another-4"}} {
		seen, last := map[string]bool{}, ""
		position, err := v.ReadStates(q, func(b *request.EventBatch) error {
			for _, ev := range b.Events {
				if seen[ev.Task] {
					t.Errorf("%+v: %s twice", q, ev.Task)
				}
				seen[ev.Task] = true
			}
			last = b.Position
			return nil
		})
		want := len(tasks)
		if q.LiveOnly {
			want--
		}
		if err != nil || len(seen) != want || position == "" || last != position || !v.KnowsEvent(position) {
			t.Errorf("%+v: %d states, want %d; continues after %q (%q), %v", q, len(seen), want, position, last, err)
		}
	}
	if position, err := New(journal.JournalContents{}).ReadStates(request.EventQuery{}, nil); err != nil || position == "" {
		t.Errorf("no jobs: continues after %q, %v", position, err)
	}
	gone := errors.New("the client has left")
	if _, err := v.ReadStates(request.EventQuery{}, func(*request.EventBatch) error { return gone }); err != gone {
		t.Errorf("got %v, want the visitor's error", err)
	}
	_, err := v.ReadStates(request.EventQuery{}, func(*request.EventBatch) error {
		for range storedEvents + 1 {
			v.hub.publishEvent(storedEvent{TaskEvent: api.TaskEvent{Job: "train", Task: "train.0.1.0"}})
		}
		return nil
	})
	if !errors.Is(err, request.ErrEventsMissed) {
		t.Errorf("a slow visitor: got %v", err)
	}
	for _, id := range []string{"", "x", "another-1", v.hub.formatEventID(0)} {
		if v.KnowsEvent(id) {
			t.Errorf("%q: a stream cannot continue there", id)
		}
	}
}
