package framework

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// scrapeMetrics returns a scheduler's metrics page, and the values by name and labels.
func scrapeMetrics(t testing.TB, in *testInstance) (page string, values map[string]float64) {
	t.Helper()
	status, page := fetchText(t, in, "/metrics")
	if status != 200 {
		t.Fatalf("status %d: %s", status, page)
	}
	values = map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(page)); lines.Scan(); {
		name, text, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "mesos_gpu_scheduler_"), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil && strings.HasPrefix(lines.Text(), "mesos_gpu_scheduler_") {
			values[name] = value
		}
	}
	return page, values
}

// TestLifecycleCounters: one finished, one failed, one killed and one pending job change
// the counters by exactly the expected amounts.
func TestLifecycleCounters(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	awaitDecline(t, c) // the first offer is answered, so that each job gets one of its own
	_, before := scrapeMetrics(t, in)
	id := map[string]string{}
	for _, s := range []job.Spec{
		frameworktest.JobSpec("finishes", 1, 1, "v100"), frameworktest.JobSpec("fails", 1, 1),
		frameworktest.JobSpec("killed", 1, 1), frameworktest.JobSpec("waits", 1, 8, "V100"),
	} { // more than the agent has
		if _, err := in.SubmitJob(ctx, s); err != nil {
			t.Fatal(err)
		}
		if s.Name != "waits" {
			id[s.Name] = awaitState(t, in, s.Name, job.Running).Tasks[0].ID
		}
	}
	c.EndTask(id["finishes"], mesos.TASK_FINISHED, "exited with status 0", "0")
	c.EndTask(id["fails"], mesos.TASK_FAILED, "exited with status 3", "3")
	awaitState(t, in, "finishes", job.Finished)
	awaitState(t, in, "fails", job.Failed)
	if err := in.KillJob(ctx, "killed"); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "killed", job.Killed)
	wanted := map[string]float64{
		`launches_total{role="*",type="V100"}`:                       3,
		`wait_seconds_count{role="*",type="V100"}`:                   1,
		`wait_seconds_count{role="*",type="any"}`:                    2,
		`offer_to_accept_seconds_count`:                              3,
		`offers_accepted_total`:                                      3,
		`waiting_tasks{role="*",type="V100"}`:                        1,
		`waiting_gpus{role="*",type="V100"}`:                         8,
		`task_ends_total{reason="",role="*",state="FINISHED"}`:       1,
		`task_ends_total{reason="exit",role="*",state="FAILED"}`:     1,
		`task_ends_total{reason="killed",role="*",state="KILLED"}`:   1,
		`mesos_calls_total{call="ACCEPT",result="ok"}`:               3,
		`mesos_calls_total{call="KILL",result="ok"}`:                 1,
		`journal_errors_total{reason="failed"}`:                      0,
		`task_ends_total{reason="unlaunched",role="*",state="LOST"}`: 0,
	}
	increasing := []string{
		"offers_received_total", "place_seconds_count", "journal_commit_seconds_count", "mesos_call_seconds_count",
		`oldest_waiting_seconds{role="*",type="V100"}`,
	}
	var page string
	var after map[string]float64
	// Calls are counted when they are answered, which may be after their effects.
	var wrong []string
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(wrong, "\n"))
		}
	}()
	awaitCondition(t, "all counters have their expected values", func() bool {
		page, after = scrapeMetrics(t, in)
		wrong = nil
		for name, want := range wanted {
			if got := after[name] - before[name]; got != want {
				wrong = append(wrong, fmt.Sprintf("%s moved by %v, want %v", name, got, want))
			}
		}
		for _, name := range increasing {
			if after[name] <= before[name] {
				wrong = append(wrong, name+" has not increased")
			}
		}
		return len(wrong) == 0
	})
	if after["mesos_subscriptions_total"] != 1 || after["journal_size_bytes"] < 4096 {
		t.Errorf("%v subscriptions, the journal has %v bytes", after["mesos_subscriptions_total"], after["journal_size_bytes"])
	}
	if age := time.Since(time.UnixMilli(int64(after["mesos_last_event_timestamp_seconds"] * 1000))); age < 0 || age > time.Minute {
		t.Errorf("the last event of the master is %v old", age)
	}
	if after[`gpus{type="V100"}`] != 4 {
		t.Errorf("%v GPUs, want 4", after[`gpus{type="V100"}`])
	}
	checkMetricNames(t, page)
	in.stopAndWait(t)
}

