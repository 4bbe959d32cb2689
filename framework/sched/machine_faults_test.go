package sched

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/job"
)

// faultTable is the page with the rule about faults of machines, and the heading of its table.
const (
	faultPage    = "../../docs/concepts/scheduling.md"
	faultHeading = "| fault of a machine | reported as | retry charged | task waits | agent paused |"
)

// machineFaultScripts has, by the second column of the table, what happens to an attempt on agent a.
var machineFaultScripts = map[string]string{
	"`device_held`": "update train.0.1 STARTING\nupdate train.0.1 FAILED fault=device_held",
	"`no_driver`":   "update train.0.1 STARTING\nupdate train.0.1 FAILED fault=no_driver",
	"`no_engine`":   "update train.0.1 STARTING\nupdate train.0.1 FAILED fault=no_engine",
	"`no_executor`": "update train.0.1 STARTING\nupdate train.0.1 FAILED fault=no_executor",
	"a lost launch": "update train.0.1 LOST\nwait 1s\noffer o2 agent=a ids=GPU-a\nupdate train.0.2 LOST",
	"LOST":          "update train.0.1 RUNNING\nupdate train.0.1 LOST",
	"drained":       "update train.0.1 RUNNING\nupdate train.0.1 KILLED drained",
	"incompatible":  "update train.0.1 STARTING\nupdate train.0.1 FAILED unfit=gpu",
	"FAILED":        "update train.0.1 RUNNING\nupdate train.0.1 FAILED",
}

// TestMachineFaultsFollowTheWrittenRule plays each row of the table and compares what it costs the job with the table's words:
// each cell begins with yes or no. The table has a row for each fault that an executor reports.
func TestMachineFaultsFollowTheWrittenRule(t *testing.T) {
	page, err := os.ReadFile(faultPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), faultHeading+"\n|---|---|---|---|---|\n")
	if !found {
		t.Fatalf("%s has no table %q", faultPage, faultHeading)
	}
	listed := map[string]bool{}
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		script, ok := machineFaultScripts[cells[1]]
		if !ok {
			t.Errorf("no test of the row %s", row)
			continue
		}
		listed[cells[1]] = true
		p := &scenarioRunner{
			t:        t,
			now:      time.Unix(1_700_000_000, 0).UTC(),
			ids:      map[string]string{},
			recorded: newRecordedState(),
			st:       New(SchedulerSettings{MaxAttempts: 3, MaxLiveTasks: 1000}, RecoveredState{}),
		}
		for line := range strings.Lines("subscribed f1\nsubmit train gpus=1 retries=1\noffer o1 agent=a ids=GPU-a\n" + script) {
			p.runCommand(strings.Fields(line))
		}
		p.runCycle()
		j, _ := p.st.jobs.Find("train")
		task := j.Tasks[0]
		pause, _ := p.st.launchPause("a", p.now)
		if task.State != job.Waiting {
			t.Errorf("%s: the task is %s, want WAITING", cells[0], task.State)
		}
		for i, got := range []bool{task.Failures > 0, task.NotBefore.After(p.now), pause > 0} {
			want, _, _ := strings.Cut(cells[2+i], ",")
			if want != map[bool]string{true: "yes", false: "no"}[got] {
				t.Errorf("%s: column %d is %q, but the scheduler: %v", cells[0], 3+i, cells[2+i], got)
			}
		}
	}
	faults := slices.Collect(maps.Keys(agentFaults))
	for _, fault := range append(faults, job.DeviceHeld) {
		if !listed["`"+fault+"`"] {
			t.Errorf("the table has no row of %s", fault)
		}
	}
	if len(listed) != len(machineFaultScripts) {
		t.Errorf("the table has the rows %v", slices.Sorted(maps.Keys(listed)))
	}
}

// TestSlowFetchIsChargedToItsJob: an agent may have waited for the files of the job.
func TestSlowFetchIsChargedToItsJob(t *testing.T) {
	var spec job.Spec
	spec.Fetch = []job.FetchArtifact{{URI: "http://example.org/data"}}
	ref := taskRef{&job.Job{Spec: &spec, Tasks: []job.Task{{State: job.Starting}}}, 0}
	if o := attemptResultOf(ref, job.Failed, TaskUpdate{State: job.Failed, MachineFault: job.NoExecutor}); o.machineFault != "" {
		t.Errorf("the fault is %q", o.machineFault)
	}
}
