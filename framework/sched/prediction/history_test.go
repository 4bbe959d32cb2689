package prediction

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func specOf(owner, name, command, image string, gpus int) *job.Spec {
	return &job.Spec{Name: name, Role: "r", Owner: owner, Tasks: 1, Command: []string{command}, Image: image, Request: gpu.Request{GPUs: gpus}}
}

// TestPredictionUsesMostSimilarJobs: each feature that two jobs share makes them more similar, and the most similar jobs
// with a history decide.
func TestPredictionUsesMostSimilarJobs(t *testing.T) {
	h := NewHistory()
	if _, ok := h.Predict(specOf("ann", "train", "a", "i", 1)); ok {
		t.Error("predicted without history")
	}
	for i, s := range []*job.Spec{
		specOf("bob", "other", "x", "z", 8), // the same role
		specOf("bob", "other", "x", "z", 1), // and size
		specOf("ann", "other", "x", "z", 1), // and user
		specOf("ann", "other", "x", "i", 1), // and image
		specOf("ann", "other", "a", "i", 1), // and command
		specOf("ann", "train-07", "x", "z", 1),
		specOf("ann", "train-08", "a", "i", 1),
	} {
		h.AddRun(s, time.Duration(i+1)*time.Minute)
		p, ok := h.Predict(specOf("ann", "train-12", "a", "i", 1))
		if want := time.Duration(i+1) * time.Minute; !ok || !slices.Contains(p.Runs, want) {
			t.Errorf("after job %d: predicted from %v, want %s among them", i, p.Runs, want)
		}
	}
	if p, _ := h.Predict(specOf("ann", "train-12", "a", "i", 1)); p.RunTime != 7*time.Minute {
		t.Errorf("predicted %s, want the run time of the same job", p.RunTime)
	}
}

// TestPredictionIsMedianOfLastRuns: the last five run times decide, and no prediction is longer than the timeout.
func TestPredictionIsMedianOfLastRuns(t *testing.T) {
	h, s := NewHistory(), specOf("ann", "a", "c", "", 1)
	for _, seconds := range []int{1000, 1, 2, 3, 4, 5} {
		h.AddRun(s, time.Duration(seconds)*time.Second)
	}
	p, _ := h.Predict(s)
	if p.RunTime != 3*time.Second || len(p.Runs) != 6 {
		t.Errorf("got %s of %v, want 3 s of six runs", p.RunTime, p.Runs)
	}
	if got := p.ExpectedTotal(3 * time.Second); got != 5*time.Second && got != 1000*time.Second {
		t.Errorf("after 3 s got %s, want a longer run", got)
	}
	if got := p.ExpectedTotal(1000 * time.Second); got != 2000*time.Second {
		t.Errorf("after 1000 s got %s, want twice as long", got)
	}
	s.Timeout = 2 * time.Second
	if p, _ := h.Predict(s); p.RunTime != 2*time.Second || p.Runs[5] != 2*time.Second {
		t.Errorf("with a timeout of 2 s got %+v", p)
	}
}

// TestHistoryForgetsUnusedKinds: the memory is bounded, and kinds in use stay.
func TestHistoryForgetsUnusedKinds(t *testing.T) {
	h, used := NewHistory(), specOf("ann", "used", "c", "", 1)
	h.AddRun(used, time.Minute)
	for i := range 3 * maxKinds / 7 {
		h.AddRun(specOf(fmt.Sprint("u", i), "n", "c", "", 1), time.Hour)
		if i%1000 == 0 {
			h.AddRun(used, time.Minute)
		}
	}
	if n := len(h.newer) + len(h.older); n > 2*maxKinds+10 {
		t.Errorf("%d kinds are kept", n)
	}
	if p, ok := h.Predict(used); !ok || p.RunTime != time.Minute {
		t.Errorf("the kind in use is predicted as %s, %t", p.RunTime, ok)
	}
}

// TestExpectedTotalIsLonger: whatever the history, a running task is expected to end later than now.
func TestExpectedTotalIsLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, s := NewHistory(), specOf("ann", "a", "c", "i", 1)
		for _, seconds := range rapid.SliceOfN(rapid.IntRange(0, 100_000), 1, 30).Draw(t, "runs") {
			h.AddRun(s, time.Duration(seconds)*time.Second)
		}
		p, ok := h.Predict(s)
		ran := time.Duration(rapid.IntRange(0, 200_000).Draw(t, "ran")) * time.Second
		if !ok || p.ExpectedTotal(ran) <= ran || p.RunTime < p.Runs[0] || p.RunTime > p.Runs[len(p.Runs)-1] {
			t.Fatalf("ran %s of %+v: expected %s", ran, p, p.ExpectedTotal(ran))
		}
		for _, longer := range p.Longer(ran) {
			if longer <= ran {
				t.Fatalf("%s is not longer than %s", longer, ran)
			}
		}
	})
}
