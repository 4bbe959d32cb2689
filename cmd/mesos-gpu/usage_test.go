package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// accountingCluster is a cluster with ended attempts.
type accountingCluster struct {
	*fakeCluster
	asked    []api.AccountingQuery
	report   api.AccountingReport
	attempts []api.AccountedAttempt
}

func (c *accountingCluster) ReportAccounting(_ context.Context, _ *access.Grant, q api.AccountingQuery) (api.AccountingReport, error) {
	c.asked = append(c.asked, q)
	c.report.By = q.By
	return c.report, nil
}

func (c *accountingCluster) ListAttempts(_ context.Context, _ *access.Grant, q api.AccountingQuery, _ int, after []byte) ([]api.AccountedAttempt, []byte, error) {
	c.asked = append(c.asked, q)
	if len(after) == 0 {
		return c.attempts[:1], []byte("1"), nil
	}
	return c.attempts[1:], nil, nil
}

func newAccountingCluster() *accountingCluster {
	sums := func(attempts int, seconds float64) api.AccountingSums {
		return api.AccountingSums{Attempts: attempts, Unfinished: 1, GPUSeconds: seconds, UnfinishedGPUSeconds: 360, CPUSeconds: 7200, WaitSeconds: float64(attempts) * 60,
			Usage: api.MeasuredUsage{GPUSeconds: seconds / 2, BusyGPUSeconds: seconds / 4, MemMiBSeconds: 1000, MemUsedMiBSeconds: 250, MaxMemMiB: 2048, Joules: 9e6}}
	}
	ended := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	code := 1
	return &accountingCluster{fakeCluster: newFakeCluster(),
		report: api.AccountingReport{Groups: []api.AccountingGroup{
			{Keys: map[string]string{"user": "ada", "type": "A100"}, AccountingSums: sums(2, 360_000)},
			{Keys: map[string]string{"user": "=cmd()", "type": ""}, AccountingSums: api.AccountingSums{Attempts: 1}},
		}, Total: sums(3, 360_000), Oldest: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
		attempts: []api.AccountedAttempt{
			{Task: "a.0.1.x", Job: "a", Run: 1, Attempt: 1, Owner: "ada", Role: "research", Host: "h", State: job.Failed, Reason: "exit", ExitCode: &code, Queued: ended.Add(-time.Hour), Launched: ended.Add(-30 * time.Minute), Ended: ended, CPUs: 2, GPUTypes: map[string]float64{"A100": 2}, Devices: map[string]float64{"GPU-2": 1, "GPU-1": 1}, WaitSeconds: 1800, GPUSeconds: 3600},
			{Task: "b.0.1.x", Job: "b", Run: 1, Attempt: 1, Role: "*", State: job.Killed, Reason: "killed", Queued: ended, Ended: ended},
		},
	}
}

// TestUsageCommand: the sums of each group and the total, as a table and for programs.
func TestUsageCommand(t *testing.T) {
	c := newAccountingCluster()
	address := serveBackend(t, c)
	commandAt(t, address, "usage", "--by", "user,type", "--since", "2026-01-01T00:00:00Z", "--until", "2026-02-01T00:00:00Z", "--owner", "ada", "--role", "research", "--job", "a@2", "--state", "failed").expect(t, ""+
		"USER    TYPE  ATTEMPTS  GPU TIME  UNFINISHED  DUTY  MEMORY  ENERGY    WAIT\n"+
		"ada     A100  2         100 h     0.100 h     50 %  25 %    2.50 kWh  1m00s\n"+
		"=cmd()  -     1         0.000 h   0.000 h     -     -       -         0.0s\n"+
		"total   -     3         100 h     0.100 h     50 %  25 %    2.50 kWh  1m00s\n", "", 0)
	want := api.AccountingQuery{By: []string{"user", "type"}, Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), User: "ada", Role: "research", Job: "a@2", State: job.Failed}
	if got := c.asked[0]; strings.Join(got.By, ",") != "user,type" || !got.Since.Equal(want.Since) || !got.Until.Equal(want.Until) || got.User != want.User || got.Role != want.Role || got.Job != want.Job || got.State != want.State {
		t.Errorf("asked for %+v, want %+v", got, want)
	}
	commandAt(t, address, "usage", "--by", "user,type", "--csv", "--since", "1d").expect(t, ""+
		"user,type,attempts,unfinished,gpu_seconds,unfinished_gpu_seconds,cpu_seconds,wait_seconds,measured_gpu_seconds,busy_gpu_seconds,mem_mib_seconds,mem_used_mib_seconds,max_mem_mib,joules\n"+
		"ada,A100,2,1,360000,360,7200,120,180000,90000,1000,250,2048,9000000\n"+
		"'=cmd(),,1,0,0,0,0,0,0,0,0,0,0,0\n", "", 0)
	c.report.Oldest = time.Now().Add(time.Hour)
	if r := commandAt(t, address, "usage", "-o", "json"); !strings.Contains(r.out, `"busy_gpu_seconds": 90000`) || !strings.Contains(r.err, "the accounting begins at 20") {
		t.Errorf("got %s %s", r.out, r.err)
	}
	for _, args := range [][]string{{"--by", "colour"}, {"--by", "user,user"}, {"--since", "yesterday"}, {"--state", "tired"}, {"--csv", "-o", "json"}, {"--attempts", "--csv", "-o", "json"}} {
		if r := commandAt(t, address, append([]string{"usage"}, args...)...); r.status != 2 {
			t.Errorf("%v: exit code %d: %s", args, r.status, r.err)
		}
	}
}

