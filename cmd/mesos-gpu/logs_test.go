package main

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

func clusterWithOutput() *fakeCluster {
	c := newFakeCluster(fakeJob("train", time.Hour, job.Finished, job.Failed, job.Waiting),
		fakeJob("v1.2", time.Hour, job.Finished), fakeJob("ended", time.Hour, job.Killed))
	c.jobs[0].Tasks[2].AgentID = ""
	c.logs = map[string]string{
		"train.0.1.x": "one\ntwo\n",
		"train.1.1.x": "three\nno end",
		"v1.2.0.1.x":  "a\nb\nc\n",
		"ended.0.1.x": "until then\n",
		"train.1.0.x": "earlier\n",
	}
	c.past = map[string][]job.Task{"train": {{ID: "train.1.0.x", Job: "train", Index: 1, State: job.Failed, AgentID: "a", Changed: time.Now().Add(-time.Hour)}}}
	return c
}

// logs accepts the name of a job, a task's id, or a job's name and a task's number.
func TestLogs(t *testing.T) {
	for _, test := range []struct{ line, out, err string }{
		{"logs train", "train.0 | one\ntrain.0 | two\ntrain.1 | three\ntrain.1 | no end\n", ""},
		{"logs train --tail 1", "train.0 | two\ntrain.1 | no end\n", ""},
		{"logs v1.2", "a\nb\nc\n", ""},
		{"logs -n 2 v1.2", "b\nc\n", ""},
		{"logs train.1", "three\nno end", ""},
		{"logs v1.2.0", "a\nb\nc\n", ""},
		{"logs train.1.1.x", "three\nno end", ""},
		{"logs train.1.0.x", "earlier\n", ""},
		{"logs v1.2 -f", "a\nb\nc\n", ""},
		{"logs v1.2 -f -n 1", "c\n", ""},
		{"logs ended -f", "until then\n", ""},
		{"logs train.2", "", "task train.2.1.x is WAITING and has no stdout yet"},
		{"logs train.7", "", `there is no job and no task "train.7": see mesos-gpu ps --all`},
		{"logs unknown", "", `there is no job and no task "unknown": see mesos-gpu ps --all, and mesos-gpu describe JOB for its tasks`},
		{"logs train --stderr", "", "has no stderr"},
		{"logs train --previous", "train.1 | earlier\n", ""},
		{"logs train.1 -p", "earlier\n", ""},
		{"logs train.0 -p", "", "task train.0: no earlier attempt is remembered"},
		{"logs v1.2 -p", "", "job v1.2: no earlier attempt of a task is remembered"},
		{"logs train -p -f", "", "--previous: the attempt has ended"},
		{"logs train --since 61m", "train.0.1 | one\ntrain.0.1 | two\ntrain.1.0 | earlier\ntrain.1.1 | three\ntrain.1.1 | no end\n", ""},
		{"logs ended --since 61m", "until then\n", ""},
		{"logs ended --since 59m", "", "job ended: no task has run in the last 59m0s"},
		{"logs ended --since 59m -f", "", ""},
		{"logs train.1 --since 1h", "three\nno end", ""},
		{"logs train --since 0s", "", "--since 0s: must be more than 0"},
		{"logs train --since 1m -p", "", "--since selects earlier attempts too: omit --previous"},
		{"logs train --tail 0", "", "--tail 0: must be 1 or more lines"},
	} {
		t.Run(test.line, func(t *testing.T) {
			status := map[bool]int{true: 1}[test.err != ""]
			if strings.HasPrefix(test.err, "--") {
				status = 2
			}
			clusterWithOutput().command(t, test.line).expect(t, test.out, test.err, status)
		})
	}
}

// With --follow a job's log includes tasks that start later, and ends with the last of them.
func TestFollowJobLogs(t *testing.T) {
	c := clusterWithOutput()
	out, in := io.Pipe()
	ended := make(chan int)
	address := c.serve(t)
	go func() {
		status := runCommandLine(t.Context(), []string{"logs", "-f", "train"}, cli.ProcessIO{
			Stdin:  nil,
			Stdout: in,
			Stderr: io.Discard,
			Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": address}[name] },
		})
		in.Close()
		ended <- status
	}()
	var text strings.Builder
	for p := make([]byte, 100); !strings.Contains(text.String(), "train.1 | no end"); {
		n, err := out.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(p[:n])
	}
	c.mu.Lock()
	c.jobs[0].Tasks[2].AgentID, c.logs["train.2.1.x"] = "a", "late\n"
	c.mu.Unlock()
	c.changeTask("train", 2, job.Finished, 0)
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status != 0 || !strings.HasSuffix(string(rest), "train.2 | late\n") {
		t.Errorf("status %d, and at last %q", status, rest)
	}
}

