package apiserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/testing/documenttest"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// TestPublicFieldsAreListed checks which keys remain of documents in which every field is set, where output is private and the
// requester may not read it. A key that is added to one of the types is absent until public_fields.go and this list have it: it
// must not contain what a job keeps to itself.
func TestPublicFieldsAreListed(t *testing.T) {
	view, event, notification := filledValue[api.JobView](), filledValue[api.TaskEvent](), filledValue[api.NotificationView]()
	schedule := filledValue[api.ScheduleView]()
	ctx := withGrant(t, &access.AccessPolicy{PrivateOutput: true}, "viewer")
	const spec = `after.job after.met after.run after.state constraints.field constraints.operator constraints.value containerizer cpus disk_mib
		gang group guaranteed idle_timeout image ipc kill_grace labels.x limits.cpus limits.mem_mib max_parallel max_wait mem_mib
		min_run_time name network on_timeout owner ports.container ports.host ports.name ports.protocol ports.service preempt_after
		preemptible priority request.devices.exclude request.devices.include request.gpus request.min_cuda request.min_driver
		request.min_mem_mib request.share.cores request.share.mem_mib request.share.mem_percent request.topology
		request.types.exclude request.types.include request.types.same retries role run_time schedule.cron schedule.history
		schedule.overlap schedule.time_zone service.autoscaling.cooldown service.autoscaling.max service.autoscaling.min
		service.autoscaling.stabilization.down service.autoscaling.stabilization.up service.autoscaling.target.gpu_duty
		service.autoscaling.target.metric service.autoscaling.target.port_index service.autoscaling.target.requests_per_second
		service.autoscaling.target.value service.backoff.factor service.backoff.initial service.backoff.max service.replace_after
		service.shutdown_delay shm_mib stdin tasks timeout tty user`
	const task = `addresses agent_id agent_url attempt changed device_ids ended exit_code failures finished_as gpu_products.x gpu_types.x
		health_failure.check health_failure.failures healthy hostname id index job kill_forced kill_reason kill_wanted killed_by
		launched losses not_before ports queued ran reason run shares.cores shares.limit shares.mem_mib shares.milli shares.product shares.type
		shares.uuid started state unfit.field unfit.operator unfit.value version`
	for name, c := range map[string]struct {
		readable any
		want     []string
	}{
		"job": {readableView(ctx, new(fakeBackend), &view), slices.Concat(below("spec", spec), below("tasks", task), below("attempts", task), strings.Fields(`autoscaling.load
			autoscaling.measured autoscaling.metric autoscaling.reason autoscaling.recommended autoscaling.target autoscaling.time changes.by changes.from
			changes.keys changes.kind changes.state changes.time changes.to changes.version differs_from exit_code hold.by hold.reason hold.since number revision run start.agents start.expected start.within_50.from start.within_50.to start.within_90.from start.within_90.to state submitted task_states.RUNNING
			terminal version waits warnings`))},
		"tasks":        {readableTasks(ctx, new(fakeBackend), &view, view.Tasks), strings.Fields(task)},
		"schedule":     {readableSchedule(ctx, schedule), append(below("spec", spec), "created", "next", "runs.due", "runs.job")},
		"notification": {readableNotification(ctx, notification), strings.Fields(`attempts event given_up id job next owner role run state time`)},
		"event":        {publicEvent(&event), strings.Fields(`by job run state task time`)},
	} {
		slices.Sort(c.want)
		if diff := gocmp.Diff(c.want, documenttest.ListKeys(t, c.readable)); diff != "" {
			t.Errorf("%s (-listed +readable):\n%s", name, diff)
		}
	}
}

// TestChangesShowPublicValues checks that a change of a job's keys contains only values that publicSpec keeps.
func TestChangesShowPublicValues(t *testing.T) {
	before, after := job.Spec{}, filledValue[job.Spec]()
	shown := 0
	public := jobfile.DescribeChange(publicSpec(&before), publicSpec(&after)) + ","
	for _, change := range strings.Split(jobfile.DescribeChange(&before, &after), ", ") {
		if !strings.Contains(change, " to ") {
			continue
		}
		if shown++; !strings.Contains(public, change+",") {
			t.Errorf("the history has the value of a key that is not public: %s", change)
		}
	}
	if shown < 15 {
		t.Errorf("%d values are shown", shown)
	}
}

