package framework

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestUsage: the leader reads usage files from the sandboxes of running tasks and reports
// for each file what is wrong with it.
func TestUsage(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	for _, s := range []job.Spec{frameworktest.JobSpec("train", 3, 1), frameworktest.JobSpec("plain", 1, 0)} {
		if _, err := in.SubmitJob(ctx, s); err != nil {
			t.Fatal(err)
		}
		awaitState(t, in, s.Name, job.Running)
	}
	view, err := in.GetJob(ctx, "train")
	if err != nil {
		t.Fatal(err)
	}
	put := func(index int, text string) {
		t.Helper()
		c.SetFile(master.SandboxFilePath(in.Scheduler.currentBackend().Leader.Forecast.(*leader.Leader).Model.CurrentFrameworkID(),
			view.Tasks[index].ID, gpu.UsageFile), text)
	}
	device := view.Tasks[0].DeviceIDs[0]
	put(0, fmt.Sprintf(`{"time":%q,"simulated":true,"devices":[{"uuid":%q,"duty":0.75}]}`, time.Now().Add(-2*time.Second).Format(time.RFC3339Nano), device))
	put(1, strings.Repeat("x", gpu.MaxUsageBytes+100)) // written by the task itself

	list, err := in.ListUsage(ctx, "")
	if err != nil || len(list) != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	first := list[0]
	if age := first.AgeSeconds; age == nil || *age < 2 || *age > 80 {
		t.Errorf("the age is %v, want some more than 2", age)
	}
	first.AgeSeconds = nil
	duty := 0.75
	want := api.TaskUsage{
		Task: view.Tasks[0].ID, Job: "train", Role: view.Spec.Role, Hostname: "host-1", Simulated: true,
		Devices: []gpu.DeviceUsage{{UUID: device, Duty: &duty}},
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first task (-want +got):\n%s", diff)
	}
	for i, note := range []string{1: "more than 65536 bytes", 2: "mesos-gpu agent does not run there"} {
		if got := list[i]; !strings.Contains(got.Note, note) ||
			i > 0 && (got.AgeSeconds != nil || len(got.Devices) != 1 || got.Devices[0].UUID != view.Tasks[i].DeviceIDs[0]) {
			t.Errorf("task %d: %+v, want the note %q", i, got, note)
		}
	}
	if one, err := in.ListUsage(ctx, "plain"); err != nil || len(one) != 0 {
		t.Errorf("of a job without GPUs: %+v, %v", one, err)
	}
	_, err = in.ListUsage(ctx, "gone")
	wantProblem(t, err, http.StatusNotFound, `no job "gone"`)

	// A client that may view nothing causes no requests to agents.
	nothing := (&access.AccessPolicy{}).GrantFor(access.Identity{Name: "stranger"})
	if list, err := in.Scheduler.currentBackend().Leader.Usage.ListUsage(ctx, nothing, request.UsageQuery{}); err != nil || len(list.Tasks) != 0 {
		t.Errorf("a stranger got %+v, %v", list, err)
	}
	if list, err := in.Scheduler.currentBackend().Leader.Usage.ListUsage(ctx, nil, request.UsageQuery{Role: "unknown"}); err != nil || len(list.Tasks) != 0 {
		t.Errorf("of a role without jobs: %+v, %v", list, err)
	}
}

// TestUsageIsUnavailableWithoutLeader: no usage is read before this scheduler leads.
func TestUsageIsUnavailableWithoutLeader(t *testing.T) {
	w := httptest.NewRecorder()
	apiserver.NewHandler(func() apiserver.Backend { return apiserver.NewUnavailableBackend("the scheduler is starting") }, frameworktest.DiscardLog()).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/usage", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}

// TestLeaderRecordsUsageHistory: a leader records usage from its start on and returns the
// history over HTTP.
func TestLeaderRecordsUsageHistory(t *testing.T) {
	c, journal := mesostest.NewCluster(t, 1), filepath.Join(t.TempDir(), "journal.db")
	first := startWithJournal(t, c, journal)
	ctx := frameworktest.Timeout(t)
	if _, err := first.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, first, "train", job.Running)
	view, err := first.GetJob(ctx, "train")
	if err != nil {
		t.Fatal(err)
	}
	framework := first.Scheduler.currentBackend().Leader.Forecast.(*leader.Leader).Model.CurrentFrameworkID()
	first.stopAndWait(t)
	at := time.Now().UTC().Format(time.RFC3339Nano)
	c.SetFile(master.SandboxFilePath(framework, view.Tasks[0].ID, gpu.UsageFile), fmt.Sprintf(`{"time":%q,"devices":[{"uuid":%q,"duty":1}]}`,
		at, view.Tasks[0].DeviceIDs[0]))
	in := startWithJournal(t, c, journal)
	awaitState(t, in, "train", job.Running)
	leads := in.Scheduler.currentBackend().Leader.Forecast.(*leader.Leader)
	awaitCondition(t, "the leader has looked by itself", func() bool {
		return leads.Usage.HistorySize() == 1
	})
	answer, err := http.Get("http://" + in.addr + "/v1/usage?minutes=15&agent=" + view.Tasks[0].AgentID)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list api.UsageList
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || len(list.Tasks) != 1 || list.Tasks[0].History == nil ||
		*list.Tasks[0].History.Devices[0].Duty[0] != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
}
