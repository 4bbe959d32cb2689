package framework

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// submissions is how many jobs one iteration of BenchmarkSubmit submits.
const submissions = 2000

// BenchmarkSubmit submits jobs over HTTP. The scheduler answers each once it is in the
// journal on disk. One job runs; the others are pending and have a reason.
func BenchmarkSubmit(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			spent := time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				in := startInstance(b, mesostest.NewCluster(b, 1), SchedulerConfig{JournalPath: filepath.Join(b.TempDir(), "journal.db")})
				before := cputime.Read(b)
				b.StartTimer()
				submitAll(b, in.addr, clients)
				b.StopTimer()
				spent += cputime.Read(b) - before
				in.stopAndWait(b)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N*submissions)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N*submissions), "cpu-µs/job") // includes the clients
		})
	}
}

func submitAll(b *testing.B, addr string, clients int) {
	b.Helper()
	var next atomic.Int64
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			c, err := client.New(addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			for i := next.Add(1); i <= submissions; i = next.Add(1) {
				if _, err := c.SubmitJob(context.Background(), frameworktest.JobSpec(fmt.Sprintf("train-%05d", i), 1, 1)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}

const (
	listedJobs = 100_000
	// waitingJobs of the listed jobs are pending, each with its reason.
	waitingJobs = 10_000
	pageOfJobs  = 500
)

// BenchmarkListPages reads a long list over HTTP, page by page.
func BenchmarkListPages(b *testing.B) {
	path := filepath.Join(b.TempDir(), "journal.db")
	fillJournal(b, path, listedJobs, waitingJobs)
	in := startInstance(b, mesostest.NewCluster(b, 0), SchedulerConfig{JournalPath: path, Sched: sched.SchedulerSettings{MaxEndedTasks: 2 * listedJobs}})
	defer in.stopAndWait(b)
	if _, err := in.ListJobsPage(context.Background(), api.JobQuery{PageRequest: api.PageRequest{Limit: 1}}); err != nil { // waits for the start
		b.Fatal(err)
	}
	var ended, waiting []time.Duration // times for pages with ended and with pending jobs
	spent := cputime.Read(b)
	for b.Loop() {
		listed := 0
		for q := (api.JobQuery{PageRequest: api.PageRequest{Limit: pageOfJobs}}); ; {
			began := time.Now()
			list, err := in.ListJobsPage(context.Background(), q)
			if err != nil {
				b.Fatal(err)
			}
			if took := time.Since(began); list.Jobs[0].Terminal {
				ended = append(ended, took)
			} else {
				waiting = append(waiting, took)
			}
			listed += len(list.Jobs)
			if q.After = list.Next; q.After == "" {
				break
			}
		}
		if listed != listedJobs {
			b.Fatalf("listed %d jobs, want %d", listed, listedJobs)
		}
	}
	all := append(slices.Clone(ended), waiting...)
	b.ReportMetric(float64((cputime.Read(b)-spent).Microseconds())/1000/float64(len(all)), "cpu-ms/page") // includes the client
	reportPages(b, all, "page")
	reportPages(b, waiting, "waiting")
}

func reportPages(b *testing.B, took []time.Duration, of string) {
	slices.Sort(took)
	for name, part := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
		b.ReportMetric(took[int(part*float64(len(took)-1))].Seconds()*1000, "ms/"+of+"-"+name)
	}
}

// fillJournal writes jobs into a journal; the last ones are pending.
func fillJournal(b testing.TB, path string, jobs, waiting int) {
	b.Helper()
	j, err := journal.OpenBolt(path)
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < jobs; from += 256 {
		c := journal.Change{}
		for i := from; i < min(from+256, jobs); i++ {
			one := frameworktest.RecordedJob(i)
			if i >= jobs-waiting {
				t := &one.Tasks[0]
				*t = job.Task{ID: t.ID, Job: t.Job, Attempt: 1, State: job.Waiting, Changed: t.Changed}
			}
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
