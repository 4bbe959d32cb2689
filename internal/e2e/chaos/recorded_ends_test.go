package chaos

import (
	"fmt"
	"slices"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

func TestEndTracker(t *testing.T) {
	var tracker EndTracker
	view := func(name string, tasks ...job.Task) api.JobView {
		for i := range tasks {
			tasks[i].Job, tasks[i].Index = name, i
		}
		return api.JobView{Job: job.Job{Tasks: tasks}}
	}
	task := func(id string, state job.State) job.Task { return job.Task{ID: id, State: state} }
	for n, c := range []struct {
		jobs []api.JobView
		want []string
	}{
		{[]api.JobView{view("a", task("a1", job.Running), task("b1", job.Waiting)), view("s", task("s1", job.Running), task("t1", job.Killing))}, nil},
		{[]api.JobView{
			view("a", task("a1", job.Unreachable), task("b1", job.Failed)), view("s", task("s1", job.Running)),
		}, []string{"b1 FAILED", "t1 replaced or removed"}},
		{[]api.JobView{view("a", task("a2", job.Waiting), task("b2", job.Waiting)), view("s", task("s1", job.Running))}, []string{"a1 replaced or removed"}},
		{[]api.JobView{view("a", task("a2", job.Finished), task("b2", job.Finished))}, []string{"a2 FINISHED", "b2 FINISHED", "s1 replaced or removed"}},
		{[]api.JobView{view("a", task("a2", job.Finished), task("b2", job.Finished))}, nil},
	} {
		var got []string
		for _, e := range tracker.FindEnds(c.jobs) {
			got = append(got, fmt.Sprint(e.Task, " ", e.State))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("list %d: got %q, want %q", n+1, got, c.want)
		}
	}
}
