package job

import (
	"path"
	"slices"
	"strings"
	"time"
)

// Warning describes the signal, file or request that a task gets before it is stopped to be queued again, or for
// its timeout: time to save its state.
type Warning struct {
	// Signal is sent to the command, such as USR1. "" sends none.
	Signal string `json:"signal,omitempty"`
	// File is created in the sandbox, at this path. "" creates none.
	File string `json:"file,omitempty"`
	// HTTP is the path of a POST to the job's first port. "" makes none.
	HTTP string `json:"http,omitempty"`
	// Before is the time between the warning and SIGTERM.
	Before time.Duration `json:"before"`
}

// WarningSignals returns the signals that a Warning may have.
func WarningSignals() []string { return []string{"USR1", "USR2", "HUP", "INT", "TERM", "WINCH"} }

// TimeoutAction is the action if a task reaches its timeout.
type TimeoutAction string

const (
	// FailOnTimeout fails the task. It is the default.
	FailOnTimeout TimeoutAction = "fail"
	// RequeueOnTimeout queues the task again, without counting a retry.
	RequeueOnTimeout TimeoutAction = "requeue"
)

// WarningTime returns the time between the warning and SIGTERM, 0 without a warning.
func (s *Spec) WarningTime() time.Duration {
	if s.Warn == nil {
		return 0
	}
	return s.Warn.Before
}

// EvictionGrace returns how long a task has to end after it is requested to make room: its warning, its ShutdownDelay and
// its KillGrace.
func (s *Spec) EvictionGrace() time.Duration {
	return s.WarningTime() + s.ShutdownDelay() + s.KillGrace
}

// validateInterruption checks the keys about the interruption of running tasks.
func (s *Spec) validateInterruption(bad reportFunc) {
	if w := s.Warn; w != nil {
		switch {
		case w.Signal == "" && w.File == "" && w.HTTP == "":
			bad(field("warn"), "warn: it needs a signal, a file or http")
		case w.HTTP != "" && (w.HTTP[0] != '/' || len(w.HTTP) > maxURI || strings.ContainsFunc(w.HTTP, func(r rune) bool { return r <= ' ' || r > '~' })):
			bad(field("warn", "http"), "warn: http: %q is not a path such as /warn", w.HTTP)
		case w.HTTP != "" && len(s.Ports) == 0:
			bad(field("warn", "http").and("ports"), "warn: http: the job has no ports")
		case w.Signal != "" && !slices.Contains(WarningSignals(), w.Signal):
			bad(field("warn", "signal"), "warn: signal: %q is not one of %s", w.Signal, strings.Join(WarningSignals(), ", "))
		case w.File != "" && !isSandboxPath(w.File):
			bad(field("warn", "file"), "warn: file: %q is not a plain path in the sandbox, such as warned", w.File)
		}
		if w.Before <= 0 || w.Before > maxKillGrace {
			bad(field("warn", "before"), "warn: before: %s is not between 0 and %s", w.Before, maxKillGrace)
		}
		if s.Timeout > 0 && w.Before >= s.Timeout {
			bad(field("warn", "before").and("timeout"), "warn: before: %s is not below the timeout of %s", w.Before, s.Timeout)
		}
	}
	if s.OnTimeout != "" && s.OnTimeout != FailOnTimeout && s.OnTimeout != RequeueOnTimeout {
		bad(field("on_timeout"), "on_timeout: %q is neither %s nor %s", s.OnTimeout, FailOnTimeout, RequeueOnTimeout)
	}
	if s.OnTimeout != "" && s.Timeout == 0 {
		bad(field("on_timeout").and("timeout"), "on_timeout: the job has no timeout")
	}
	if s.MinRunTime < 0 || s.MinRunTime > maxTime {
		bad(field("min_run_time"), "min_run_time: %s is not between 0 and %s", s.MinRunTime, maxTime)
	}
	if s.PreemptAfter < 0 || s.PreemptAfter > maxTime {
		bad(field("preempt_after"), "preempt_after: %s is not between 0 and %s", s.PreemptAfter, maxTime)
	}
	if s.CheckpointDir != "" && (!path.IsAbs(s.CheckpointDir) || path.Clean(s.CheckpointDir) != s.CheckpointDir || len(s.CheckpointDir) > maxURI) {
		bad(field("checkpoint_dir"), "checkpoint_dir: %q is not an absolute path such as /data/checkpoints", s.CheckpointDir)
	}
}

// isSandboxPath reports whether a path is relative, clean and inside the sandbox.
func isSandboxPath(name string) bool {
	return name != "" && !path.IsAbs(name) && path.Clean(name) == name && name != "." && name != ".." &&
		!strings.HasPrefix(name, "../") && len(name) <= maxURI && !strings.ContainsRune(name, 0)
}