// Both streams are printed, standard error to standard error.
func TestLogsOfBothStreams(t *testing.T) {
	for _, test := range []struct{ line, out, err string }{
		{"logs train", "train.0 | one\ntrain.0 | two\ntrain.1 | three\ntrain.1 | no end\n", "train.1 | Traceback\ntrain.1 | RuntimeError\n"},
		{"logs train --stdout", "train.0 | one\ntrain.0 | two\ntrain.1 | three\ntrain.1 | no end\n", ""},
		{"logs train --stderr", "train.1 | Traceback\ntrain.1 | RuntimeError\n", ""},
		{"logs train --stderr --stdout -n 1", "train.0 | two\n", "train.1 | RuntimeError\n"},
		{"logs train.1", "three\nno end", "Traceback\nRuntimeError\n"},
		{"logs -f train.1", "three\nno end", "Traceback\nRuntimeError\n"},
		{"logs -f train.1 --stderr", "Traceback\nRuntimeError\n", ""},
		{"logs only", "", "words\n"},
		{"logs -f only", "", "words\n"},
		{"logs silent", "", "mesos-gpu: task silent.0.1.x has no output: FAILED: pull image: no such image\n"},
	} {
		t.Run(test.line, func(t *testing.T) {
			c := clusterWithOutput()
			c.jobs = append(c.jobs, fakeJob("only", time.Hour, job.Finished), fakeJob("silent", time.Hour, job.Failed))
			c.jobs[4].Tasks[0].Message = "pull image: no such image"
			c.errors = map[string]string{"train.1.1.x": "Traceback\nRuntimeError\n", "only.0.1.x": "words\n", "silent.0.1.x": ""}
			r := c.command(t, test.line)
			if r.out != test.out || r.err != test.err || r.status != 0 {
				t.Errorf("status %d, printed %q and %q, want %q and %q", r.status, r.out, r.err, test.out, test.err)
			}
		})
	}
}

// A service's task that waits for its next attempt has output of the one before.
func TestLogsOfWaitingServiceNamePreviousAttempt(t *testing.T) {
	c := newFakeCluster(fakeJob("web", time.Hour, job.Waiting))
	c.jobs[0].Tasks[0].AgentID = ""
	c.past = map[string][]job.Task{"web": {{ID: "web.0.0.x", Job: "web", State: job.Failed, AgentID: "a"}}}
	c.logs = map[string]string{"web.0.0.x": "address in use\n"}
	c.command(t, "logs web").expect(t, "", "task web.0.1.x is WAITING and has no stdout yet: mesos-gpu logs --previous web prints the attempt before", 1)
	c.command(t, "logs web --previous").expect(t, "address in use\n", "", 0)
}

// With --follow the attempts of a service that starts again are printed, and its end is awaited.
func TestFollowRestartsOfService(t *testing.T) {
	c := newFakeCluster(fakeJob("web", time.Hour, job.Running))
	c.jobs[0].Spec.Service = &job.Service{}
	c.logs, c.errors = map[string]string{"web.0.1.x": "first\n"}, map[string]string{"web.0.1.x": "error\n"}
	out, in := io.Pipe()
	ended := make(chan int)
	address := c.serve(t)
	go func() {
		status := runCommandLine(t.Context(), []string{"logs", "-f", "web"}, cli.ProcessIO{
			Stdout: in,
			Stderr: in,
			Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": address}[name] },
		})
		in.Close()
		ended <- status
	}()
	await := func(words ...string) string {
		var text strings.Builder
		for p := make([]byte, 100); ; {
			n, err := out.Read(p)
			if text.Write(p[:n]); err != nil || !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text.String(), word) }) {
				return text.String()
			}
		}
	}
	await("first\n", "error\n")
	c.mu.Lock()
	old := c.jobs[0].Tasks[0]
	old.State = job.Failed
	c.past = map[string][]job.Task{"web": {old}}
	c.jobs[0].Tasks[0].ID, c.logs["web.0.2.x"], c.errors["web.0.2.x"] = "web.0.2.x", "second\n", "again\n"
	c.mu.Unlock()
	c.changeTask("web", 0, job.Running, 0)
	if text := await("second\n", "again\n"); strings.Contains(text, "first") {
		t.Errorf("printed again: %q", text)
	}
	c.changeTask("web", 0, job.Killed, 143)
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("at last %q, %v", rest, err)
	}
	if status := <-ended; status != 0 {
		t.Errorf("status %d", status)
	}
}

