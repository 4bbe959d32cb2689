package updates

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

var epoch = time.Unix(1000, 0)

func update(uuid string, state mesos.TaskState) mesos.TaskStatus {
	return mesos.TaskStatus{UUID: []byte(uuid), State: state.Enum()}
}

func uuids(updates []PendingUpdate) []string {
	var ids []string
	for _, u := range updates {
		ids = append(ids, u.Task+":"+string(u.Status.UUID))
	}
	return ids
}

func want(t *testing.T, what string, got []PendingUpdate, ids ...string) {
	t.Helper()
	if diff := cmp.Diff(ids, uuids(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestOneUpdateAtATime(t *testing.T) {
	s := New(10*time.Second, time.Minute)
	key := TaskKey{"f", "t"}
	want(t, "first", s.Add(epoch, key, update("a", mesos.TASK_RUNNING)), "t:a")
	want(t, "second waits", s.Add(epoch, key, update("b", mesos.TASK_FINISHED)))
	if !s.IsBehind(key) || s.IsBehind(TaskKey{"f", "u"}) {
		t.Error("Behind is not true of exactly the task whose second update waits")
	}
	want(t, "another task does not", s.Add(epoch, TaskKey{"f", "u"}, update("c", mesos.TASK_RUNNING)), "u:c")

	if _, _, ok := s.Ack(epoch, key, []byte("b")); ok {
		t.Error("an acknowledgement of the second update was taken while the first is outstanding")
	}
	acked, next, ok := s.Ack(epoch, key, []byte("a"))
	if !ok || string(acked.UUID) != "a" {
		t.Errorf("Ack(a) = %q, %v", acked.UUID, ok)
	}
	want(t, "next", next, "t:b")
	if _, _, ok := s.Ack(epoch, key, []byte("a")); ok {
		t.Error("a was acknowledged twice")
	}
	if _, next, ok := s.Ack(epoch, key, []byte("b")); !ok || len(next) > 0 || s.HasPending(key) {
		t.Errorf("after the last acknowledgement: next %v, ok %v, pending %v", next, ok, s.HasPending(key))
	}
	if len(s.streams) != 1 {
		t.Errorf("%d streams left, want the other task's", len(s.streams))
	}
}

func TestDuplicatesAreStoredOnce(t *testing.T) {
	s := New(time.Second, time.Minute)
	key := TaskKey{"f", "t"}
	s.Add(epoch, key, update("a", mesos.TASK_RUNNING))
	want(t, "duplicate", s.Add(epoch, key, update("a", mesos.TASK_RUNNING)))
	if _, next, ok := s.Ack(epoch, key, []byte("a")); !ok || len(next) != 0 {
		t.Errorf("next %v, ok %v", next, ok)
	}
	want(t, "duplicate of an acknowledged update", s.Add(epoch, key, update("a", mesos.TASK_RUNNING)))
}

func TestRetriesBackOff(t *testing.T) {
	s := New(10*time.Second, 30*time.Second)
	if _, ok := s.NextDue(); ok {
		t.Error("something is due before anything was added")
	}
	s.Add(epoch, TaskKey{"f", "t"}, update("a", mesos.TASK_RUNNING))
	now := epoch
	for _, pause := range []time.Duration{10, 20, 30, 30} {
		next, ok := s.NextDue()
		if got := next.Sub(now); !ok || got != pause*time.Second {
			t.Fatalf("next after %v, want %v", got, pause*time.Second)
		}
		want(t, "too early", s.DueUpdates(next.Add(-time.Millisecond)))
		now = next
		want(t, "due", s.DueUpdates(now), "t:a")
	}
	s.Ack(now, TaskKey{"f", "t"}, []byte("a"))
	if _, ok := s.NextDue(); ok {
		t.Error("an acknowledged update is due again")
	}
}

func TestForgetFramework(t *testing.T) {
	s := New(time.Second, time.Minute)
	s.Add(epoch, TaskKey{"f", "t"}, update("a", mesos.TASK_RUNNING))
	s.Add(epoch, TaskKey{"g", "t"}, update("b", mesos.TASK_RUNNING))
	s.ForgetFramework("f")
	if s.HasPending(TaskKey{"f", "t"}) || !s.HasPending(TaskKey{"g", "t"}) {
		t.Error("Forget dropped the wrong framework's updates")
	}
}
