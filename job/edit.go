package job

import (
	"maps"
	"slices"
)

// CopyEditable copies from another Spec what users may change after the submission. Tasks that hold places are not
// affected, except by the timeout.
func (s *Spec) CopyEditable(from *Spec) {
	s.Role, s.Priority, s.Preemptible = from.Role, from.Priority, from.Preemptible
	s.Request.Types, s.MaxParallel, s.Labels = from.Request.Types, from.MaxParallel, from.Labels
	s.Retries, s.Timeout, s.RunTime, s.MaxWait = from.Retries, from.Timeout, from.RunTime, from.MaxWait
	s.OnTimeout, s.MinRunTime, s.PreemptAfter = from.OnTimeout, from.MinRunTime, from.PreemptAfter
	s.Notify = from.Notify
	s.copyProgram(from)
}

// copyProgram copies what changes only while no task of the job holds resources, besides the role.
func (s *Spec) copyProgram(from *Spec) {
	s.Request.GPUs, s.CPUs, s.MemMiB, s.DiskMiB = from.Request.GPUs, from.CPUs, from.MemMiB, from.DiskMiB
	s.Command, s.Env = from.Command, from.Env
}

// FindProgramChange returns the first key of a job file in which an edited Spec has another program or other resources for
// it, "" if there is none.
func (s *Spec) FindProgramChange(edited *Spec) (key string) {
	switch {
	case s.Request.GPUs != edited.Request.GPUs:
		return "gpus"
	case s.CPUs != edited.CPUs:
		return "cpus"
	case s.MemMiB != edited.MemMiB:
		return "mem"
	case s.DiskMiB != edited.DiskMiB:
		return "disk"
	case !slices.Equal(s.Command, edited.Command):
		return "command"
	case !maps.Equal(s.Env, edited.Env):
		return "env"
	}
	return ""
}
