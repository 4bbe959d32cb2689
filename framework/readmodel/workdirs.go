package readmodel

import (
	"maps"
	"slices"

	"mesos-gpu/job"
)

// LiveWorkdirs returns the working folders of the jobs that have not ended.
func (v *Model) LiveWorkdirs() map[string]bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	digests := map[string]bool{}
	for _, e := range v.bySubmission {
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

// StartingWorkdirs returns the working folders that agents may be fetching for tasks of a run:
// none if no task starts, and several while a service is updated.
func (v *Model) StartingWorkdirs(run job.RunID) (digests []string) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e, ok := v.jobs.Find(run.String())
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
