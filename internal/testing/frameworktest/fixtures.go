// Package frameworktest provides jobs, changes and helpers for the tests of several
// framework packages. Only tests import it.
package frameworktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// DiscardLog returns a logger without output.
func DiscardLog() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// Timeout returns a context that ends after a minute or with the test.
func Timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// JobSpec returns a job of tasks that each need that many GPUs of one of the types.
func JobSpec(name string, tasks, gpus int, types ...string) job.Spec {
	return job.Spec{Name: name, Tasks: tasks, Request: gpu.Request{GPUs: gpus, Types: gpu.TypeSelector{Include: types}}, Command: []string{"sh", "-c", "true"}}
}

// ServiceSpec returns a service with that many tasks without GPUs, and with defaults set.
func ServiceSpec(name string, tasks int) job.Spec {
	s := JobSpec(name, tasks, 0)
	s.Service = &job.Service{}
	s.SetDefaults()
	return s
}

// ScheduledSpec returns a schedule of a job with one task without GPUs.
func ScheduledSpec(name, cron string) job.Spec {
	s := JobSpec(name, 1, 0)
	s.Schedule = &job.Schedule{Cron: cron}
	return s
}

// StatusOf returns the HTTP status of an API problem, 0 for other errors.
func StatusOf(err error) int {
	var p *api.Problem
	if errors.As(err, &p) {
		return p.Status
	}
	return 0
}

// JobInStates returns a job with one task in each of the states, submitted at second.
func JobInStates(name string, second int64, states ...job.State) *job.Job {
	j := &job.Job{Spec: &job.Spec{Name: name, Tasks: len(states)}, Run: 1, Submitted: time.Unix(second, 0)}
	for i, s := range states {
		j.Tasks = append(j.Tasks, job.Task{
			ID:        fmt.Sprintf("%s.%d", name, i),
			Job:       name,
			Run:       1,
			Index:     i,
			State:     s,
			Changed:   time.Unix(second, 0),
			DeviceIDs: []string{"GPU-" + name},
		})
	}
	return j
}

// ChangeOf returns the change that records the jobs and all of their tasks.
func ChangeOf(jobs ...*job.Job) journal.Change {
	var c journal.Change
	for _, j := range jobs {
		c.Jobs, c.Tasks = append(c.Jobs, j), append(c.Tasks, j.Tasks...)
	}
	return c
}

// RecordedJob returns a job with one task, with the fields that a real cluster records.
func RecordedJob(i int) *job.Job {
	name := fmt.Sprintf("train-%06d", i)
	began := time.Unix(1_700_000_000+int64(i), 5).UTC()
	j := &job.Job{Run: 1, Submitted: began, Spec: &job.Spec{
		Name: name, Role: "*", Tasks: 1, CPUs: 4, MemMiB: 8192, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}},
		Image: "nvcr.io/nvidia/pytorch:24.01-py3", Containerizer: job.Docker, Command: []string{"python", "train.py", "--epochs", "90"},
		Env: map[string]string{"NCCL_DEBUG": "WARN", "DATA": "/data/imagenet"}, KillGrace: 30 * time.Second,
	}}
	code := 0
	t := job.Task{
		ID: name + ".0.1.c8dbz5x2q6a5", Job: name, Run: 1, Attempt: 1, State: job.Running, Started: began, Changed: began,
		AgentID: "c1d9a6f0-8d2a-4a54-9b58-1f4a2e3f5d77-S12", Hostname: "gpu-node-12.example.org",
		AgentURL: "http://gpu-node-12.example.org:5051/slave(1)", DeviceIDs: []string{fmt.Sprintf("GPU-5a1c7d3e-0000-4000-8000-%012d", i)},
	}
	if i < 100_000 {
		t.State, t.Ended, t.ExitCode, t.Message = job.Finished, began.Add(time.Hour), &code, "exited with status 0"
	}
	j.Tasks = []job.Task{t}
	return j
}
