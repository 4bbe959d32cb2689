package framework

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/job"
)

// TestSubmissionMadeAgain: the same key and body bring the job that is there,
// also after it has ended and from a scheduler that took over; another body is
// refused; and the key is as good as new once the job is forgotten.
func TestSubmissionMadeAgain(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := run(t, c, path)
	ctx := within(t)
	first, err := in.SubmitAs(ctx, "k", spec("train", 1, 0))
	if err != nil || first.Again {
		t.Fatalf("first: again %t, %v", first.Again, err)
	}
	again := func(when string) {
		t.Helper()
		view, err := in.SubmitAs(ctx, "k", spec("train", 1, 0))
		if err != nil || !view.Again || !view.Submitted.Equal(first.Submitted) {
			t.Errorf("%s: again %t, submitted %s, want %s; %v", when, view.Again, view.Submitted, first.Submitted, err)
		}
		_, err = in.SubmitAs(ctx, "k", spec("train", 2, 0))
		wantProblem(t, err, http.StatusUnprocessableEntity, `Idempotency-Key "k": job "train" was submitted by this key and another body`)
		_, err = in.SubmitAs(ctx, "k", spec("other", 1, 0))
		wantProblem(t, err, http.StatusUnprocessableEntity, "another body")
	}
	again("at once")
	_, err = in.SubmitAs(ctx, "k2", spec("train", 1, 0))
	wantProblem(t, err, http.StatusConflict, "kill it first")
	awaitState(t, in, "train", job.Running)
	in.end(t)
	in = run(t, c, path)
	again("after a restart")
	if err := in.Kill(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Wait(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	again("after its end")
	second, err := in.SubmitAs(ctx, "k2", spec("train", 1, 0))
	if err != nil || second.Again || !second.Submitted.After(first.Submitted.Add(time.Nanosecond-1)) {
		t.Fatalf("by another key: again %t, %v", second.Again, err)
	}
	_, err = in.SubmitAs(ctx, "k", spec("train", 1, 0))
	wantProblem(t, err, http.StatusConflict, "kill it first") // the first is forgotten, and its key
}
