package leader

import (
	"context"
	"path/filepath"
	"testing"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/zktest"
)

const (
	finishedTasks = 100_000
	liveTasks     = 10_000
)

func fillJournal(b *testing.B, j journal.Journal) {
	b.Helper()
	for from := 0; from < finishedTasks+liveTasks; from += maxBatch {
		c := journal.Change{FrameworkID: "f1"}
		for i := from; i < min(from+maxBatch, finishedTasks+liveTasks); i++ {
			one := frameworktest.RecordedJob(i)
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

// BenchmarkRestart opens a journal of 100,000 finished and 10,000 live tasks, each with its
// own job, until the scheduler subscribes.
func BenchmarkRestart(b *testing.B) {
	path := filepath.Join(b.TempDir(), "journal.db")
	session, err := zkconn.Dial(context.Background(),
		zkconn.TargetFolder{Hosts: []string{zktest.StartWith(b, "256m").Addr()}, Path: "/x"}, 0, frameworktest.DiscardLog())
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	for name, open := range map[string]func() (journal.Journal, error){
		"bolt": func() (journal.Journal, error) { return journal.OpenBolt(path) },
		"zookeeper": func() (journal.Journal, error) {
			return journal.OpenZooKeeper(context.Background(), journal.ZooKeeperConfig{Session: session, Path: "/journal", Log: frameworktest.DiscardLog()})
		},
	} {
		b.Run(name, func(b *testing.B) {
			j, err := open()
			if err != nil {
				b.Fatal(err)
			}
			fillJournal(b, j)
			cfg := testLoopConfig()
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
				l := NewLoop(cfg, all, j, func(sched.Operation) {})
				b.StopTimer()
				if n := l.Model.JobCount(); n != finishedTasks+liveTasks {
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
