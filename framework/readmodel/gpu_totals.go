package readmodel

import "mesos-gpu/job"

// GPUTotals are the GPUs that tasks hold and wait for.
type GPUTotals struct {
	// HeldByType counts by GPU type, HeldByRun by run of a job. Shares count as fractions.
	HeldByType, HeldByRun map[string]float64
	// Waiting are the GPUs that waiting tasks request.
	Waiting float64
}

// CountGPUs counts the GPUs of all live jobs. A task holds its GPUs from its launch until its end.
func (m *Model) CountGPUs() GPUTotals {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := GPUTotals{HeldByType: map[string]float64{}, HeldByRun: map[string]float64{}}
	for _, e := range m.bySubmission {
		if e.removed || e.liveTasks == 0 || e.Spec.Request.GPUs == 0 {
			continue
		}
		run, held := e.RunID().String(), 0.0
		for i := range e.Tasks {
			t := &e.Tasks[i]
			if t.State == job.Waiting {
				all.Waiting += float64(e.Spec.Request.GPUs)
			}
			if !t.State.IsPlaced() {
				continue
			}
			for kind, n := range t.GPUTypes {
				all.HeldByType[kind] += float64(n)
				held += float64(n)
			}
			for _, share := range t.Shares {
				part := float64(share.MilliDevices) / 1000
				all.HeldByType[share.Type] += part
				held += part
			}
		}
		if held > 0 {
			all.HeldByRun[run] = held
		}
	}
	return all
}

// IsLiveRun reports whether a run of a job exists and has not ended.
func (m *Model) IsLiveRun(run string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e, ok := m.jobs.Find(run)
	return ok && e.isLive()
}
