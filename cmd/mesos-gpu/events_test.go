package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
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
	all := "TIME" + gap + "TASK         STATE        MESSAGE\n" + at(early) + `  early.0.1.x  FAILED       exited with 1\a` + "\n" + at(late) + "  late.0.1.x   RUNNING\n"
	c.command(t, "events").expect(t, all, "", 0)
	c.command(t, "events late --no-headers").expect(t, at(late)+"  late.0.1.x  RUNNING\n", "", 0)
	if r := c.command(t, "events -o wide"); !strings.Contains(r.out, "  early.0.1.x  early  FAILED       exited") {
		t.Errorf("wide: %q", r.out)
	}
	newFakeCluster().command(t, "events").expect(t, "No task is remembered.\n", "", 0)
	c.command(t, "events nobody").expect(t, "", `there is no job "nobody"`, 1)
	c.command(t, "events late early").expect(t, "", `mesos-gpu events takes no "early"`, 2)
	if r := c.command(t, "events late -o yaml"); !strings.HasPrefix(r.out, "---\ntime: ") || !strings.Contains(r.out, "\nstate: RUNNING\n") {
		t.Errorf("got %q", r.out)
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
		ended <- runCommandLine(ctx, []string{"events", "-f", "-o", "json"}, cli.ProcessIO{Stdin: nil, Stdout: in, Stderr: io.Discard, Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": address}[name] }})
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
