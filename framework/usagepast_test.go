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

// used is a device's figures; negative ones are not told.
func used(uuid string, duty, mem float64) gpu.DeviceUsage {
	d := gpu.DeviceUsage{UUID: uuid}
	if duty >= 0 {
		d.Duty = &duty
	}
	if mem >= 0 {
		d.MemUsedMiB = &mem
	}
	return d
}

// TestPastIsBounded: what is kept is apart, not stale, of no more GPUs than the
// task has and no older than it may be.
func TestPastIsBounded(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	u := &user{Task: job.Task{ID: "train.0"}, gpus: 1}
	var p pasts
	say := func(second float64, fresh bool, devices ...gpu.DeviceUsage) {
		at := began.Add(time.Duration(second * float64(time.Second)))
		measured := at
		if !fresh {
			measured = at.Add(-usageStale - time.Second)
		}
		p.note(u, told{at, gpu.Usage{Time: measured, Devices: devices}, nil})
	}
	wants := func(what string, minutes int, second float64, want string) {
		t.Helper()
		now := began.Add(time.Duration(second * float64(time.Second)))
		text, err := json.Marshal(p.last("train.0", now.Add(-time.Duration(minutes)*time.Minute), now))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	wants("nothing was told", 15, 0, `null`)
	say(0, true, used("GPU-a", 0.33349, 1024.6))
	say(5, true, used("GPU-a", 1, 2048)) // somebody looks
	say(15, true, used("GPU-a", -1, 4096), used("GPU-made-up", 1, 1))
	say(30, false, used("GPU-a", 1, 1))
	p.note(u, told{began.Add(45 * time.Second), gpu.Usage{}, errors.New("the agent is gone")})
	say(60, true, used("GPU-a", 0, -1))
	wants("a minute", 15, 61, `{"ages_seconds":[61,46,1],"devices":[{"uuid":"GPU-a","duty":[0.333,null,0],"mem_used_mib":[1025,4096,null]}]}`)
	wants("the last minute", 1, 70, `{"ages_seconds":[55,10],"devices":[{"uuid":"GPU-a","duty":[null,0],"mem_used_mib":[4096,null]}]}`)
	say(75, true, used("GPU-other", 0.5, 1))
	wants("another device", 15, 75, `{"ages_seconds":[0],"devices":[{"uuid":"GPU-other","duty":[0.5],"mem_used_mib":[1]}]}`)
	for i := range 1000 {
		say(90+15*float64(i), true, used("GPU-other", 0.5, float64(i)))
	}
	one := p.last("train.0", began, began.Add((90+15*1000)*time.Second))
	if n := len(one.AgesSeconds); n < 59 || n > pastPoints || one.AgesSeconds[0] > pastKept.Seconds()+15 || *one.Devices[0].MemUsedMiB[n-1] != 999 {
		t.Errorf("%d values, the oldest of %g s ago, the newest %g; want 59 to %d, %s and 999", n, one.AgesSeconds[0], *one.Devices[0].MemUsedMiB[n-1], pastPoints, pastKept)
	}
	for i := range 1000 {
		say(1e6+pastApart.Seconds()*float64(i), true, used("GPU-other", 0.5, 1))
	}
	if n, most := len(p.byTask["train.0"].at), cap(p.byTask["train.0"].told); n != pastPoints || most > 2*pastPoints {
		t.Errorf("%d values in room for %d, want %d and %d at most", n, most, pastPoints, 2*pastPoints)
	}
	p.forget(nil)
	wants("it has ended", 15, 1e6, `null`)
}

// asked is a leader of so many tasks of one GPU, whose agent is m.
func asked(t testing.TB, m *mesostest.Cluster, tasks int, transport http.RoundTripper) *leader {
	t.Helper()
	client, err := master.New(master.Config{Master: m.URL(), Transport: transport, ExecutorPath: "/usr/bin/mesos-gpu", Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	l := testLoop(&diary{})
	c := change()
	c.FrameworkID = "f1"
	for i := range tasks {
		j := viewedJob(fmt.Sprintf("train-%d", i), int64(i), job.Running)
		j.Spec.Request.GPUs, j.Tasks[0].AgentURL, j.Tasks[0].AgentID = 1, m.AgentURL(), fmt.Sprint("a", i%2)
		c.Jobs, c.Tasks = append(c.Jobs, j), append(c.Tasks, j.Tasks...)
	}
	l.view.Apply(c)
	return &leader{reader: reader{view: l.view, client: client}, loop: l}
}

// writes has the agent tell of a task.
func writes(m *mesostest.Cluster, b *leader, id string, at time.Time, duty float64) {
	name, _, _ := strings.Cut(id, ".")
	m.SetFile(master.SandboxFile(b.view.framework(), id, gpu.UsageFile), fmt.Sprintf(`{"time":%q,"devices":[{"uuid":"GPU-%s","duty":%g,"mem_used_mib":512}]}`, at.Format(time.RFC3339Nano), name, duty))
}

// TestPastIsKeptForWhoComes: the leader looks every 15 s though nobody asks, so
// that who comes later sees what was before, and forgets tasks that end.
func TestPastIsKeptForWhoComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mesostest.NewCluster(t, 1, mesostest.InMemory())
		b := asked(t, m, 2, m.Transport())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		for i := range 4 {
			writes(m, b, "train-0.0", time.Now(), float64(i)/4)
			if i == 0 {
				go func() { ended <- b.keepUsage(ctx) }()
			} else {
				time.Sleep(pastEvery)
			}
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		list, err := b.Usage(t.Context(), api.UsageQuery{Task: "train-0.0", Minutes: 15})
		if err != nil || len(list.Tasks) != 1 || list.Tasks[0].Past == nil {
			t.Fatalf("got %+v, %v", list, err)
		}
		text, _ := json.Marshal(list.Tasks[0].Past)
		if want := `{"ages_seconds":[47,32,17,2],"devices":[{"uuid":"GPU-train-0","duty":[0,0.25,0.5,0.75],"mem_used_mib":[512,512,512,512]}]}`; string(text) != want {
			t.Errorf("got %s, want %s", text, want)
		}
		if list, err := b.Usage(t.Context(), api.UsageQuery{Agent: "a1", Minutes: 15}); err != nil || len(list.Tasks) != 1 || list.Tasks[0].Job != "train-1" || list.Tasks[0].Past != nil {
			t.Errorf("of an agent that tells nothing: %+v, %v", list, err)
		}
		if list, err := b.Usage(t.Context(), api.UsageQuery{Job: "train-0"}); err != nil || len(list.Tasks) != 1 || list.Tasks[0].Past != nil {
			t.Errorf("nobody asked for the past: %+v, %v", list, err)
		}
		b.view.Apply(change(viewedJob("train-0", 0, job.Finished)))
		time.Sleep(pastEvery)
		synctest.Wait()
		if n := len(b.usages.past.byTask); n != 0 {
			t.Errorf("%d pasts of tasks that have ended", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAgentsAreSampledSlowly: 200 files a second at most, and who looks in the
// middle of it waits for one batch and not for all, though agents are silent.
func TestAgentsAreSampledSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s usages
		users := make([]user, 1000)
		for i := range users {
			users[i] = user{Task: job.Task{ID: fmt.Sprint(i)}, gpus: 1}
		}
		var files atomic.Int32
		silent := false
		read := func(ctx context.Context, _ *job.Task) (gpu.Usage, error) {
			files.Add(1)
			if silent {
				time.Sleep(usagePatience)
				return gpu.Usage{}, context.DeadlineExceeded
			}
			return gpu.Usage{Time: time.Now(), Devices: []gpu.DeviceUsage{used("GPU-a", 1, 1)}}, nil
		}
		began := time.Now()
		s.sample(t.Context(), users, read)
		if took := time.Since(began); files.Load() != 1000 || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("%d files in %s, want 1000 in 5 to 6 s", files.Load(), took)
		}
		if n := len(s.past.byTask); n != 1000 {
			t.Errorf("%d pasts, want 1000", n)
		}
		time.Sleep(usageKept)
		silent = true
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.sample(ctx, users, read) }()
		time.Sleep(time.Second)
		began = time.Now()
		if _, err := s.of(t.Context(), users[999:], read); err != nil || time.Since(began) > 3*usagePatience {
			t.Errorf("who looks waited %s, %v; want at most %s", time.Since(began), err, 3*usagePatience)
		}
		cancel()
		<-ended
	})
}

// TestLeadersKeepThePast: it is part of leading, begins with it, and is answered
// over HTTP.
func TestLeadersKeepThePast(t *testing.T) {
	c, journal := mesostest.NewCluster(t, 1), filepath.Join(t.TempDir(), "journal.db")
	first := run(t, c, journal)
	ctx := within(t)
	if _, err := first.Submit(ctx, spec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, first, "train", job.Running)
	view, err := first.Job(ctx, "train")
	if err != nil {
		t.Fatal(err)
	}
	framework := first.Scheduler.backend().(*leader).view.framework()
	first.end(t)
	at := time.Now().UTC().Format(time.RFC3339Nano)
	c.SetFile(master.SandboxFile(framework, view.Tasks[0].ID, gpu.UsageFile), fmt.Sprintf(`{"time":%q,"devices":[{"uuid":%q,"duty":1}]}`, at, view.Tasks[0].DeviceIDs[0]))
	in := run(t, c, journal)
	awaitState(t, in, "train", job.Running)
	leads := in.Scheduler.backend().(*leader)
	await(t, "the leader has looked by itself", func() bool {
		leads.usages.past.mu.Lock()
		defer leads.usages.past.mu.Unlock()
		return len(leads.usages.past.byTask) == 1
	})
	answer, err := http.Get("http://" + in.addr + "/v1/usage?minutes=15&agent=" + view.Tasks[0].AgentID)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list api.UsageList
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || len(list.Tasks) != 1 || list.Tasks[0].Past == nil || *list.Tasks[0].Past.Devices[0].Duty[0] != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}

// BenchmarkPast is what is kept of 8,000 tasks with a GPU each, or of 1,000
// with 8, once it is full.
func BenchmarkPast(b *testing.B) {
	for _, gpus := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d-gpus", gpus), func(b *testing.B) {
			users := make([]user, 8000/gpus)
			for i := range users {
				users[i] = user{Task: job.Task{ID: fmt.Sprintf("train-%06d.0.1.c8dbz5x2q6a5", i)}, gpus: gpus}
			}
			for b.Loop() {
				var p pasts
				before := heap()
				for n := range 2 * pastPoints {
					at := time.Unix(int64(n)*int64(pastApart/time.Second), 0)
					for i := range users {
						p.note(&users[i], told{at, gpu.Usage{Time: at, Devices: named(gpus, i)}, nil})
					}
				}
				b.ReportMetric(float64(heap()-before)/(1<<20), "MiB/8000-GPUs")
				runtime.KeepAlive(&p)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func named(gpus, task int) []gpu.DeviceUsage {
	list := make([]gpu.DeviceUsage, gpus)
	for d := range list {
		list[d] = used(fmt.Sprintf("GPU-5a1c7d3e-0000-4000-%04d-%012d", d, task), 0.5, 40960)
	}
	return list
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkSample reads tasks' files over HTTP as the leader does; one operation
// is a file. CPU time is that of the made-up agent too, which is in this process.
func BenchmarkSample(b *testing.B) {
	m := mesostest.NewCluster(b, 1)
	leads := asked(b, m, 1, nil)
	now := time.Now()
	writes(m, leads, "train-0.0", now, 0.5)
	users, err := leads.view.users(api.UsageQuery{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := leads.readUsage(b.Context(), &users[0].Task); err != nil {
		b.Fatal(err)
	}
	spent := cpu(b)
	for b.Loop() {
		if _, err := leads.readUsage(b.Context(), &users[0].Task); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-spent).Microseconds())/float64(b.N), "cpu-µs/file")
}

// BenchmarkUsageAnswer is what a page of a job with 8 GPUs gets.
func BenchmarkUsageAnswer(b *testing.B) {
	m := mesostest.NewCluster(b, 1)
	leads := asked(b, m, 8, nil)
	users, err := leads.view.users(api.UsageQuery{})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	for n := range pastPoints {
		at := now.Add(-pastKept + time.Duration(n+1)*pastApart)
		for i := range users {
			leads.usages.past.note(&users[i], told{at, gpu.Usage{Time: at, Devices: []gpu.DeviceUsage{used("GPU-a", float64(n%10)/10, 40960+float64(n))}}, nil})
		}
	}
	h := api.Handler(func() api.Backend { return leads }, quiet())
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/usage?minutes=15", nil))
		b.ReportMetric(float64(w.Body.Len()), "B/answer")
	}
}
