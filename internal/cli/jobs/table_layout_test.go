package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
	"mesos-gpu/internal/testing/termtest"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// tablesOfLongCells returns tables whose cells are long.
func tablesOfLongCells() map[string]func(*term.TablePrinter) error {
	uuid := "GPU-8f1c3a5e-0000-1111-2222-333344445555"
	name := func(i int) string { return fmt.Sprintf("experiment-with-a-rather-long-name-%d", i) }
	long := "CPUs for the gang: it needs 1.2 together, and agents had 1.1 free when they offered last; " + strings.Repeat("and so on ", 20)
	one := 1
	view := api.JobView{Job: job.Job{Spec: &job.Spec{
		Name: name(0), Role: "research-and-development", Tasks: 2, Command: []string{"python", strings.Repeat("--flag=value ", 30)},
		Image: "registry.example.org/a/rather/long/name/of/an/image:2026.1", Env: map[string]string{"A": "b"}, Priority: 1000,
	}, Submitted: time.Now()}, State: job.Waiting, WaitReason: long}
	for i := range 2 {
		view.Tasks = append(view.Tasks, job.Task{
			ID:        name(i) + ".0.1.x",
			State:     job.Running,
			Hostname:  "gpu-node-07.example.org",
			DeviceIDs: []string{uuid, uuid},
			Ports:     []int{31000, 31001},
			Message:   long,
			ExitCode:  &one,
		})
	}
	past := view
	past.Attempts = view.Tasks
	var schedules []api.ScheduleView
	var events []api.TaskEvent
	for i := range 3 {
		schedules = append(schedules, api.ScheduleView{
			Spec:    job.Spec{Name: name(i), Schedule: &job.Schedule{Cron: "0 3 * * mon-fri", TimeZone: "Europe/Berlin"}},
			NextRun: time.Now(),
			Note:    long,
			Runs:    []api.ScheduledRun{{Job: name(i) + "-20260101"}},
		})
		events = append(events, api.TaskEvent{Task: name(i) + ".0.1.x", State: job.Running, Message: long})
	}
	type printer = func(*term.TablePrinter) error
	return map[string]printer{
		"ps":                 func(p *term.TablePrinter) error { return printJobs(p, []api.JobView{view, view}) },
		"describe":           func(p *term.TablePrinter) error { return printJob(p, &view) },
		"describe, attempts": func(p *term.TablePrinter) error { return printJob(p, &past) },
		"schedules":          func(p *term.TablePrinter) error { return printSchedules(p, schedules) },
		"events":             func(p *term.TablePrinter) error { return printEventRows(p, events, 40) },
		"explain":            func(p *term.TablePrinter) error { return printKeys(p, jobfile.Keys()) },
	}
}

// At any terminal width no line of a table is longer, and no row is lost.
func TestTablesFitTerminal(t *testing.T) {
	for name, print := range tablesOfLongCells() {
		t.Run(name, func(t *testing.T) { termtest.CheckTableFits(t, 2, print) })
	}
}

// The wait reason of a job is readable at 80 columns.
func TestWaitReasonIsReadable(t *testing.T) {
	termtest.CheckShownAt(t, 80, tablesOfLongCells()["ps"], "WAITS", "CPUs for the gang: it needs 1")
}