// neighbourBackend has the job train of role research, which was preempted for web of role prod and waits behind it.
type neighbourBackend struct{ *fakeBackend }

const behindWeb = "free ones are reserved for web, whose role deserves them; 1 task of role prod ends within 5s"

func (b neighbourBackend) GetJob(context.Context, string) (api.JobView, error) {
	v := b.view()
	v.Spec.Role = "research"
	v.WaitReason, v.Warnings = behindWeb, []string{behindWeb}
	v.Tasks = []job.Task{{
		ID: "train.0", Job: "train", State: job.Waiting, Attempt: 2, KillRequested: time.Unix(1, 0), KillReason: job.KillByPreemption, KilledBy: "web",
		Message: "attempt 1 was stopped: makes room for web: role prod deserves the GPUs",
	}}
	v.Attempts = slices.Clone(v.Tasks)
	v.Changes = []job.Change{
		{Time: time.Unix(1, 0), Kind: job.EditChange, By: "owner", Keys: "role prod to role research"},
		{Time: time.Unix(1, 0), Kind: job.HoldChange, By: "operator", Reason: "makes room for web of role prod"},
	}
	return v, nil
}

func (b neighbourBackend) ListJobs(ctx context.Context, _ request.JobQuery) (api.JobList, error) {
	v, err := b.GetJob(ctx, "train")
	return api.JobList{Jobs: []api.JobView{v}}, err
}

func (b neighbourBackend) ListQueue(context.Context, *access.Grant, api.PageRequest) (api.QueueList, error) {
	return api.QueueList{Jobs: []api.QueuedJob{{Name: "train", Role: "research", Reason: behindWeb}}}, nil
}

// TestAnswersNameNoHiddenJobs checks each way to a reason or a message: it names jobs and roles only to requesters who may see
// them, with shared and with private output.
func TestAnswersNameNoHiddenJobs(t *testing.T) {
	f := &fakeBackend{whose: map[string][2]string{"train": {"research", "owner"}, "web": {"prod", ""}}}
	f.now = []api.TaskEvent{{Job: "train", Task: "train.0", Message: "makes room for web: role prod deserves the GPUs"}}
	close(f.openChanges())
	for _, private := range []bool{false, true} {
		policy := rolePolicy()
		policy.PrivateOutput = private
		url := serveWithPolicy(t, neighbourBackend{f}, policy)
		for _, path := range []string{"/v1/jobs", "/v1/jobs/train", "/v1/jobs/train/history", "/v1/jobs/train/runs", "/v1/queue", "/v1/events"} {
			for who, sees := range map[string]bool{"operator": false, "viewer": false, "owner": false, "root": true} {
				text := getBodyAs(t, url+path, who)
				if got := strings.Contains(text, "web") || strings.Contains(text, "prod"); got != sees || !strings.Contains(text, "train") {
					t.Errorf("%s reads with private output %t at %s: %s", who, private, path, text)
				}
				if isMessage := path == "/v1/events"; !sees && !strings.Contains(text, job.AnotherJob) && (!isMessage || who == "operator" || !private) {
					t.Errorf("%s reads nothing of another job with private output %t at %s: %s", who, private, path, text)
				}
			}
		}
	}
}

// openChanges makes the streams end after the present states.
func (f *fakeBackend) openChanges() chan api.TaskEvent {
	f.changes = make(chan api.TaskEvent)
	return f.changes
}

// getBodyAs returns the answer to a request of a user.
func getBodyAs(t *testing.T, url, who string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Who", who)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s as %s: %d, %v", url, who, res.StatusCode, err)
	}
	return string(text)
}

// withGrant returns the context of a request of a user.
func withGrant(t *testing.T, p *access.AccessPolicy, user string) context.Context {
	return apihttp.WithGrant(t.Context(), p.GrantFor(access.Identity{Name: user}))
}

// below returns keys with the prefix of their object.
func below(object, keys string) (list []string) {
	for _, key := range strings.Fields(keys) {
		list = append(list, object+"."+key)
	}
	return list
}