// checkMetricNames checks a page with Prometheus's promtool.
func checkMetricNames(t *testing.T, page string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testneeds.RequireProgram(t, "promtool", "prometheus, or run scripts/package-tools.sh"), "check", "metrics")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestGPUTimeSurvivesFailover: the leader and a standby export the GPU time that the leader
// recorded, and the next leader continues from it.
func TestGPUTimeSurvivesFailover(t *testing.T) {
	c, server := mesostest.NewCluster(t, 4), zktest.StartServer(t)
	var ahead atomic.Int64 // offset of the clock, so that the test need not wait half a minute
	start := func() *testInstance {
		return startInstance(t, c, SchedulerConfig{
			JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", SessionTimeout: lasting,
			Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		})
	}
	const held = `gpu_seconds_total{role="*",type="V100"}`
	shows := func(in *testInstance, least float64) (value float64) {
		awaitCondition(t, fmt.Sprintf("%s shows %v GPU seconds", in.addr, least), func() bool {
			_, values := scrapeMetrics(t, in)
			value = values[held]
			return value >= least
		})
		return value
	}
	first := start()
	awaitRole(t, first, api.Leader)
	second := start()
	awaitRole(t, second, api.Standby)
	if _, err := first.SubmitJob(longTimeout(t), frameworktest.JobSpec("train", 2, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, first, "train", job.Running)
	ahead.Add(int64(time.Minute))
	value := shows(first, 120)
	if other := shows(second, value); other > value+60 {
		t.Errorf("the standby shows %v GPU seconds, the leader %v", other, value)
	}
	first.stopAndWait(t)
	awaitRole(t, second, api.Leader)
	if _, values := scrapeMetrics(t, second); values[held] < value {
		t.Errorf("the next leader starts with %v GPU seconds, the last one had %v", values[held], value)
	}
	ahead.Add(int64(time.Minute))
	shows(second, value+120)
	second.stopAndWait(t)
}

// BenchmarkMetrics scrapes a scheduler with 100,000 jobs, 10,000 of them pending, over
// HTTP. The metric held is the longest time that a write to the read model waits
// meanwhile.
func BenchmarkMetrics(b *testing.B) {
	path := filepath.Join(b.TempDir(), "journal.db")
	fillJournal(b, path, listedJobs, waitingJobs)
	in := startInstance(b, mesostest.NewCluster(b, 0), SchedulerConfig{JournalPath: path, Sched: sched.SchedulerSettings{MaxEndedTasks: 2 * listedJobs}})
	defer in.stopAndWait(b)
	if _, err := in.ListJobsPage(context.Background(), api.JobQuery{PageRequest: api.PageRequest{Limit: 1}}); err != nil { // waits for the start
		b.Fatal(err)
	}
	v := in.currentBackend().Leader.Forecast.(*leader.Leader).Model
	stop, stopped := make(chan struct{}), make(chan time.Duration)
	go func() {
		var longest time.Duration
		defer func() { stopped <- longest }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			began := time.Now()
			v.ConfirmUpToDate(began)
			longest = max(longest, time.Since(began))
		}
	}()
	for b.Loop() {
		if _, values := scrapeMetrics(b, in); values[`waiting_tasks{role="",type="V100"}`] != waitingJobs {
			b.Fatalf("%v wait", slices.Sorted(maps.Keys(values)))
		}
	}
	close(stop)
	b.ReportMetric((<-stopped).Seconds()*1000, "ms-held-max")
}
