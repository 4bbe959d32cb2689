package job

import (
	"strings"
	"testing"
)

// TestGuaranteedJobIsNotPreemptible: a job is either never stopped for others, or it may be.
func TestGuaranteedJobIsNotPreemptible(t *testing.T) {
	s := Spec{Name: "train", Command: []string{"true"}, Guaranteed: true}
	s.SetDefaults()
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	s.Preemptible = true
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "guaranteed: the job is preemptible") {
		t.Errorf("got %v", err)
	}
}
