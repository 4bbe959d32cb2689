package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// agentUsage is a collector for the tasks of one agent, with its reader.
type agentUsage struct {
	*Collector
	reader *clusterview.Reader
}

// collectorOfTasks returns a collector for tasks with one GPU each on agent m.
func collectorOfTasks(t testing.TB, m *mesostest.FakeCluster, tasks int, transport http.RoundTripper) agentUsage {
	t.Helper()
	client, err := master.New(master.ConnectionConfig{Master: m.URL(), Transport: transport, ExecutorPath: "/usr/bin/mesos-gpu", Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	model := readmodel.New(journal.JournalContents{})
	c := frameworktest.ChangeOf()
	c.FrameworkID = "f1"
	for i := range tasks {
		j := frameworktest.JobInStates(fmt.Sprintf("train-%d", i), int64(i), job.Running)
		j.Spec.Request.GPUs, j.Tasks[0].AgentURL, j.Tasks[0].AgentID = 1, m.AgentURL(), fmt.Sprint("a", i%2)
		c.Jobs, c.Tasks = append(c.Jobs, j), append(c.Tasks, j.Tasks...)
	}
	model.ApplyChange(c)
	reader := &clusterview.Reader{Model: model, Client: client}
	return agentUsage{New(model, reader.ReadUsage), reader}
}

// writeUsage writes a task's usage file.
func writeUsage(m *mesostest.FakeCluster, b agentUsage, id string, at time.Time, duty float64) {
	name, _, _ := strings.Cut(id, ".")
	m.SetFile(master.SandboxFilePath(b.model.CurrentFrameworkID(), id, gpu.UsageFile), fmt.Sprintf(`{"time":%q,"devices":[{"uuid":"GPU-%s","duty":%g,"mem_used_mib":512}]}`,
		at.Format(time.RFC3339Nano), name, duty))
}

// TestUsageIsSampledWithoutRequests: the leader samples every 15 s without any requests, so
// that later clients see the history. It deletes the history of ended tasks.
func TestUsageIsSampledWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mesostest.NewCluster(t, 1, mesostest.InMemory())
		b := collectorOfTasks(t, m, 2, m.Transport())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		for i := range 4 {
			writeUsage(m, b, "train-0.0", time.Now(), float64(i)/4)
			if i == 0 {
				go func() { ended <- b.RecordHistory(ctx) }()
			} else {
				time.Sleep(historyInterval)
			}
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		list, err := b.ListUsage(t.Context(), nil, request.UsageQuery{Task: "train-0.0", Minutes: 15})
		if err != nil || len(list.Tasks) != 1 || list.Tasks[0].History == nil {
			t.Fatalf("got %+v, %v", list, err)
		}
		text, _ := json.Marshal(list.Tasks[0].History)
		if want := `{"ages_seconds":[47,32,17,2],"devices":[{"uuid":"GPU-train-0","duty":[0,0.25,0.5,0.75],"mem_used_mib":[512,512,512,512]}]}`; string(text) != want {
			t.Errorf("got %s, want %s", text, want)
		}
		if list, err := b.ListUsage(t.Context(), nil, request.UsageQuery{Agent: "a1", Minutes: 15}); err != nil ||
			len(list.Tasks) != 1 || list.Tasks[0].Job != "train-1" || list.Tasks[0].History != nil {
			t.Errorf("agent without an answer: %+v, %v", list, err)
		}
		if list, err := b.ListUsage(t.Context(), nil, request.UsageQuery{Job: "train-0"}); err != nil || len(list.Tasks) != 1 || list.Tasks[0].History != nil {
			t.Errorf("history without a request for it: %+v, %v", list, err)
		}
		b.model.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("train-0", 0, job.Finished)))
		time.Sleep(historyInterval)
		synctest.Wait()
		if n := len(b.history.byTask); n != 0 {
			t.Errorf("%d pasts of tasks that have ended", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestUsageSamplingRate: sampling reads at most 200 files a second, and a client's request
// meanwhile waits for one batch only, even if agents do not answer.
func TestUsageSamplingRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Collector
		users := make([]readmodel.GPUTask, 1000)
		for i := range users {
			users[i] = readmodel.GPUTask{Task: job.Task{ID: fmt.Sprint(i)}, GPUs: 1}
		}
		var files atomic.Int32
		silent := false
		read := func(ctx context.Context, _ *job.Task) (gpu.TaskUsage, error) {
			files.Add(1)
			if silent {
				time.Sleep(clusterview.UsageReadTimeout)
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
		if _, err := s.collectUsage(t.Context(), users[999:], read); err != nil || time.Since(began) > 3*clusterview.UsageReadTimeout {
			t.Errorf("who looks waited %s, %v; want at most %s", time.Since(began), err, 3*clusterview.UsageReadTimeout)
		}
		cancel()
		<-ended
	})
}

// BenchmarkSample reads tasks' usage files over HTTP as the leader does; one operation is
// one file. CPU time includes the fake agent, which runs in this process.
func BenchmarkSample(b *testing.B) {
	m := mesostest.NewCluster(b, 1)
	leads := collectorOfTasks(b, m, 1, nil)
	now := time.Now()
	writeUsage(m, leads, "train-0.0", now, 0.5)
	users, err := leads.model.RunningGPUTasks(request.UsageQuery{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := leads.reader.ReadUsage(b.Context(), &users[0].Task); err != nil {
		b.Fatal(err)
	}
	spent := cputime.Read(b)
	for b.Loop() {
		if _, err := leads.reader.ReadUsage(b.Context(), &users[0].Task); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cputime.Read(b)-spent).Microseconds())/float64(b.N), "cpu-µs/file")
}

// BenchmarkUsageAnswer measures the answer with the usage of a job with 8 GPUs.
func BenchmarkUsageAnswer(b *testing.B) {
	m := mesostest.NewCluster(b, 1)
	leads := collectorOfTasks(b, m, 8, nil)
	users, err := leads.model.RunningGPUTasks(request.UsageQuery{})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	for n := range maxSamplesPerTask {
		at := now.Add(-historyLength + time.Duration(n+1)*minSampleDistance)
		for i := range users {
			leads.history.addSample(&users[i], usageSample{at,
				gpu.TaskUsage{Time: at, Devices: []gpu.DeviceUsage{deviceUsage("GPU-a", float64(n%10)/10, 40960+float64(n))}},
				nil})
		}
	}
	h := apiserver.NewHandler(func() apiserver.Backend {
		return apiserver.Backend{Leader: &apiserver.LeaderBackend{Usage: leads.Collector}}
	}, frameworktest.DiscardLog())
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/usage?minutes=15", nil))
		b.ReportMetric(float64(w.Body.Len()), "B/answer")
	}
}

// TestUsageHidesInvisibleTasks: tasks of roles that the requester may not see are omitted, and
// do not count towards a page's limit.
func TestUsageHidesInvisibleTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mesostest.NewCluster(t, 1, mesostest.InMemory())
		b := collectorOfTasks(t, m, 0, m.Transport())
		for i, role := range []string{"prod", "research", "prod", "research"} {
			j := frameworktest.JobInStates(fmt.Sprint(role, i), int64(i), job.Running)
			j.Spec.Role, j.Spec.Request.GPUs, j.Tasks[0].AgentURL = role, 1, m.AgentURL()
			b.model.ApplyChange(frameworktest.ChangeOf(j))
		}
		rule := func(role, user string) access.PermissionRule {
			return access.PermissionRule{Permission: access.View, Roles: []string{role}, Users: []string{user}}
		}
		p := &access.AccessPolicy{Rules: []access.PermissionRule{rule("research", "viewer"), rule("prod", "stranger"), rule("/", "root")}}
		for user, want := range map[string]string{"viewer": "research1 research3", "stranger": "prod0 prod2", "root": "prod0 research1"} {
			list, err := b.ListUsage(t.Context(), p.GrantFor(access.Identity{Name: user}), request.UsageQuery{PageRequest: api.PageRequest{Limit: 2}})
			if err != nil || len(list.Tasks) != 2 || list.Tasks[0].Job+" "+list.Tasks[1].Job != want {
				t.Errorf("%s sees %+v, %v, want %q", user, list.Tasks, err, want)
			}
		}
	})
}
