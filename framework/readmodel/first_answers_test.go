package readmodel

import (
	"context"
	"fmt"
	"testing"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// TestStreamsOfOneClientTakeTurns: of the streams of one client, maxFirstAnswers send the present states at a time, and the next
// one begins when one of them has sent all. Streams of other clients, of one job, and those that wait no longer are not delayed.
func TestStreamsOfOneClientTakeTurns(t *testing.T) {
	tasks := make([]job.Task, 2*eventBatch)
	for i := range tasks {
		tasks[i] = job.Task{ID: fmt.Sprintf("train.%d.1.0", i), Job: "train", Index: i, State: job.Running}
	}
	v := New(journal.JournalContents{Jobs: []*job.Job{{Spec: &job.Spec{Name: "train", Tasks: len(tasks)}, Tasks: tasks}}})
	watch := func(ctx context.Context, q request.EventQuery) <-chan request.EventBatch {
		t.Helper()
		batches, err := v.WatchEvents(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		return batches
	}
	received := make(chan int, 2*maxFirstAnswers)
	proceed := make(chan struct{})
	leaving, leave := context.WithCancel(t.Context())
	for i := range maxFirstAnswers { // each has read its first batch only
		batches := watch(t.Context(), request.EventQuery{Client: "alice"})
		if b := <-batches; len(b.Events) != eventBatch {
			t.Fatalf("stream %d begins with %d events, want %d", i, len(b.Events), eventBatch)
		}
		go func() {
			<-proceed
			for b := range batches {
				if b.Position != "" {
					received <- i
					return
				}
			}
		}()
	}
	gone := watch(leaving, request.EventQuery{Client: "alice"})
	leave()
	if _, ok := <-gone; ok {
		t.Error("a stream that waits for its turn sends something after its end")
	}
	third := watch(t.Context(), request.EventQuery{Client: "alice"})
	for name, q := range map[string]request.EventQuery{"another client": {Client: "bob"}, "one job": {Client: "alice", Job: "train"}, "the scheduler": {}} {
		if b := <-watch(t.Context(), q); len(b.Events) != eventBatch {
			t.Errorf("%s: it begins with %d events", name, len(b.Events))
		}
	}
	select {
	case <-third:
		t.Error("more streams than the bound send the present states")
	default:
	}
	proceed <- struct{}{}
	<-received
	if b := <-third; len(b.Events) != eventBatch {
		t.Errorf("the next stream begins with %d events", len(b.Events))
	}
	close(proceed)
}
