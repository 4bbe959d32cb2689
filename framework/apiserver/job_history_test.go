package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// The events of live attempts, and why the end of an attempt was requested.
func TestHistoryOfLiveTasks(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(n), 0).UTC() }
	stopped := func(i int, why job.KillReason) job.Task {
		return job.Task{ID: fmt.Sprint("s", i), Index: i, State: job.Killing, KillRequested: second(20 + i), KillReason: why, Changed: second(20 + i)}
	}
	tasks := []job.Task{
		{ID: "first", State: job.Waiting, Attempt: 1, Changed: second(1)},
		{ID: "again", State: job.Waiting, Attempt: 2, Changed: second(2), Message: "attempt 1 failed: no reason given; retry 1 of 1"},
		{ID: "staged", State: job.Staging, Attempt: 1, AgentID: "a", Launched: second(3), Changed: second(4)},
		{ID: "away", State: job.Unreachable, Started: second(5), Changed: second(6), Message: "agent away"}, // of an older release
		{ID: "old", State: job.Lost, Changed: second(7)},
		stopped(0, job.KillByTimeout), stopped(1, job.KillByPeer), stopped(2, job.KillByGangRestart), stopped(3, job.KillByScaling),
		stopped(4, job.KillByReplacement), stopped(5, job.KillByDrain), stopped(6, job.KillByUser),
	}
	h := jobHistory{run: job.RunID{Name: "j", Run: 2}, limit: 100}
	h.addSubmission(&job.Job{Spec: &job.Spec{}})
	h.addAttempts(tasks)
	var got strings.Builder
	for _, ev := range h.finish().Events {
		fmt.Fprintf(&got, "%d %s %s %s\n", max(ev.Time.Unix(), 0), ev.Task, ev.State, ev.Message)
	}
	want := `0  WAITING submitted
2 again WAITING attempt 1 failed: no reason given; retry 1 of 1
3 staged LAUNCHING attempt 1, on a
4 staged STAGING 
5 away RUNNING 
6 away UNREACHABLE agent away
7 old LOST 
20 s0 KILLING stopped after its timeout
21 s1 KILLING another task of its gang has ended
22 s2 KILLING its gang starts again
23 s3 KILLING its service was scaled down
24 s4 KILLING stopped, to be replaced
25 s5 KILLING its agent is drained
26 s6 KILLING killed
`
	if diff := gocmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// However many events there are, few are in memory, and the latest remain.
func TestHistoryIsBounded(t *testing.T) {
	h := jobHistory{run: job.RunID{Name: "j", Run: 1}, limit: 3}
	for i := range 1000 {
		h.add(api.TaskEvent{Time: time.Unix(int64(i*7%1000), 0), Task: "t", State: job.Running})
		if len(h.events) >= 6 {
			t.Fatalf("%d events in memory", len(h.events))
		}
	}
	got := h.finish()
	if n := len(got.Events); n != 3 || got.Omitted != 997 || got.Events[0].Time.Unix() != 997 || got.Events[2].Time.Unix() != 999 {
		t.Errorf("%+v", got)
	}
}

// changedBackend has the job train, which the owner has edited and held.
type changedBackend struct{ *fakeBackend }

func (b changedBackend) GetJob(context.Context, string) (api.JobView, error) {
	v := b.view()
	v.Tasks, v.Attempts = nil, nil
	v.Spec.Role, v.Spec.Owner = "research", "owner"
	v.Changes = []job.Change{
		{Time: v.Submitted.Add(time.Minute), Kind: job.EditChange, By: "owner", State: job.Running, Keys: "priority 0 to 5, env"},
		{Time: v.Submitted.Add(time.Hour), Kind: job.HoldChange, By: "owner", State: job.Waiting, Reason: "the password is wrong"},
		{Time: v.Submitted.Add(2 * time.Hour), Kind: job.ScaleChange, From: 1, To: 2, Reason: "load"}, // of an earlier release
	}
	return v, nil
}

// TestHistoryHasChanges checks the lines of changes, and that with private output the reasons of users are for those who may
// read the output.
func TestHistoryHasChanges(t *testing.T) {
	policy := rolePolicy()
	policy.PrivateOutput = true
	f := &fakeBackend{whose: map[string][2]string{"train": {"research", "owner"}}}
	url := serveWithPolicy(t, changedBackend{f}, policy)
	for who, reason := range map[string]string{"viewer": "", "owner": ": the password is wrong", "operator": ": the password is wrong"} {
		var h api.JobHistory
		if err := json.Unmarshal([]byte(getBodyAs(t, url+"/v1/jobs/train/history", who)), &h); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ev := range h.Events[1:] {
			got = append(got, fmt.Sprint(ev.Change, " ", ev.State, " by=", ev.By, " ", ev.Message))
		}
		want := []string{
			"edit RUNNING by=owner edited by owner: priority 0 to 5, env", "hold WAITING by=owner held by owner" + reason,
			"scale  by= scaled from 1 to 2 tasks: load",
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", who, diff)
		}
	}
}
