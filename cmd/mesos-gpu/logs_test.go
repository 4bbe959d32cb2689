package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

func clusterWithOutput() *fakeCluster {
	c := newFakeCluster(fakeJob("train", time.Hour, job.Finished, job.Failed, job.Waiting), fakeJob("v1.2", time.Hour, job.Finished), fakeJob("ended", time.Hour, job.Killed))
	c.jobs[0].Tasks[2].AgentID = ""
	c.logs = map[string]string{"train.0.1.x": "one\ntwo\n", "train.1.1.x": "three\nno end", "v1.2.0.1.x": "a\nb\nc\n", "ended.0.1.x": "until then\n", "train.1.0.x": "earlier\n"}
	c.past = map[string][]job.Task{"train": {{ID: "train.1.0.x", Job: "train", State: job.Failed, AgentID: "a"}}}
	return c
}

// logs accepts the name of a job, a task's id, or a job's name and a task's number.
func TestLogs(t *testing.T) {
	for _, test := range []struct{ line, out, err string }{
		{"logs train", "0 | one\n0 | two\n1 | three\n1 | no end\n", ""},
		{"logs train --tail 1", "0 | two\n1 | no end\n", ""},
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
		{"logs nobody", "", `there is no job and no task "nobody": see mesos-gpu ps --all, and mesos-gpu describe JOB for its tasks`},
		{"logs train --stderr", "", "has no stderr"},
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
		status := runCommandLine(t.Context(), []string{"logs", "-f", "train"}, cli.ProcessIO{Stdin: nil, Stdout: in, Stderr: io.Discard, Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": address}[name] }})
		in.Close()
		ended <- status
	}()
	var text strings.Builder
	for p := make([]byte, 100); !strings.Contains(text.String(), "1 | no end"); {
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
	if status := <-ended; status != 0 || !strings.HasSuffix(string(rest), "2 | late\n") {
		t.Errorf("status %d, and at last %q", status, rest)
	}
}
