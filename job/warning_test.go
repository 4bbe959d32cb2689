package job

import (
	"strings"
	"testing"
	"time"
)

func TestInvalidWarnings(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"": func(s *Spec) { s.Warn = &Warning{Signal: "USR1", Before: time.Minute} },
		"warn: it needs a signal, a file or http": func(s *Spec) { s.Warn = &Warning{Before: time.Minute} },
		`warn: signal: "KILL" is not one of`:      func(s *Spec) { s.Warn = &Warning{Signal: "KILL", Before: time.Minute} },
		`warn: file: "../x" is not a plain path`:  func(s *Spec) { s.Warn = &Warning{File: "../x", Before: time.Minute} },
		`warn: file: "/etc/x" is not a plain`:     func(s *Spec) { s.Warn = &Warning{File: "/etc/x", Before: time.Minute} },
		"warn: before: 0s is not between":         func(s *Spec) { s.Warn = &Warning{File: "x"} },
		"warn: before: 1h0m0s is not below the timeout of 1m0s": func(s *Spec) {
			s.Warn, s.Timeout = &Warning{File: "x", Before: time.Hour}, time.Minute
		},
		`on_timeout: "retry" is neither fail nor requeue`: func(s *Spec) { s.Timeout, s.OnTimeout = time.Hour, "retry" },
		"on_timeout: the job has no timeout":              func(s *Spec) { s.OnTimeout = RequeueOnTimeout },
		"min_run_time: -1s is not between":                func(s *Spec) { s.MinRunTime = -time.Second },
		"preempt_after: 9000h0m0s is not between":         func(s *Spec) { s.PreemptAfter = 9000 * time.Hour },
		`warn: http: "warn" is not a path`:                func(s *Spec) { s.Warn = &Warning{HTTP: "warn", Before: time.Minute} },
		"warn: http: the job has no ports":                func(s *Spec) { s.Warn = &Warning{HTTP: "/warn", Before: time.Minute} },
		`checkpoint_dir: "a/b" is not an absolute`:        func(s *Spec) { s.CheckpointDir = "a/b" },
		`checkpoint_dir: "/a/../b" is not`:                func(s *Spec) { s.CheckpointDir = "/a/../b" },
	} {
		s := Spec{Name: "a", Command: []string{"true"}}
		change(&s)
		if err := s.Complete(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
