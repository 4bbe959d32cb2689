package main

import (
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// Job commands also show and end schedules.
func TestSchedulesCommand(t *testing.T) {
	c := newFakeCluster(fakeJob("train", time.Hour, job.Running))
	due := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	c.schedules = []api.ScheduleView{{Spec: job.Spec{Name: "nightly", Schedule: &job.Schedule{Cron: "0 3 * * *", Overlap: "skip", History: 3}},
		NextRun: due, Runs: []api.ScheduledRun{{Job: "nightly-1", Due: due.AddDate(0, 0, -1)}}}}
	table := "" +
		"SCHEDULE  CRON       ZONE  NEXT                  RUNS  LAST       NOTE\n" +
		"nightly   0 3 * * *  UTC   2030-01-02T03:00:00Z  1     nightly-1\n"
	c.command(t, "schedules").expect(t, table, "", 0)
	jobs := "" +
		"JOB    STATE    TASKS  HEALTHY  GPUS    SUBMITTED  WAITS\n" +
		"train  RUNNING  1      -        no GPU  1h ago\n"
	c.command(t, "ps").expect(t, jobs+"\n"+table, "", 0)
	c.command(t, "ps --role *").expect(t, jobs, "", 0) // a filter selects jobs
	c.command(t, "describe nightly").expect(t, ""+
		"schedule    nightly\ncron        0 3 * * *\ntime zone   UTC\noverlap     skip\nhistory     3\nnext        2030-01-02T03:00:00Z\nnote        -\n\n"+
		"JOB        DUE\nnightly-1  2030-01-01T03:00:00Z\n", "", 0)
	c.command(t, "kill nightly").expect(t, "schedule nightly ended: jobs that it has submitted go on\n", "", 0)
	c.command(t, "kill unknown").expect(t, "", `there is no job "unknown"`, 1)
}
