package framework

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/zktest"
	"mesos-gpu/job"
)

const (
	finishedTasks = 100_000
	liveTasks     = 10_000
)

// recordedJob is a job of one task as a real cluster records it.
func recordedJob(i int) *job.Job {
	name := fmt.Sprintf("train-%06d", i)
	began := time.Unix(1_700_000_000+int64(i), 5).UTC()
	j := &job.Job{Submitted: began, Spec: job.Spec{
		Name: name, Tasks: 1, CPUs: 4, MemMiB: 8192, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}},
		Image: "nvcr.io/nvidia/pytorch:24.01-py3", Containerizer: job.Docker, Command: []string{"python", "train.py", "--epochs", "90"},
		Env: map[string]string{"NCCL_DEBUG": "WARN", "DATA": "/data/imagenet"}, KillGrace: 30 * time.Second,
	}}
	code := 0
	t := job.Task{
		ID: name + ".0.1.c8dbz5x2q6a5", Job: name, Attempt: 1, State: job.Running, Started: began, Changed: began,
		AgentID: "c1d9a6f0-8d2a-4a54-9b58-1f4a2e3f5d77-S12", Hostname: "gpu-node-12.example.org",
		AgentURL: "http://gpu-node-12.example.org:5051/slave(1)", DeviceIDs: []string{fmt.Sprintf("GPU-5a1c7d3e-0000-4000-8000-%012d", i)},
	}
	if i < finishedTasks {
		t.State, t.Ended, t.ExitCode, t.Message = job.Finished, began.Add(time.Hour), &code, "exited with status 0"
	}
	j.Tasks = []job.Task{t}
	return j
}

func fillJournal(b *testing.B, j journal.Journal) {
	b.Helper()
	for from := 0; from < finishedTasks+liveTasks; from += maxBatch {
		c := journal.Change{FrameworkID: "f1"}
		for i := from; i < min(from+maxBatch, finishedTasks+liveTasks); i++ {
			one := recordedJob(i)
			c.Jobs, c.Tasks = append(c.Jobs, one), append(c.Tasks, one.Tasks...)
		}
		if err := j.Commit(context.Background(), c); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRestart opens a journal of 100,000 finished and 10,000 live tasks,
// each a job of its own, up to where the scheduler subscribes.
func BenchmarkRestart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "journal.db")
	session, err := zkconn.Dial(context.Background(), zkconn.TargetFolder{Hosts: []string{zktest.StartWith(b, "256m").Addr()}, Path: "/x"}, 0, discardLog())
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	for name, open := range map[string]func() (journal.Journal, error){
		"bolt": func() (journal.Journal, error) { return journal.OpenBolt(path) },
		"zookeeper": func() (journal.Journal, error) {
			return journal.OpenZooKeeper(context.Background(), journal.ZooKeeperConfig{Session: session, Path: "/journal", Log: discardLog()})
		},
	} {
		b.Run(name, func(b *testing.B) {
			j, err := open()
			if err != nil {
				b.Fatal(err)
			}
			fillJournal(b, j)
			cfg := SchedulerConfig{Log: discardLog()}
			cfg.setDefaults()
			cfg.Sched.MaxEndedTasks = 2 * finishedTasks
			b.ReportAllocs()
			for b.Loop() {
				j, err := open()
				if err != nil {
					b.Fatal(err)
				}
				all, err := j.Load(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				l := newLoop(&cfg, all, j, func(sched.Operation) {})
				b.StopTimer()
				if n := l.view.jobCount(); n != finishedTasks+liveTasks {
					b.Fatalf("%d jobs", n)
				}
				if err := j.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Seconds())/float64(b.N), "s/restart")
		})
	}
}
