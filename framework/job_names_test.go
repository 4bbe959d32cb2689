package framework

import (
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
