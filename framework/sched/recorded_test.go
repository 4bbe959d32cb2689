package sched

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

// recordedState is what the journal has after all changes so far. A State that recovers from it must be equal to the
// State that recorded it.
type recordedState struct {
	frameworkID string
	jobs        map[job.RunID]*job.Job
	documents   map[string][]byte
	// published are the specifications in changes, which others may hold, as they were then.
	published map[*job.Spec]job.Spec
	// shared are the tasks of each job that others may read, as they were last shared.
	shared map[*job.Job]sharedTasks
}

// sharedTasks are tasks that the State must not modify, and a copy of them. Those of a job that had ended remain its tasks.
type sharedTasks struct {
	tasks, then []job.Task
	ended       bool
}

func newRecordedState() *recordedState {
	return &recordedState{jobs: map[job.RunID]*job.Job{}, documents: map[string][]byte{}, published: map[*job.Spec]job.Spec{}, shared: map[*job.Job]sharedTasks{}}
}

// copySpec returns a copy that does not share what changes after the submission.
func copySpec(s *job.Spec) job.Spec {
	c := *s
	c.After, c.Labels = slices.Clone(s.After), maps.Clone(s.Labels)
	return c
}

// apply records the changes as a journal does: removals, jobs without their tasks, tasks, documents.
func (r *recordedState) apply(c StateChanges) {
	if c.FrameworkID != "" {
		r.frameworkID = c.FrameworkID
	}
	for _, id := range c.Removed {
		delete(r.jobs, id)
	}
	for _, j := range c.Jobs {
		if _, known := r.published[j.Spec]; !known {
			r.published[j.Spec] = copySpec(j.Spec)
		}
		next := j.Clone()
		next.Spec = new(copySpec(j.Spec))
		next.Tasks = make([]job.Task, len(j.Tasks))
		if old := r.jobs[j.RunID()]; old != nil {
			copy(next.Tasks, old.Tasks)
		}
		r.jobs[j.RunID()] = next
	}
	for _, t := range c.Tasks {
		r.jobs[t.RunID()].Tasks[t.Index] = t
	}
	for _, j := range c.Shared {
		r.shared[j] = sharedTasks{j.Tasks, slices.Clone(j.Tasks), j.IsTerminal()}
	}
	maps.Copy(r.documents, c.Documents)
	maps.DeleteFunc(r.documents, func(_ string, value []byte) bool { return len(value) == 0 })
}

// compare checks that everything of the State that a journal keeps was recorded, and that the State has modified nothing
// that it has published.
func (r *recordedState) compare(t *testing.T, st *State, event Event) {
	t.Helper()
	ignoreRules := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Rules" }, cmp.Ignore()) // derived from constraints
	jobs := map[job.RunID]*job.Job{}
	for _, j := range st.Jobs() {
		jobs[j.RunID()] = j
	}
	if diff := cmp.Diff(jobs, r.jobs, ignoreRules); diff != "" {
		t.Errorf("after %T, jobs (-present +recorded):\n%s", event, diff)
	}
	for spec, then := range r.published {
		if !reflect.DeepEqual(*spec, then) {
			t.Errorf("after %T, a published specification has changed (-then +now):\n%s", event, cmp.Diff(then, *spec, ignoreRules))
		}
	}
	for j, s := range r.shared {
		if !reflect.DeepEqual(s.tasks, s.then) {
			t.Errorf("after %T, shared tasks have changed (-then +now):\n%s", event, cmp.Diff(s.then, s.tasks))
		}
		if s.ended && !reflect.DeepEqual(j.Tasks, s.then) {
			t.Errorf("after %T, tasks of an ended job have changed (-then +now):\n%s", event, cmp.Diff(s.then, j.Tasks))
		}
	}
	if diff := cmp.Diff(st.Documents(), r.documents); diff != "" {
		t.Errorf("after %T, documents (-present +recorded):\n%s", event, diff)
	}
	if st.FrameworkID() != r.frameworkID {
		t.Errorf("after %T, the framework's id is %q, recorded %q", event, st.FrameworkID(), r.frameworkID)
	}
}
