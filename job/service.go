package job

import (
	"math"
	"time"
)

// Service keeps each of a job's tasks running, however it ends, until a user ends the
// job.
type Service struct {
	// Backoff is the pause before a task is started again.
	Backoff BackoffPolicy `json:"backoff,omitzero"`
	// ReplaceAfter is how long a task's agent may be unreachable before another
	// task is started in its place. 0 means the scheduler's default, a
	// negative value for never.
	ReplaceAfter time.Duration `json:"replace_after,omitempty"`
	// ShutdownDelay is the time between the request to stop a task and SIGTERM. The task
	// is KILLING meanwhile, so that load balancers take it from their lists, and serves
	// the requests that still reach it.
	ShutdownDelay time.Duration `json:"shutdown_delay,omitempty"`
	// Autoscaling changes the number of tasks with their load. It is zero for a service
	// that only users scale.
	Autoscaling AutoscalingPolicy `json:"autoscaling,omitzero"`
}

// BackoffPolicy is an exponential backoff: the first pause is Initial, and each failure
// in a row multiplies it by Factor, up to Max.
type BackoffPolicy struct {
	Initial time.Duration `json:"initial"`
	Factor  float64       `json:"factor"`
	Max     time.Duration `json:"max"`
}

// Defaults of services, equal to Marathon's.
const (
	DefaultBackoff       = time.Second
	DefaultBackoffFactor = 1.15
	DefaultBackoffMax    = 5 * time.Minute
	// maxBackoffFactor rejects obvious mistakes.
	maxBackoffFactor = 100
)

// PauseAfter returns the pause after that many failures in a row, 0 after none.
func (b BackoffPolicy) PauseAfter(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	pause := float64(b.Initial) * math.Pow(b.Factor, float64(failures-1))
	if !(pause < float64(b.Max)) { // also for infinity
		return b.Max
	}
	return max(b.Initial, time.Duration(pause)) // a float64 rounds long durations
}

// setDefaults fills in what is absent.
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
	v.Autoscaling.setDefaults()
}

// validateService rejects keys that have no meaning for a service, which never ends by
// itself.
func (s *Spec) validateService(bad reportFunc) {
	if s.Group != "" && (len(s.Group) > maxGroup || !groupPattern.MatchString(s.Group)) {
		bad(field("group"), "group: %q: use 1 to %d letters, digits, dots, dashes, underscores or slashes", s.Group, maxGroup)
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
		{"timeout", s.Timeout != 0, "it runs until a user ends it"},
		{"run_time", s.RunTime != 0, "it runs until a user ends it"},
		{"idle_timeout", s.IdleTimeout != 0, "it runs until a user ends it"},
		{"on_timeout", s.OnTimeout != "", "it runs until a user ends it"},
		{"max_wait", s.MaxWait != 0, "it waits until a user ends it"},
	} {
		if other.set {
			bad(field(other.key).and("service"), "%s: the job is a service: %s", other.key, other.why)
		}
	}
	if b := v.Backoff; b.Initial < 0 || b.Max < b.Initial || b.Max > maxTime || !(b.Factor >= 1 && b.Factor <= maxBackoffFactor) {
		bad(field("service", "backoff"), "service: backoff from %s by %g to %s: it does not shrink, and grows to %s at most", b.Initial, b.Factor, b.Max, maxTime)
	}
	s.validateAutoscaling(bad)
	if v.ReplaceAfter > maxTime {
		bad(field("service", "replace_after"), "service: replace_after: %s is more than %s", v.ReplaceAfter, maxTime)
	}
	if v.ShutdownDelay < 0 || v.ShutdownDelay > maxKillGrace {
		bad(field("service", "shutdown_delay"), "service: shutdown_delay: %s is not between 0 and %s", v.ShutdownDelay, maxKillGrace)
	}
}

// ShutdownDelay returns the Service's, 0 for other jobs.
func (s *Spec) ShutdownDelay() time.Duration {
	if s.Service == nil {
		return 0
	}
	return s.Service.ShutdownDelay
}

// IsRetired reports whether the task has ended because its service was scaled down.
func (t *Task) IsRetired() bool { return !t.State.IsLive() && t.KillReason == KillByScaling }

// WantedTasks returns how many tasks a service should run: those that have not been
// retired.
func (j *Job) WantedTasks() int {
	n := 0
	for i := range j.Tasks {
		if j.Tasks[i].KillReason != KillByScaling {
			n++
		}
	}
	return n
}