// TestUsageAttempts: each ended attempt, page by page.
func TestUsageAttempts(t *testing.T) {
	address := serveBackend(t, newAccountingCluster())
	commandAt(t, address, "usage", "--attempts", "--csv").expect(t, ""+
		"task,job,run,index,attempt,user,role,host,state,reason,exit_code,queued,launched,started,ended,cpus,gpus,devices,wait_seconds,gpu_seconds,measured_gpu_seconds,busy_gpu_seconds,mem_mib_seconds,mem_used_mib_seconds,max_mem_mib,joules\n"+
		"a.0.1.x,a,1,0,1,ada,research,h,FAILED,exit,1,2026-03-01T09:00:00Z,2026-03-01T09:30:00Z,,2026-03-01T10:00:00Z,2,A100=2,GPU-1 GPU-2,1800,3600,0,0,0,0,0,0\n"+
		"b.0.1.x,b,1,0,1,,*,,KILLED,killed,,2026-03-01T10:00:00Z,,,2026-03-01T10:00:00Z,0,,,0,0,0,0,0,0,0,0\n", "", 0)
	r := commandAt(t, address, "usage", "--attempts", "--no-headers")
	if lines := strings.Split(r.out, "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "a.0.1.x  ada  research  FAILED  exit    A100=2  1.0 h") {
		t.Errorf("got\n%s", r.out)
	}
}

// TestEfficiencyOfEndedJobs: describe, and run with --verbose, print one line about the GPU time of an ended job.
func TestEfficiencyOfEndedJobs(t *testing.T) {
	j := fakeJob("train", time.Hour, job.Finished)
	j.Spec.Request.GPUs = 1
	plain := fakeJob("plain", time.Hour, job.Finished)
	c := newFakeCluster(j, plain)
	c.accounting.AccountingSums = newAccountingCluster().report.Groups[0].AccountingSums
	address := serveBackend(t, c)
	const line = "GPUs held for 100 h, busy 50 %, memory 25 %, most 2.0 GiB, 2.50 kWh, 0.100 h of it in attempts that did not finish, waited 2m00s\n"
	if r := commandAt(t, address, "describe", "train"); !strings.Contains(r.out, "\n"+line) {
		t.Errorf("describe prints\n%s", r.out)
	}
	if r := commandAt(t, address, "describe", "plain"); strings.Contains(r.out, "GPUs held") {
		t.Errorf("describe of a job without GPUs prints\n%s", r.out)
	}
	ended := make(chan commandRun, 1)
	go func() {
		ended <- commandAt(t, address, "run", "--verbose", "--gpus", "1", "--name", "quick", "--", "true")
	}()
	c.awaitJob("quick")
	c.changeTask("quick", 0, job.Finished, 0)
	if r := <-ended; !strings.Contains(r.err, "mesos-gpu: job quick: "+line) {
		t.Errorf("run prints\n%s", r.err)
	}
}
