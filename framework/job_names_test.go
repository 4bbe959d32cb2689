package framework

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// startTwoRoles starts a scheduler on which alice submits to the role research, bob to prod, ops operates all roles, and web
// sees prod.
func startTwoRoles(t *testing.T) (*testInstance, guardedConfig) {
	t.Helper()
	g := newGuardedConfig(t)
	text, err := os.ReadFile(g.AccessFile)
	if err != nil {
		t.Fatal(err)
	}
	g.writeAccessFile(t, strings.NewReplacer(
		"roles: [research], users: [alice, bob]", "roles: [research], users: [alice]}\n- {may: submit, roles: [prod], users: [bob]",
		"{roles: [research], images", "{roles: [/], images",
	).Replace(string(text)))
	cfg := SchedulerConfig{
		JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: writeRolesFile(t, "research: {}\nprod: {}\n"), API: g.APIConfig,
	}
	return startInstance(t, mesostest.NewCluster(t, 4), cfg, client.WithTrustedCA(g.CAFile)), g
}

// A job is named by its name, OWNER/NAME or its number; a job that the requester may not see is answered like one that does not exist.
func TestJobsAreNamedByOwnerAndNumber(t *testing.T) {
	in, g := startTwoRoles(t)
	ctx := longTimeout(t)
	alice, bob, ops := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in)
	first, err := alice.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	second, err := bob.SubmitJob(ctx, frameworktest.JobSpec("eval", 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if first.Number != 1 || second.Number != 2 {
		t.Errorf("the jobs have the numbers %d and %d, want 1 and 2", first.Number, second.Number)
	}
	for _, name := range []string{"train", "alice/train", "1", "train@1", "alice/train@1"} {
		for who, c := range map[string]*client.Client{"alice": alice, "ops": ops} {
			if view, err := c.GetJob(ctx, name); err != nil || view.Number != 1 || view.Spec.Owner != "alice" {
				t.Errorf("%s of %s is job %d, %v", name, who, view.Number, err)
			}
		}
		_, err := bob.GetJob(ctx, name)
		wantProblem(t, err, http.StatusNotFound, "there is no job "+strconv.Quote(name))
		wantProblem(t, bob.KillJob(ctx, name), http.StatusNotFound, "there is no job "+strconv.Quote(name))
	}
	for _, name := range []string{"bob/train", "3", "alice/eval"} {
		_, err := ops.GetJob(ctx, name)
		wantProblem(t, err, http.StatusNotFound, "there is no job "+strconv.Quote(name))
	}
	if err := ops.KillJob(ctx, "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.WaitForJob(ctx, "alice/train"); err != nil {
		t.Fatal(err)
	}
	again, err := alice.RerunJob(ctx, "1", api.RerunRequest{})
	if err != nil || again.Number != 3 || again.Run != 2 || again.DiffersFrom != 0 {
		t.Errorf("the second run has the number %d, run %d, differs from %d, %v", again.Number, again.Run, again.DiffersFrom, err)
	}
	if view, err := alice.GetJob(ctx, "1"); err != nil || view.Run != 1 {
		t.Errorf("1 is run %d, %v: want the run that has the number", view.Run, err)
	}
	in.stopAndWait(t)
}

// endJob kills a job and waits for its end.
func endJob(t *testing.T, c *client.Client, name string) {
	t.Helper()
	ctx := longTimeout(t)
	if err := c.KillJob(ctx, name); err != nil {
		t.Fatal(err)
	}
	if view, err := c.WaitForJob(ctx, name); err != nil || view.State != job.Killed {
		t.Fatalf("%s is %s, %v", name, view.State, err)
	}
}

// runsOf returns the owners and runs of listed jobs.
func runsOf(t *testing.T, list func(context.Context) ([]api.JobView, error)) string {
	t.Helper()
	jobs, err := list(longTimeout(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range jobs {
		names = append(names, jobs[i].Spec.Owner+"/"+jobs[i].RunID().String())
	}
	return strings.Join(names, " ")
}

// Two users have jobs of one name at the same time. A name means the requester's own job; a user who sees several names one,
// and an answer names no job that its reader may not see.
func TestNamesBelongToTheirOwner(t *testing.T) {
	in, g := startTwoRoles(t)
	ctx := longTimeout(t)
	alice, bob, ops := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in)
	spec := frameworktest.JobSpec("train", 1, 0)
	if _, err := alice.SubmitJob(ctx, spec); err != nil {
		t.Fatal(err)
	}
	_, err := alice.SubmitJob(ctx, spec)
	wantProblem(t, err, http.StatusConflict, `job "train" is `)
	other := spec
	other.Env = map[string]string{"EPOCHS": "2"}
	if of, err := bob.SubmitJob(ctx, other); err != nil || of.Run != 2 || of.Spec.Role != "prod" || of.DiffersFrom != 0 {
		t.Fatalf("bob's job: run %d, differs from %d, %v", of.Run, of.DiffersFrom, err)
	}

	for _, c := range []struct {
		who       string
		client    *client.Client
		reference string
		want      int // the run, 0 if there is no such job
	}{
		{"alice", alice, "train", 1}, {"alice", alice, "train@1", 1}, {"alice", alice, "1", 1}, {"alice", alice, "train@2", 0},
		{"alice", alice, "bob/train", 0}, {"alice", alice, "2", 0},
		{"bob", bob, "train", 2}, {"bob", bob, "train@2", 2}, {"bob", bob, "train@1", 0}, {"bob", bob, "alice/train", 0}, {"bob", bob, "1", 0},
		{"ops", ops, "alice/train", 1}, {"ops", ops, "train@1", 1}, {"ops", ops, "bob/train", 2}, {"ops", ops, "2", 2}, {"ops", ops, "bob/train@1", 0},
	} {
		view, err := c.client.GetJob(ctx, c.reference)
		if c.want == 0 {
			wantProblem(t, err, http.StatusNotFound, "there is no job "+strconv.Quote(c.reference))
			wantProblem(t, c.client.KillJob(ctx, c.reference), http.StatusNotFound, "there is no job "+strconv.Quote(c.reference))
		} else if err != nil || view.Run != c.want || view.Terminal {
			t.Errorf("%s of %s is run %d, terminal: %t, %v; want %d", c.reference, c.who, view.Run, view.Terminal, err, c.want)
		}
	}
	_, err = ops.GetJob(ctx, "train")
	wantProblem(t, err, http.StatusConflict, `"train" names 2 jobs: name one of alice/train, bob/train, or its number`)
	wantProblem(t, ops.KillJob(ctx, "train"), http.StatusConflict, "alice/train, bob/train")
	for who, c := range map[string]*client.Client{"alice/train@1": alice, "bob/train@2": bob, "alice/train@1 bob/train@2": ops} {
		if got := runsOf(t, c.ListJobs); got != who {
			t.Errorf("a list has %s, want %s", got, who)
		}
	}
	for reference, want := range map[string]string{"alice/train": "alice/train@1", "train@2": "bob/train@2"} {
		if got := runsOf(t, func(ctx context.Context) ([]api.JobView, error) { return ops.ListRuns(ctx, reference) }); got != want {
			t.Errorf("the runs of %s are %s, want %s", reference, got, want)
		}
	}

	// Changes concern the run that its requester means, never the other one of the name.
	endJob(t, alice, "train")
	for name, c := range map[string]*client.Client{"train": alice, "train@1": ops, "1": ops} {
		_, err := c.EditJob(ctx, name, map[string]any{"priority": 7})
		wantProblem(t, err, http.StatusConflict, "is KILLED already")
		wantProblem(t, c.HoldJob(ctx, name, ""), http.StatusConflict, "is KILLED already")
		if err := c.KillJob(ctx, name); err != nil {
			t.Error(err)
		}
	}
	if view, err := bob.GetJob(ctx, "train"); err != nil || view.Terminal || view.Spec.Priority != 0 || view.Hold != nil {
		t.Errorf("bob's job is %s with priority %d, %v", view.State, view.Spec.Priority, err)
	}
	if view, err := ops.EditJob(ctx, "bob/train", map[string]any{"priority": 3}); err != nil || view.Run != 2 || view.Spec.Priority != 3 {
		t.Errorf("the edited job is run %d with priority %d, %v", view.Run, view.Spec.Priority, err)
	}
	// A dependency is on the submitter's own job, or on the only visible one.
	after := func(name, reference string) job.Spec {
		s := frameworktest.JobSpec(name, 1, 0)
		s.After = []job.Dependency{{Job: reference, Outcome: job.OutcomeEnded}}
		return s
	}
	if view, err := alice.SubmitJob(ctx, after("own", "train")); err != nil || view.Spec.After[0].Run != "train@1" || !view.Spec.After[0].Met {
		t.Errorf("alice's dependency is %+v, %v", view.Spec.After, err)
	}
	copied := after("copied", "own")
	copied.After[0].Run, copied.After[0].Met = "train@2", true // of a recorded specification
	if view, err := alice.SubmitJob(ctx, copied); err != nil || view.Spec.After[0].Run != "own@1" || view.Spec.After[0].Met {
		t.Errorf("alice's dependency is %+v, %v", view.Spec.After, err)
	}
	_, err = alice.SubmitJob(ctx, after("foreign", "bob/train"))
	wantProblem(t, err, http.StatusUnprocessableEntity, `there is no job "bob/train"`)
	_, err = ops.SubmitJob(ctx, after("unclear", "train"))
	wantProblem(t, err, http.StatusUnprocessableEntity, "name one of alice/train, bob/train")
	if view, err := bob.SubmitJob(ctx, after("later", "train")); err != nil || view.Spec.After[0].Run != "train@2" || view.Spec.After[0].Met {
		t.Errorf("bob's dependency is %+v, %v", view.Spec.After, err)
	}
	endJob(t, bob, "train")
	if view, err := bob.GetJob(ctx, "later"); err != nil || !view.Spec.After[0].Met {
		t.Errorf("bob's dependency is %+v, %v", view.Spec.After, err)
	}

	// A rerun is a run of the requester's own job, and a repeated key finds it though the name means it now.
	again, err := alice.RerunJob(ctx, "train", api.RerunRequest{})
	if err != nil || again.Run != 3 || again.Spec.Env != nil || again.DiffersFrom != 0 {
		t.Errorf("the rerun of alice's job is run %d with %v, %v", again.Run, again.Spec.Env, err)
	}
	if got := runsOf(t, func(ctx context.Context) ([]api.JobView, error) { return alice.ListRuns(ctx, "train") }); got != "alice/train@1 alice/train@3" {
		t.Errorf("alice's runs are %s", got)
	}
	in.stopAndWait(t)
}

// Streams, accounting and notifications of a name are about the job of its owner.
func TestRecordsOfANameAreOfItsOwner(t *testing.T) {
	in, g := startTwoRoles(t)
	ctx := longTimeout(t)
	alice, bob, ops := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in)
	for _, c := range []*client.Client{alice, bob, alice} {
		if _, err := c.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 0)); err != nil {
			t.Fatal(err)
		}
		endJob(t, c, "train")
	}
	for reference, want := range map[string]string{"alice/train": "3", "bob/train": "2", "train@1": "1"} {
		for ev, err := range ops.StreamEvents(ctx, reference) {
			if err != nil || strconv.Itoa(ev.Run) != want {
				t.Errorf("the state of %s is of run %d, %v; want %s", reference, ev.Run, err, want)
			}
			break
		}
	}
	for reference, want := range map[string]int{"alice/train": 2, "bob/train": 1, "train@1": 1, "train@2": 1, "train": 3} {
		report, err := ops.ReportAccounting(ctx, api.AccountingQuery{Job: reference})
		if err != nil || report.Total.Attempts != want {
			t.Errorf("%s has %d attempts, %v; want %d", reference, report.Total.Attempts, err, want)
		}
	}
	in.stopAndWait(t)
}

// The answer to a submission says that the name had another job before.
func TestSubmissionOfAnotherJobUnderAnOldName(t *testing.T) {
	in := startInstance(t, mesostest.NewCluster(t, 1), SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db")})
	ctx := longTimeout(t)
	submit := func(change func(*job.Spec)) (differs int) {
		t.Helper()
		spec := frameworktest.JobSpec("train", 1, 0)
		change(&spec)
		view, err := in.SubmitJob(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.KillJob(ctx, "train"); err != nil {
			t.Fatal(err)
		}
		if _, err := in.WaitForJob(ctx, "train"); err != nil {
			t.Fatal(err)
		}
		return view.DiffersFrom
	}
	same := func(*job.Spec) {}
	other := func(s *job.Spec) { s.Env = map[string]string{"EPOCHS": "2"} }
	for i, c := range []struct {
		change func(*job.Spec)
		want   int
	}{{same, 0}, {same, 0}, {other, 2}, {other, 0}, {same, 4}} {
		if got := submit(c.change); got != c.want {
			t.Errorf("run %d differs from run %d, want %d", i+1, got, c.want)
		}
	}
	in.stopAndWait(t)
}
