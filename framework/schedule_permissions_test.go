package framework

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/framework/client"
	"mesos-gpu/framework/leader"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// startGuarded starts a scheduler with TLS and the configuration's access file.
func startGuarded(t *testing.T, g *guardedConfig, clock func() time.Time) (*testInstance, string) {
	t.Helper()
	made, err := tokens()
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	fmt.Fprintln(&file, "tokens:")
	for name, m := range made {
		fmt.Fprintf(&file, "- {name: %s, hash: '%s'}\n", name, m[1])
	}
	file.WriteString(ownersFile)
	g.writeAccessFile(t, file.String())
	roles := writeRolesFile(t, "research: {}\nprod: {}\n")
	return startInstance(t, mesostest.NewCluster(t, 1),
		SchedulerConfig{Clock: clock, JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: roles, API: g.APIConfig},
		client.WithTrustedCA(g.CAFile)), file.String()
}

// A schedule submits nothing once its owner may no longer submit, and notes why.
func TestScheduleOfOwnerWithoutPermission(t *testing.T) {
	g := newGuardedConfig(t)
	var now atomic.Int64
	now.Store(time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC).Unix())
	in, file := startGuarded(t, &g, func() time.Time { return time.Unix(now.Load(), 0) })
	ctx := longTimeout(t)
	alice, ops := g.clientAs(t, "alice", in), g.clientAs(t, "ops", in)
	s := frameworktest.ScheduledSpec("nightly", "0 3 * * *")
	s.Role = "research"
	if _, err := alice.AddSchedule(ctx, s); err != nil {
		t.Fatal(err)
	}
	g.writeAccessFile(t, strings.Replace(file, "users: [alice]", "users: [web]", 1))
	if err := in.Reload(); err != nil {
		t.Fatal(err)
	}
	now.Add(2 * 3600)
	in.currentBackend().Leader.Forecast.(*leader.Leader).Schedules.SubmitDue(ctx)
	view, err := ops.GetSchedule(ctx, "nightly")
	if err != nil || !strings.Contains(view.Note, "alice may no longer submit to role research") || len(view.Runs) > 0 {
		t.Errorf("got %+v, %v", view, err)
	}
	if jobs, err := ops.ListJobs(ctx); err != nil || len(jobs) > 0 {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
	in.stopAndWait(t)
}

// A job that depends on a job its owner may not view reveals nothing about that job.
func TestDependencyOnHiddenJobReportsNothing(t *testing.T) {
	g := newGuardedConfig(t)
	in, _ := startGuarded(t, &g, nil)
	ctx := longTimeout(t)
	hidden := frameworktest.JobSpec("merger-acme", 1, 8)
	hidden.Role = "research"
	if _, err := g.clientAs(t, "alice", in).SubmitJob(ctx, hidden); err != nil {
		t.Fatal(err)
	}
	web := g.clientAs(t, "web", in)
	for _, name := range []string{"merger-acme", "merger-acmf", "merger-none"} {
		s := frameworktest.JobSpec("probe", 1, 0)
		s.Role, s.After = "prod", []job.Dependency{{Job: name}}
		_, err := web.SubmitJob(ctx, s)
		if want := fmt.Sprintf("after: there is no job %q: submit it first", name); frameworktest.StatusOf(err) != http.StatusUnprocessableEntity ||
			err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s := frameworktest.JobSpec("probe", 1, 0)
	s.Role, s.After = "prod", []job.Dependency{{Job: "merger-acmf"}}
	if _, err := g.clientAs(t, "ops", in).SubmitJob(ctx, s); err == nil || !strings.Contains(err.Error(), `did you mean "merger-acme"?`) {
		t.Errorf("a user who may view the job: %v", err)
	}
	in.stopAndWait(t)
}

// A damaged schedule does not affect others, and an operator of all roles can end it.
func TestDamagedScheduleDoesNotAffectOthers(t *testing.T) {
	g := newGuardedConfig(t)
	in, _ := startGuarded(t, &g, nil)
	ctx := longTimeout(t)
	alice, ops := g.clientAs(t, "alice", in), g.clientAs(t, "ops", in)
	add := func(name string) {
		t.Helper()
		s := frameworktest.ScheduledSpec(name, "0 3 * * *")
		s.Role = "research"
		if _, err := alice.AddSchedule(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	add("before")
	if err := leader.NewExtensionHandle(in.currentBackend().Leader.Forecast.(*leader.Leader)).PutDocuments(ctx,
		map[string][]byte{"schedule/bad": []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	add("after")
	if list, err := alice.ListSchedules(ctx); err != nil || len(list) != 2 {
		t.Errorf("got %+v, %v; want two", list, err)
	}
	if err := alice.EndSchedule(ctx, "bad"); frameworktest.StatusOf(err) != http.StatusForbidden {
		t.Errorf("alice ends the schedule: %v", err)
	}
	if err := ops.EndSchedule(ctx, "bad"); err != nil {
		t.Error(err)
	}
	in.stopAndWait(t)
}

const ownersFile = `permissions:
- {may: submit, roles: [research], users: [alice]}
- {may: operate, roles: [/], users: [ops]}
- {may: submit, roles: [prod], users: [web]}
jobs:
- {roles: [/], images: [debian], networks: [host], without_image: true}
`
