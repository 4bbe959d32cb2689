package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/advertise"
)

// awaitStatus returns the first status that matches.
func awaitStatus(t *testing.T, statuses <-chan Status, matches func(Status) bool) Status {
	t.Helper()
	timeout := time.After(time.Minute)
	var last Status
	for {
		select {
		case last = <-statuses:
			if matches(last) {
				return last
			}
		case <-timeout:
			t.Fatalf("last status: %+v", last)
		}
	}
}

// The daemon publishes what it offers, that it has no driver volume, and a lost agent.
func TestStatusIsPublished(t *testing.T) {
	testneeds.RequireRoot(t)
	url, _ := startMesosAgent(t)
	cfg := newConfig(t, url)
	statuses := make(chan Status, 1000)
	noDriver := errors.New("no driver here")
	cfg.OnStatus = func(s Status) { statuses <- s }
	cfg.Socket, cfg.RuntimeDir, cfg.CgroupsRoot = filepath.Join(t.TempDir(), "agent.sock"), t.TempDir(), "mesos-gpu-test-status"
	cfg.NeedsDriver = needsNoDriver
	cfg.DriverVolume = func(context.Context) (string, error) { return "", noDriver }
	runDaemon(t, cfg)
	if first := <-statuses; first != (Status{GPUs: 4, Discovered: true}) {
		t.Errorf("first status: %+v", first)
	}
	awaitStatus(t, statuses, func(s Status) bool {
		return s.Provider != nil && *s.Provider == (advertise.ProviderStatus{Whole: 4}) && s.VolumeError == noDriver
	})
}

func TestStatusOfMissingAgent(t *testing.T) {
	cfg := newConfig(t, "http://127.0.0.1:1")
	statuses := make(chan Status, 1000)
	cfg.Unmanaged, cfg.OnStatus = true, func(s Status) { statuses <- s }
	runDaemon(t, cfg)
	s := awaitStatus(t, statuses, func(s Status) bool { return s.Provider != nil })
	if s.Provider.Err == nil || errors.Is(s.Provider.Err, advertise.ErrRemoved) {
		t.Errorf("got %v, want a refused connection", s.Provider.Err)
	}
}
