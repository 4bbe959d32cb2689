package framework

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestIdempotentSubmission: the same key and body return the existing job, also after it
// has ended and from a scheduler that took over. Another body is rejected. The key can be
// reused once the job is deleted.
func TestIdempotentSubmission(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	ctx := frameworktest.Timeout(t)
	first, err := in.SubmitJobWithKey(ctx, "k", frameworktest.JobSpec("train", 1, 0))
	if err != nil || first.AlreadySubmitted {
		t.Fatalf("first: again %t, %v", first.AlreadySubmitted, err)
	}
	again := func(when string) {
		t.Helper()
		view, err := in.SubmitJobWithKey(ctx, "k", frameworktest.JobSpec("train", 1, 0))
		if err != nil || !view.AlreadySubmitted || !view.Submitted.Equal(first.Submitted) {
			t.Errorf("%s: again %t, submitted %s, want %s; %v", when, view.AlreadySubmitted, view.Submitted, first.Submitted, err)
		}
		_, err = in.SubmitJobWithKey(ctx, "k", frameworktest.JobSpec("train", 2, 0))
		wantProblem(t, err, http.StatusUnprocessableEntity, `Idempotency-Key "k": job "train" was submitted by this key and another body`)
		_, err = in.SubmitJobWithKey(ctx, "k", frameworktest.JobSpec("other", 1, 0))
		wantProblem(t, err, http.StatusUnprocessableEntity, "another body")
	}
	again("at once")
	_, err = in.SubmitJobWithKey(ctx, "k2", frameworktest.JobSpec("train", 1, 0))
	wantProblem(t, err, http.StatusConflict, "kill it first")
	awaitState(t, in, "train", job.Running)
	in.stopAndWait(t)
	in = startWithJournal(t, c, path)
	again("after a restart")
	if err := in.KillJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.WaitForJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	again("after its end")
	second, err := in.SubmitJobWithKey(ctx, "k2", frameworktest.JobSpec("train", 1, 0))
	if err != nil || second.AlreadySubmitted || !second.Submitted.After(first.Submitted.Add(time.Nanosecond-1)) {
		t.Fatalf("with another key: already submitted %t, %v", second.AlreadySubmitted, err)
	}
	again("after its second run")
}