// While the output of a job is followed, a lost connection is reported, and that it returned.
func TestLostConnectionIsPrinted(t *testing.T) {
	for _, line := range []string{"logs -f train", "logs -f train.2", "wait train", "events -f train"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			c := clusterWithOutput()
			c.jobs[0].Tasks[2].AgentID, c.logs["train.2.1.x"] = "a", "start\n"
			c.jobs[0].Tasks[2].State = job.Running
			scheduler := c.newServer(t)
			var down atomic.Bool
			served := scheduler.Config.Handler
			following := make(chan struct{}, 100)
			scheduler.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if down.Load() {
					panic(http.ErrAbortHandler)
				}
				if r.URL.Path == "/v1/events" || r.URL.Query().Has("follow") {
					following <- struct{}{}
				}
				served.ServeHTTP(w, r)
			})
			scheduler.Start()
			out, in := io.Pipe()
			ended := make(chan int)
			go func() {
				status := runCommandLine(t.Context(), strings.Fields(line), cli.ProcessIO{Stdin: nil, Stdout: io.Discard, Stderr: in, Getenv: func(name string) string {
					return map[string]string{"MESOS_GPU_API": scheduler.URL}[name]
				}})
				in.Close()
				ended <- status
			}()
			notices := bufio.NewScanner(out)
			awaitLine := func(want string) {
				t.Helper()
				for notices.Scan() {
					if strings.HasPrefix(notices.Text(), want) {
						return
					}
				}
				t.Fatalf("standard error has no %q", want)
			}
			<-following
			down.Store(true)
			scheduler.CloseClientConnections()
			awaitLine("mesos-gpu: connection lost, retrying: ")
			down.Store(false)
			awaitLine("mesos-gpu: connected again")
			if strings.HasPrefix(line, "events") {
				scheduler.CloseClientConnections()
				down.Store(true) // events does not end with the job
				awaitLine("mesos-gpu: connection lost, retrying: ")
				return
			}
			c.changeTask("train", 2, job.Finished, 0)
			go func() {
				for notices.Scan() {
				}
			}()
			if status := <-ended; (status != 0) != (line == "wait train") {
				t.Errorf("status %d", status)
			}
		})
	}
}

// With --timestamps lines have the time at which they arrive, and those from before have none.
func TestTimesOfFollowedLines(t *testing.T) {
	for _, line := range []string{"logs -f -t a", "logs -f --timestamps a.0", "logs -f -t -n 1 a", "logs -f -t a.0 -n 1"} {
		t.Run(line, func(t *testing.T) {
			c := newFakeCluster(fakeJob("a", time.Hour, job.Running))
			c.logs = map[string]string{"a.0.1.x": "old\n"}
			scheduler := c.newServer(t)
			scheduler.Start()
			began := time.Now().Truncate(time.Millisecond)
			out, in := io.Pipe()
			go func() {
				runCommandLine(t.Context(), strings.Fields(line), cli.ProcessIO{Stdin: nil, Stdout: in, Stderr: io.Discard, Getenv: func(name string) string {
					return map[string]string{"MESOS_GPU_API": scheduler.URL}[name]
				}})
				in.Close()
			}()
			lines := bufio.NewScanner(out)
			if !lines.Scan() || strings.TrimRight(strings.TrimSuffix(lines.Text(), "old"), " ") != "-" {
				t.Errorf("first line %q, %v", lines.Text(), lines.Err())
			}
			width := len(lines.Text())
			c.mu.Lock()
			c.logs["a.0.1.x"] += "new\n"
			c.mu.Unlock()
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
			at, text, _ := strings.Cut(lines.Text(), " ")
			when, err := time.Parse(time.RFC3339Nano, at)
			if err != nil || text != "new" || when.Before(began) || when.After(time.Now()) || len(lines.Text()) != width {
				t.Errorf("second line %q, %v", lines.Text(), err)
			}
			c.changeTask("a", 0, job.Finished, 0)
			if lines.Scan() {
				t.Errorf("more output: %q", lines.Text())
			}
		})
	}
}

// A task without output yet has none from before.
func TestTimesOfFirstLine(t *testing.T) {
	c := newFakeCluster(fakeJob("a", time.Hour, job.Finished))
	c.logs = map[string]string{}
	c.errors = map[string]string{"a.0.1.x": "no end"}
	r := c.command(t, "logs -f -t a")
	if r.out != "" || strings.TrimRight(strings.TrimSuffix(r.err, "no end\n"), " ") != "-" || r.status != 0 {
		t.Errorf("status %d, printed %q and %q", r.status, r.out, r.err)
	}
}
