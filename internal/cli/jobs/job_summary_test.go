package jobs

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// viewOfStates returns a job with so many tasks in each state.
func viewOfStates(name string, count map[job.State]int) api.JobView {
	j := &job.Job{Spec: &job.Spec{Name: name}}
	for _, s := range job.States() {
		j.Tasks = append(j.Tasks, slices.Repeat([]job.Task{{State: s}}, count[s])...)
	}
	j.Spec.Tasks = len(j.Tasks)
	return api.NewJobView(j, "")
}

// A bar shows the parts of a job's tasks, also the smallest ones.
func TestTaskBar(t *testing.T) {
	for want, count := range map[string]map[job.State]int{
		"":             {job.Running: 1},
		"████████████": {job.Finished: 2},
		"············": {job.Waiting: 7, job.Killed: 3},
		"███×▒▒······": {job.Finished: 3, job.Failed: 1, job.Running: 2, job.Waiting: 6},
		"█×▒·········": {job.Finished: 1, job.Lost: 1, job.Staging: 1, job.Waiting: 9997},
		"████▒▒▒▒····": {job.Finished: 3, job.Running: 3, job.Waiting: 3},
		"█████▒▒▒▒···": {job.Finished: 4, job.Running: 3, job.Waiting: 3},
	} {
		view := viewOfStates("sweep", count)
		if got := formatTaskBar(&view); got != want {
			t.Errorf("%v: %q, want %q", count, got, want)
		}
	}
}

// ps draws the bar on terminals only, with colors if they are wanted, and leaves it out where a
// line is narrow.
func TestTaskBarIsDrawnOnTerminals(t *testing.T) {
	jobs := []api.JobView{
		viewOfStates("sweep", map[job.State]int{job.Finished: 3, job.Failed: 1, job.Running: 2, job.Waiting: 6}),
		viewOfStates("one", map[job.State]int{job.Running: 1}),
	}
	for _, test := range []struct {
		columns int
		color   bool
		want    string
	}{
		{160, false, "  2/12, 6 waiting, 3 finished, 1 failed  ███×▒▒······  "},
		{160, true, "  ███\x1b[31m×\x1b[0m\x1b[32m▒▒\x1b[0m······  "},
		{60, false, ""},
		{0, false, ""},
	} {
		var out bytes.Buffer
		p := &term.TablePrinter{Writer: &out, TerminalScreen: term.TerminalScreen{Columns: test.columns, UseColor: test.color}}
		if err := printJobs(p, jobs); err != nil {
			t.Fatal(err)
		}
		if drawn := strings.Contains(out.String(), "PROGRESS"); drawn != (test.want != "") || !strings.Contains(out.String(), test.want) {
			t.Errorf("%d columns:\n%s", test.columns, &out)
		}
		out.Reset()
		if err := printJobs(p, jobs[1:]); err != nil || strings.Contains(out.String(), "PROGRESS") {
			t.Errorf("one task: %v\n%s", err, &out)
		}
	}
}
