package chaos

import (
	"cmp"
	"maps"
	"slices"

	"mesos-gpu/framework/api"
)

// EndTracker finds the ends of tasks in the jobs' records, by comparing lists of all jobs. The
// zero value is ready.
type EndTracker struct {
	// current has the attempt of each task that was live in the last list.
	current map[taskKey]string
	ended   map[string]bool // by task id
}

type taskKey struct {
	job   string
	run   int
	index int
}

// FindEnds returns an event, without a time, for each task that has ended, or was replaced by
// another attempt, since the last list. Its detail is the message of the task, which says why an attempt was replaced.
func (t *EndTracker) FindEnds(jobs []api.JobView) (ends []Event) {
	if t.ended == nil {
		t.ended = map[string]bool{}
	}
	end := func(key taskKey, id, state, message string) {
		if id != "" && !t.ended[id] {
			t.ended[id] = true
			ends = append(ends, Event{Kind: EndRecorded, Job: key.job, Task: id, Index: key.index, State: state, Detail: message})
		}
	}
	live, messages := map[taskKey]string{}, map[taskKey]string{}
	for _, j := range jobs {
		for _, task := range j.Tasks {
			key := taskKey{task.Job, task.Run, task.Index}
			messages[key] = task.Message
			if task.State.IsLive() {
				live[key] = task.ID
			} else {
				end(key, task.ID, string(task.State), task.Message)
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(t.current), compareKeys) {
		if id := t.current[key]; live[key] != id {
			end(key, id, "replaced or removed", messages[key])
		}
	}
	t.current = live
	return ends
}

func compareKeys(a, b taskKey) int {
	return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.run, b.run), cmp.Compare(a.index, b.index))
}
