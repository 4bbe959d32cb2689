package job

import (
	"math"
	"time"
)

// Service makes a job's tasks a service: each is kept running, whatever ends
// it, until somebody ends the job.
type Service struct {
	// Backoff is the pause before a task that ended is started again.
	Backoff BackoffPolicy `json:"backoff,omitzero"`
	// ReplaceAfter is how long a task's agent may be away before another is
	// started in the task's place; 0 is the scheduler's time, below 0 is
	// never.
	ReplaceAfter time.Duration `json:"replace_after,omitempty"`
}

// BackoffPolicy is pauses that grow: Initial, and Factor times the last for each
// failure in a row, at most Max.
type BackoffPolicy struct {
	Initial time.Duration `json:"initial"`
	Factor  float64       `json:"factor"`
	Max     time.Duration `json:"max"`
}

// Defaults of services are Marathon's.
const (
	DefaultBackoff       = time.Second
	DefaultBackoffFactor = 1.15
	DefaultBackoffMax    = 5 * time.Minute
	// maxBackoffFactor bounds a mistake.
	maxBackoffFactor = 100
)

// PauseAfter is the one after so many failures in a row, 0 after none.
func (b BackoffPolicy) PauseAfter(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	pause := float64(b.Initial) * math.Pow(b.Factor, float64(failures-1))
	if !(pause < float64(b.Max)) { // infinity too
		return b.Max
	}
	return max(b.Initial, time.Duration(pause)) // floats round long times
}

func (v *Service) setDefaults() {
	if v.Backoff.Initial == 0 {
		v.Backoff.Initial = DefaultBackoff
	}
	if v.Backoff.Factor == 0 {
		v.Backoff.Factor = DefaultBackoffFactor
	}
	if v.Backoff.Max == 0 {
		v.Backoff.Max = max(DefaultBackoffMax, v.Backoff.Initial)
	}
}

// validateService refuses what a service, which never ends by itself, has no
// use for.
func (s *Spec) validateService(bad func(format string, args ...any)) {
	if s.Group != "" && (len(s.Group) > maxGroup || !groupPattern.MatchString(s.Group)) {
		bad("group: %q: use 1 to %d letters, digits, dots, dashes, underscores or slashes", s.Group, maxGroup)
	}
	v := s.Service
	if v == nil {
		return
	}
	for _, other := range []struct {
		key string
		set bool
		why string
	}{
		{"gang", s.Gang, "its tasks are started again one by one"},
		{"retries", s.Retries != 0, "it is started again however often it fails"},
		{"timeout", s.Timeout != 0, "it runs until somebody ends it"},
		{"run_time", s.RunTime != 0, "it runs until somebody ends it"},
		{"max_wait", s.MaxWait != 0, "it waits until somebody ends it"},
	} {
		if other.set {
			bad("%s: the job is a service: %s", other.key, other.why)
		}
	}
	if b := v.Backoff; b.Initial < 0 || b.Max < b.Initial || b.Max > maxTime || !(b.Factor >= 1 && b.Factor <= maxBackoffFactor) {
		bad("service: backoff from %s by %g to %s: it does not shrink, and grows to %s at most", b.Initial, b.Factor, b.Max, maxTime)
	}
	if v.ReplaceAfter > maxTime {
		bad("service: replace_after: %s is more than %s", v.ReplaceAfter, maxTime)
	}
}

// IsRetired reports whether the task has ended and its service wants none in its
// place.
func (t *Task) IsRetired() bool { return !t.State.IsLive() && t.KillReason == KillByScaling }

// WantedTasks counts the tasks that a job wants: a service those that are not
// retired, or about to be.
func (j *Job) WantedTasks() int {
	n := 0
	for i := range j.Tasks {
		if j.Tasks[i].KillReason != KillByScaling {
			n++
		}
	}
	return n
}
