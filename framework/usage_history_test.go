package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/master"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// deviceUsage is a device's figures; negative ones are not told.
func deviceUsage(uuid string, duty, mem float64) gpu.DeviceUsage {
	d := gpu.DeviceUsage{UUID: uuid}
	if duty >= 0 {
		d.Duty = &duty
	}
	if mem >= 0 {
		d.MemUsedMiB = &mem
	}
	return d
}

// TestUsageHistoryIsBounded: what is kept is apart, not stale, of no more GPUs than the
// task has and no older than it may be.
func TestUsageHistoryIsBounded(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	u := &gpuTask{Task: job.Task{ID: "train.0"}, gpus: 1}
	var p usageHistory
	say := func(second float64, fresh bool, devices ...gpu.DeviceUsage) {
		at := began.Add(time.Duration(second * float64(time.Second)))
		measured := at
		if !fresh {
			measured = at.Add(-maxSampleAge - time.Second)
		}
		p.addSample(u, usageSample{at, gpu.TaskUsage{Time: measured, Devices: devices}, nil})
	}
	wants := func(what string, minutes int, second float64, want string) {
		t.Helper()
		now := began.Add(time.Duration(second * float64(time.Second)))
		text, err := json.Marshal(p.pastOf("train.0", now.Add(-time.Duration(minutes)*time.Minute), now))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	wants("nothing was told", 15, 0, `null`)
	say(0, true, deviceUsage("GPU-a", 0.33349, 1024.6))
	say(5, true, deviceUsage("GPU-a", 1, 2048)) // somebody looks
	say(15, true, deviceUsage("GPU-a", -1, 4096), deviceUsage("GPU-made-up", 1, 1))
	say(30, false, deviceUsage("GPU-a", 1, 1))
	p.addSample(u, usageSample{began.Add(45 * time.Second), gpu.TaskUsage{}, errors.New("the agent is gone")})
	say(60, true, deviceUsage("GPU-a", 0, -1))
	wants("a minute", 15, 61, `{"ages_seconds":[61,46,1],"devices":[{"uuid":"GPU-a","duty":[0.333,null,0],"mem_used_mib":[1025,4096,null]}]}`)
	wants("the last minute", 1, 70, `{"ages_seconds":[55,10],"devices":[{"uuid":"GPU-a","duty":[null,0],"mem_used_mib":[4096,null]}]}`)
	say(75, true, deviceUsage("GPU-other", 0.5, 1))
	wants("another device", 15, 75, `{"ages_seconds":[0],"devices":[{"uuid":"GPU-other","duty":[0.5],"mem_used_mib":[1]}]}`)
	for i := range 1000 {
		say(90+15*float64(i), true, deviceUsage("GPU-other", 0.5, float64(i)))
	}
	one := p.pastOf("train.0", began, began.Add((90+15*1000)*time.Second))
	if n := len(one.AgesSeconds); n < 59 || n > maxSamplesPerTask || one.AgesSeconds[0] > historyLength.Seconds()+15 || *one.Devices[0].MemUsedMiB[n-1] != 999 {
		t.Errorf("%d values, the oldest of %g s ago, the newest %g; want 59 to %d, %s and 999", n, one.AgesSeconds[0], *one.Devices[0].MemUsedMiB[n-1], maxSamplesPerTask, historyLength)
	}
	for i := range 1000 {
		say(1e6+minSampleDistance.Seconds()*float64(i), true, deviceUsage("GPU-other", 0.5, 1))
	}
	if n, most := len(p.byTask["train.0"].times), cap(p.byTask["train.0"].values); n != maxSamplesPerTask || most > 2*maxSamplesPerTask {
		t.Errorf("%d values in room for %d, want %d and %d at most", n, most, maxSamplesPerTask, 2*maxSamplesPerTask)
	}
	p.dropEndedTasks(nil)
	wants("it has ended", 15, 1e6, `null`)
}

// leaderOfTasks is a leader of so many tasks of one GPU, whose agent is m.
func leaderOfTasks(t testing.TB, m *mesostest.FakeCluster, tasks int, transport http.RoundTripper) *leaderBackend {
	t.Helper()
	client, err := master.New(master.ConnectionConfig{Master: m.URL(), Transport: transport, ExecutorPath: "/usr/bin/mesos-gpu", Log: discardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	l := newTestLoop(&orderedJournal{})
	c := changeOf()
	c.FrameworkID = "f1"
	for i := range tasks {
		j := viewedJob(fmt.Sprintf("train-%d", i), int64(i), job.Running)
		j.Spec.Request.GPUs, j.Tasks[0].AgentURL, j.Tasks[0].AgentID = 1, m.AgentURL(), fmt.Sprint("a", i%2)
		c.Jobs, c.Tasks = append(c.Jobs, j), append(c.Tasks, j.Tasks...)
	}
	l.view.Apply(c)
	return &leaderBackend{clusterReader: clusterReader{view: l.view, client: client}, loop: l}
}

// writeUsage has the agent tell of a task.
func writeUsage(m *mesostest.FakeCluster, b *leaderBackend, id string, at time.Time, duty float64) {
	name, _, _ := strings.Cut(id, ".")
	m.SetFile(master.SandboxFilePath(b.view.currentFrameworkID(), id, gpu.UsageFile), fmt.Sprintf(`{"time":%q,"devices":[{"uuid":"GPU-%s","duty":%g,"mem_used_mib":512}]}`, at.Format(time.RFC3339Nano), name, duty))
}

// TestUsageIsSampledWithoutRequests: the leader looks every 15 s though nobody asks, so
// that who comes later sees what was before, and forgets tasks that end.
func TestUsageIsSampledWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mesostest.NewCluster(t, 1, mesostest.InMemory())
		b := leaderOfTasks(t, m, 2, m.Transport())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		for i := range 4 {
			writeUsage(m, b, "train-0.0", time.Now(), float64(i)/4)
			if i == 0 {
				go func() { ended <- b.collectUsageHistory(ctx) }()
			} else {
				time.Sleep(historyInterval)
			}
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		list, err := b.ListUsage(t.Context(), api.UsageQuery{Task: "train-0.0", Minutes: 15})
		if err != nil || len(list.Tasks) != 1 || list.Tasks[0].History == nil {
			t.Fatalf("got %+v, %v", list, err)
		}
		text, _ := json.Marshal(list.Tasks[0].History)
		if want := `{"ages_seconds":[47,32,17,2],"devices":[{"uuid":"GPU-train-0","duty":[0,0.25,0.5,0.75],"mem_used_mib":[512,512,512,512]}]}`; string(text) != want {
			t.Errorf("got %s, want %s", text, want)
		}
		if list, err := b.ListUsage(t.Context(), api.UsageQuery{Agent: "a1", Minutes: 15}); err != nil || len(list.Tasks) != 1 || list.Tasks[0].Job != "train-1" || list.Tasks[0].History != nil {
			t.Errorf("of an agent that tells nothing: %+v, %v", list, err)
		}
		if list, err := b.ListUsage(t.Context(), api.UsageQuery{Job: "train-0"}); err != nil || len(list.Tasks) != 1 || list.Tasks[0].History != nil {
			t.Errorf("nobody asked for the past: %+v, %v", list, err)
		}
		b.view.Apply(changeOf(viewedJob("train-0", 0, job.Finished)))
		time.Sleep(historyInterval)
		synctest.Wait()
		if n := len(b.usage.history.byTask); n != 0 {
			t.Errorf("%d pasts of tasks that have ended", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestUsageSamplingRate: 200 files a second at most, and who looks in the
// middle of it waits for one batch and not for all, though agents are silent.
func TestUsageSamplingRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s usageCollector
		users := make([]gpuTask, 1000)
		for i := range users {
			users[i] = gpuTask{Task: job.Task{ID: fmt.Sprint(i)}, gpus: 1}
		}
		var files atomic.Int32
		silent := false
		read := func(ctx context.Context, _ *job.Task) (gpu.TaskUsage, error) {
			files.Add(1)
			if silent {
				time.Sleep(usageReadTimeout)
				return gpu.TaskUsage{}, context.DeadlineExceeded
			}
			return gpu.TaskUsage{Time: time.Now(), Devices: []gpu.DeviceUsage{deviceUsage("GPU-a", 1, 1)}}, nil
		}
		began := time.Now()
		s.sampleTasks(t.Context(), users, read)
		if took := time.Since(began); files.Load() != 1000 || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("%d files in %s, want 1000 in 5 to 6 s", files.Load(), took)
		}
		if n := len(s.history.byTask); n != 1000 {
			t.Errorf("%d pasts, want 1000", n)
		}
		time.Sleep(sampleLifetime)
		silent = true
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.sampleTasks(ctx, users, read) }()
		time.Sleep(time.Second)
		began = time.Now()
		if _, err := s.collectUsage(t.Context(), users[999:], read); err != nil || time.Since(began) > 3*usageReadTimeout {
			t.Errorf("who looks waited %s, %v; want at most %s", time.Since(began), err, 3*usageReadTimeout)
		}
		cancel()
		<-ended
	})
}

// TestLeaderRecordsUsageHistory: it is part of leading, begins with it, and is answered
// over HTTP.
func TestLeaderRecordsUsageHistory(t *testing.T) {
	c, journal := mesostest.NewCluster(t, 1), filepath.Join(t.TempDir(), "journal.db")
	first := startWithJournal(t, c, journal)
	ctx := testTimeout(t)
	if _, err := first.SubmitJob(ctx, testSpec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, first, "train", job.Running)
	view, err := first.GetJob(ctx, "train")
	if err != nil {
		t.Fatal(err)
	}
	framework := first.Scheduler.currentBackend().Leader.(*leaderBackend).view.currentFrameworkID()
	first.stopAndWait(t)
	at := time.Now().UTC().Format(time.RFC3339Nano)
	c.SetFile(master.SandboxFilePath(framework, view.Tasks[0].ID, gpu.UsageFile), fmt.Sprintf(`{"time":%q,"devices":[{"uuid":%q,"duty":1}]}`, at, view.Tasks[0].DeviceIDs[0]))
	in := startWithJournal(t, c, journal)
	awaitState(t, in, "train", job.Running)
	leads := in.Scheduler.currentBackend().Leader.(*leaderBackend)
	awaitCondition(t, "the leader has looked by itself", func() bool {
		leads.usage.history.mu.Lock()
		defer leads.usage.history.mu.Unlock()
		return len(leads.usage.history.byTask) == 1
	})
	answer, err := http.Get("http://" + in.addr + "/v1/usage?minutes=15&agent=" + view.Tasks[0].AgentID)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list api.UsageList
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || len(list.Tasks) != 1 || list.Tasks[0].History == nil || *list.Tasks[0].History.Devices[0].Duty[0] != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

// BenchmarkPast is what is kept of 8,000 tasks with a GPU each, or of 1,000
// with 8, once it is full.
func BenchmarkPast(b *testing.B) {
	for _, gpus := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d-gpus", gpus), func(b *testing.B) {
			users := make([]gpuTask, 8000/gpus)
			for i := range users {
				users[i] = gpuTask{Task: job.Task{ID: fmt.Sprintf("train-%06d.0.1.c8dbz5x2q6a5", i)}, gpus: gpus}
			}
			for b.Loop() {
				var p usageHistory
				before := heapBytes()
				for n := range 2 * maxSamplesPerTask {
					at := time.Unix(int64(n)*int64(minSampleDistance/time.Second), 0)
					for i := range users {
						p.addSample(&users[i], usageSample{at, gpu.TaskUsage{Time: at, Devices: namedDevices(gpus, i)}, nil})
					}
				}
				b.ReportMetric(float64(heapBytes()-before)/(1<<20), "MiB/8000-GPUs")
				runtime.KeepAlive(&p)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func namedDevices(gpus, task int) []gpu.DeviceUsage {
	list := make([]gpu.DeviceUsage, gpus)
	for d := range list {
		list[d] = deviceUsage(fmt.Sprintf("GPU-5a1c7d3e-0000-4000-%04d-%012d", d, task), 0.5, 40960)
	}
	return list
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkSample reads tasks' files over HTTP as the leader does; one operation
// is a file. CPU time is that of the made-up agent too, which is in this process.
func BenchmarkSample(b *testing.B) {
	m := mesostest.NewCluster(b, 1)
	leads := leaderOfTasks(b, m, 1, nil)
	now := time.Now()
	writeUsage(m, leads, "train-0.0", now, 0.5)
	users, err := leads.view.runningGPUTasks(api.UsageQuery{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := leads.readUsage(b.Context(), &users[0].Task); err != nil {
		b.Fatal(err)
	}
	spent := processCPUTime(b)
	for b.Loop() {
		if _, err := leads.readUsage(b.Context(), &users[0].Task); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((processCPUTime(b)-spent).Microseconds())/float64(b.N), "cpu-µs/file")
}

// BenchmarkUsageAnswer is what a page of a job with 8 GPUs gets.
func BenchmarkUsageAnswer(b *testing.B) {
	m := mesostest.NewCluster(b, 1)
	leads := leaderOfTasks(b, m, 8, nil)
	users, err := leads.view.runningGPUTasks(api.UsageQuery{})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	for n := range maxSamplesPerTask {
		at := now.Add(-historyLength + time.Duration(n+1)*minSampleDistance)
		for i := range users {
			leads.usage.history.addSample(&users[i], usageSample{at, gpu.TaskUsage{Time: at, Devices: []gpu.DeviceUsage{deviceUsage("GPU-a", float64(n%10)/10, 40960+float64(n))}}, nil})
		}
	}
	h := api.NewHandler(func() api.Backend { return api.NewLeaderBackend(leads) }, discardLog())
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/usage?minutes=15", nil))
		b.ReportMetric(float64(w.Body.Len()), "B/answer")
	}
}
