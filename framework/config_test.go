package framework

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/testing/frameworktest"
)

func TestConfigValidation(t *testing.T) {
	if _, err := New(SchedulerConfig{ExecutorPath: "bin/x", Roles: []string{"a b"}, FailoverTimeout: -1}); err == nil ||
		!strings.Contains(err.Error(), "not absolute") || !strings.Contains(err.Error(), "role") ||
		!strings.Contains(err.Error(), "negative") || !strings.Contains(err.Error(), "no log") {
		t.Errorf("got %v", err)
	}
	cfg := SchedulerConfig{Log: frameworktest.DiscardLog(), Master: "m1:5050, https://m2:5050/,"}
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if cfg.FailoverTimeout != 7*24*time.Hour || cfg.APIAddr != "127.0.0.1:8080" {
		t.Errorf("defaults %+v", cfg)
	}
}
