package job

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Defaults for what a Spec leaves out.
const (
	DefaultCPUs      = 1
	DefaultMemMiB    = 256
	DefaultKillGrace = 5 * time.Second
	// MaxTasks bounds one job.
	MaxTasks = 10_000
)

// SetDefaults fills what the submitter left out.
func (s *Spec) SetDefaults() {
	if s.Tasks == 0 {
		s.Tasks = 1
	}
	if s.CPUs == 0 {
		s.CPUs = DefaultCPUs
	}
	if s.MemMiB == 0 {
		s.MemMiB = DefaultMemMiB
	}
	if s.KillGrace == 0 {
		s.KillGrace = DefaultKillGrace
	}
	if s.Containerizer == "" {
		s.Containerizer = Mesos
		if s.Image != "" {
			s.Containerizer = Docker
		}
	}
}

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	envPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Validate says everything that is wrong with the Spec, each with what to
// write instead.
func (s *Spec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(s.Name) {
		bad("name %q: use 1 to 63 letters, digits, dots, dashes or underscores, starting with a letter or digit", s.Name)
	}
	if s.Tasks < 1 || s.Tasks > MaxTasks {
		bad("tasks: %d is not between 1 and %d", s.Tasks, MaxTasks)
	}
	if s.Request.GPUs < 0 {
		bad("gpus: %d is negative", s.Request.GPUs)
	}
	if s.Request.GPUs == 0 && !s.Request.Types.Any() {
		bad("gpu_type %s needs gpus: 1 or more", s.Request.Types)
	}
	if s.CPUs <= 0 {
		bad("cpus: %g is not above 0", s.CPUs)
	}
	if s.MemMiB <= 0 {
		bad("mem: %g MiB is not above 0", s.MemMiB)
	}
	if s.DiskMiB < 0 {
		bad("disk: %g MiB is negative", s.DiskMiB)
	}
	if s.KillGrace < 0 {
		bad("kill_grace: %s is negative", s.KillGrace)
	}
	switch s.Containerizer {
	case Docker:
		if s.Image == "" {
			bad("image: a docker task needs one, for example image: debian:12")
		}
	case Mesos:
		if s.Image == "" && len(s.Command) == 0 {
			bad("command: a task without an image needs one")
		}
	default:
		bad("container: %q is neither docker nor mesos", s.Containerizer)
	}
	if strings.ContainsAny(s.Image, " \t\n") {
		bad("image: %q holds white space", s.Image)
	}
	for k, v := range s.Env {
		if !envPattern.MatchString(k) {
			bad("env: %q is not a variable's name", k)
		}
		if strings.ContainsRune(v, 0) {
			bad("env: %s holds a NUL byte", k)
		}
	}
	return errors.Join(errs...)
}
