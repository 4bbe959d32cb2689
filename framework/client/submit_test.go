package client

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// TestLostSubmissionIsRepeated checks retries with the same key after a broken connection or an
// unknown result, until the result is known.
func TestLostSubmissionIsRepeated(t *testing.T) {
	var keys []string
	c := newTestClients(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get(api.IdempotencyKey))
		switch len(keys) {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			writeProblem(w, api.NewProblemf(http.StatusServiceUnavailable, "see whether it was done"))
		default:
			fmt.Fprint(w, `{"spec":{"name":"train"}}`)
		}
	}))
	view, err := c.SubmitJob(context.Background(), job.Spec{Name: "train"})
	if err != nil || view.Spec.Name != "train" || !view.AlreadySubmitted {
		t.Fatalf("got %q, again %t, %v", view.Spec.Name, view.AlreadySubmitted, err)
	}
	if len(keys) != 3 || keys[0] == "" || keys[1] != keys[0] || keys[2] != keys[0] {
		t.Errorf("keys %q, want one three times", keys)
	}
	if _, err := c.SubmitJobWithKey(context.Background(), "mine", job.Spec{Name: "train"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SubmitJob(context.Background(), job.Spec{Name: "train"}); err != nil {
		t.Fatal(err)
	}
	if keys[3] != "mine" || keys[4] == keys[0] {
		t.Errorf("later keys %q, want mine and another", cmp.Diff(keys[:3], keys[3:]))
	}
}

// TestRejectedSubmissionIsNotRepeated checks that a definite error is returned.
func TestRejectedSubmissionIsNotRepeated(t *testing.T) {
	for _, status := range []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInternalServerError} {
		asked := 0
		c := newTestClients(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			writeProblem(w, api.NewProblemf(status, "no"))
		}))
		if _, err := c.SubmitJob(context.Background(), job.Spec{Name: "train"}); err == nil || asked != 1 {
			t.Errorf("%d: asked %d times, %v", status, asked, err)
		}
	}
}
