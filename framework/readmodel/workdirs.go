package readmodel

import (
	"maps"
	"slices"

	"mesos-gpu/job"
)

// LiveWorkdirs returns the working folders of the jobs that have not ended.
func (m *Model) LiveWorkdirs() map[string]bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	digests := map[string]bool{}
	for _, e := range m.bySubmission {
		if e.removed || !e.isLive() {
			continue
		}
		for _, spec := range append(slices.Collect(maps.Values(e.OldSpecs)), e.Spec) {
			if spec.Workdir != "" {
				digests[spec.Workdir] = true
			}
		}
	}
	return digests
}

// HasJobInWorkdir reports whether a job whose role and owner may accepts has the working folder. A job that has ended counts
// as long as it is stored.
func (m *Model) HasJobInWorkdir(digest string, may func(role, owner string) bool) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	uses := func(spec *job.Spec) bool { return spec.Workdir == digest && may(spec.Role, spec.Owner) }
	return slices.ContainsFunc(m.bySubmission, func(e *jobEntry) bool { return !e.removed && uses(e.Spec) })
}

// StartingWorkdirs returns the working folders that agents may be fetching for tasks of a run:
// none if no task starts, and several while a service is updated.
func (m *Model) StartingWorkdirs(run job.RunID) (digests []string) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.jobs.FindRun(run)
	if !ok {
		return nil
	}
	for i := range e.Tasks {
		if t := &e.Tasks[i]; t.State.IsStarting() {
			if digest := e.SpecOf(t).Workdir; digest != "" && !slices.Contains(digests, digest) {
				digests = append(digests, digest)
			}
		}
	}
	return digests
}
