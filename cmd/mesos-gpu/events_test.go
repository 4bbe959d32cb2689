package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// The last changes are ordered by time across jobs.
func TestEvents(t *testing.T) {
	late, early := fakeJob("late", time.Minute, job.Running), fakeJob("early", time.Hour, job.Failed)
	early.Tasks[0].Message = "exited\nwith 1\x07"
	c := newFakeCluster(late, early)
	at := func(j *job.Job) string { return j.Tasks[0].Changed.Format(time.RFC3339) }
	gap := strings.Repeat(" ", len(at(late))-len("TIME")+2)
	all := "TIME" + gap + "TASK         STATE        MESSAGE\n" + at(early) + `  early.0.1.x  FAILED       exited with 1\a` + "\n" +
		at(late) + "  late.0.1.x   RUNNING\n"
	c.command(t, "events").expect(t, all, "", 0)
	c.command(t, "events late --no-headers").expect(t, at(late)+"  late        WAITING      submitted\n"+at(late)+"  late.0.1.x  RUNNING\n", "", 0)
	if r := c.command(t, "events -o wide"); !strings.Contains(r.out, "  early.0.1.x  early  FAILED       exited") {
		t.Errorf("wide: %q", r.out)
	}
	newFakeCluster().command(t, "events").expect(t, "No task is remembered.\n", "", 0)
	c.command(t, "events unknown").expect(t, "", `there is no job "unknown"`, 1)
	c.command(t, "events late early").expect(t, "", `mesos-gpu: events takes no "early"`, 2)
	if r := c.command(t, "events late -o yaml"); !strings.HasPrefix(r.out, "---\ntime: ") || !strings.Contains(r.out, "\nstate: RUNNING\n") {
		t.Errorf("got %q", r.out)
	}
}

// events JOB and describe show the history of a job.
func TestHistoryOfJob(t *testing.T) {
	j := fakeJob("train", time.Hour, job.Killed)
	j.Spec.Owner = "alice"
	at := func(minutes int) time.Time { return j.Submitted.Add(time.Duration(minutes) * time.Minute) }
	three := 3
	j.Tasks[0].ID, j.Tasks[0].Attempt, j.Tasks[0].Hostname = "train.0.2.x", 2, "gpu7"
	j.Tasks[0].Launched, j.Tasks[0].Started, j.Tasks[0].KillRequested, j.Tasks[0].Ended, j.Tasks[0].KilledBy = at(3), at(4), at(5), at(6), "ops"
	c := newFakeCluster(j)
	c.past = map[string][]job.Task{"train": {{ID: "train.0.1.x", Attempt: 1, Hostname: "gpu1", State: job.Failed,
		ExitCode: &three, Launched: at(1), Started: at(1), Ended: at(2)}}}
	var want strings.Builder
	for _, row := range []struct {
		minute           int
		subject, message string
	}{
		{0, "train      ", " WAITING      submitted by alice"}, {1, "train.0.1.x", " LAUNCHING    attempt 1, on gpu1"}, {1, "train.0.1.x", " RUNNING"},
		{2, "train.0.1.x", " FAILED       exited with status 3"}, {3, "train.0.2.x", " LAUNCHING    attempt 2, on gpu7"}, {4, "train.0.2.x", " RUNNING"},
		{5, "train.0.2.x", " KILLING      killed by ops"}, {6, "train.0.2.x", " KILLED"},
	} {
		want.WriteString(at(row.minute).Format(time.RFC3339) + "  " + row.subject + " " + row.message + "\n")
	}
	c.command(t, "events train --no-headers").expect(t, want.String(), "", 0)
	if r := c.command(t, "describe train --no-headers"); !strings.HasSuffix(r.out, "\n\n"+want.String()) {
		t.Errorf("describe:\n%s", r.out)
	}
	var ev api.TaskEvent
	lines := strings.Split(c.command(t, "events train -o json").out, "\n")
	if err := json.Unmarshal([]byte(lines[6]), &ev); err != nil || ev.By != "ops" || ev.State != job.Killing {
		t.Errorf("%+v, %v", ev, err)
	}
	many := fakeJob("sweep", time.Hour, slices.Repeat([]job.State{job.Finished}, 30)...)
	if r := newFakeCluster(many).command(t, "describe sweep"); !strings.HasSuffix(r.out, "41 earlier events: mesos-gpu events sweep\n") {
		t.Errorf("describe:\n%s", r.out)
	}
}

