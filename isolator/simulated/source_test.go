package simulated

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// Samples are plausible, constant and healthy.
func TestSamplesAreConstantAndHealthy(t *testing.T) {
	h := mustHost(t, "V100,K80", "a")
	s := NewIdleSource(h)
	p, err := health.FaultPolicy{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range h.Devices {
		begun := time.Now()
		now := begun
		state := health.New(now, health.SavedState{})
		first, err := s.Sample(d.UUID)
		if err != nil {
			t.Fatal(err)
		}
		if got := first.Values[gpu.MemTotalBytes]; got != float64(d.MemMiB<<20) {
			t.Errorf("%s has %.0f bytes, want %d MiB", d, got, d.MemMiB)
		}
		for range 100 {
			sample, err := s.Sample(d.UUID)
			if err != nil || sample.At.Before(begun) || !cmp.Equal(sample.Values, first.Values) {
				t.Fatalf("%+v, %v; first %+v", sample, err, first)
			}
			now = now.Add(time.Minute)
			state, _ = p.ApplyObservation(now, state, health.Observation{Sample: &sample})
		}
		if c := state.Condition(); c.Health != gpu.Healthy {
			t.Errorf("%s is %+v", d, c)
		}
	}
	if _, err := s.Sample("GPU-x"); err == nil || !strings.Contains(err.Error(), "not among the 2") {
		t.Errorf("unknown device: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
}