// TestChangesInHistory checks the lines of events about what users and load did to a job, and the last one in describe. The
// states are those of the job: a service that was scaled runs.
func TestChangesInHistory(t *testing.T) {
	j := fakeJob("web", time.Hour, job.Running)
	at := func(minutes int) time.Time { return j.Submitted.Add(time.Duration(minutes) * time.Minute) }
	add := func(minute int, c job.Change) {
		c.Time = at(minute)
		j.AddChange(c)
	}
	add(1, job.Change{Kind: job.EditChange, State: job.Waiting, By: "ada", Keys: "gpus 8 to 4, env"})
	add(2, job.Change{Kind: job.HoldChange, State: job.Waiting, By: "ops", Reason: "wrong\x07data"})
	add(3, job.Change{Kind: job.ReleaseChange, State: job.Waiting, By: "ops"})
	add(4, job.Change{Kind: job.RequeueChange, State: job.Killing, By: "ada"})
	add(5, job.Change{Kind: job.ApplyChange, State: job.Running, By: "ada", Version: 3, Keys: "image"})
	add(6, job.Change{Kind: job.ScaleChange, From: 1, To: 3, By: "ada"}) // of an earlier release
	add(7, job.Change{Kind: job.ScaleChange, State: job.Running, From: 3, To: 1, Reason: "queue 0 a task"})
	j.Tasks[0].Launched, j.Tasks[0].Started = at(8), at(9)
	c := newFakeCluster(j)
	want := ""
	for minute, row := range []string{
		"WAITING      submitted", "WAITING      edited by ada: gpus 8 to 4, env", `WAITING      held by ops: wrong\adata`, "WAITING      released by ops",
		"KILLING      queued again by ada", "RUNNING      version 3 applied by ada: image", "-            scaled from 1 to 3 tasks by ada",
		"RUNNING      scaled from 3 to 1 task: queue 0 a task",
	} {
		want += at(minute).Format(time.RFC3339) + "  web        " + row + "\n"
	}
	if r := c.command(t, "events web --no-headers"); !strings.HasPrefix(r.out, want) {
		t.Errorf("got\n%s\nwant\n%s", r.out, want)
	}
	changed := at(7).Format(time.RFC3339) + ", scaled from 3 to 1 task: queue 0 a task\n"
	if r := c.command(t, "describe web"); !strings.Contains(r.out, changed) || !strings.Contains(r.out, "\nchanged ") {
		t.Errorf("describe:\n%s", r.out)
	}
	var ev api.TaskEvent
	lines := strings.Split(c.command(t, "events web -o json").out, "\n")
	if err := json.Unmarshal([]byte(lines[1]), &ev); err != nil || ev.By != "ada" || ev.Change != job.EditChange || ev.Task != "" {
		t.Errorf("%+v, %v", ev, err)
	}
}

// With --follow each change is printed once until an interrupt.
func TestEventsAreFollowed(t *testing.T) {
	c := newFakeCluster(fakeJob("a", time.Minute, job.Waiting, job.Waiting))
	address := c.serve(t)
	ctx, interrupt := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- runCommandLine(ctx, []string{"events", "-f", "-o", "json"}, cli.ProcessIO{
			Stdin:  nil,
			Stdout: in,
			Stderr: io.Discard,
			Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": address}[name] },
		})
	}()
	lines := bufio.NewScanner(out)
	next := func() (ev api.TaskEvent) {
		t.Helper()
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &ev) != nil {
			t.Fatalf("got %q, %v", lines.Text(), lines.Err())
		}
		return ev
	}
	for _, want := range []string{"a.0.1.x WAITING", "a.1.1.x WAITING", "a.1.1.x RUNNING", "a.0.1.x RUNNING"} {
		if ev := next(); ev.Task+" "+string(ev.State) != want {
			t.Errorf("got %+v, want %s", ev, want)
		}
		switch want {
		case "a.1.1.x WAITING":
			c.changeTask("a", 1, job.Running, 0)
		case "a.1.1.x RUNNING":
			c.changeTask("a", 0, job.Running, 0)
		}
	}
	interrupt()
	if status := <-ended; status != 0 {
		t.Errorf("the status is %d", status)
	}
}
