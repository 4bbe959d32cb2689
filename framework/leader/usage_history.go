package leader

import (
	"context"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/usagehistory"
)

// UsageHistory records how many GPUs were in use.
type UsageHistory struct {
	leader *Leader
	// recorder keeps the history. It is nil until the first function that runs in the loop needs it; only such functions use
	// the field.
	recorder *usagehistory.Recorder
}

// RecordUsageHistory samples the use of the GPUs every minute until ctx ends. The journal has the
// history, so that the next leader continues it.
func (h *UsageHistory) RecordUsageHistory(ctx context.Context) error {
	tick := time.NewTicker(usagehistory.SampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.sampleUsage(ctx, h.leader.loop.clock())
		case <-ctx.Done():
			return nil
		}
	}
}

// sampleUsage records one sample. A failure to store it is logged and does not end the scheduler.
func (h *UsageHistory) sampleUsage(ctx context.Context, now time.Time) {
	err := h.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		cluster, jobs := h.measureUsage(now)
		recorder := h.usageHistory(st)
		documents := recorder.Record(now, cluster, jobs, h.leader.Model.IsLiveRun)
		if err := h.leader.checkSpace(); err != nil {
			return err
		}
		if err := st.AdmitDocuments(documents); err != nil {
			return err
		}
		for key, value := range documents {
			apply(sched.PutDocument{Key: key, Value: value})
		}
		recorder.MarkStored()
		return nil
	})
	if err != nil && ctx.Err() == nil {
		h.leader.loop.log.WithError(err).Warn("the history of GPU usage is not stored")
	}
}

// usageHistory returns the recorder, and at first loads what an earlier leader has stored. It
// runs in the loop.
func (h *UsageHistory) usageHistory(st *sched.State) *usagehistory.Recorder {
	if h.recorder == nil {
		r, errs := usagehistory.NewRecorder(st.DocumentsIn(usagehistory.Folder))
		for _, err := range errs {
			h.leader.loop.log.WithError(err).Warn("a part of the history of GPU usage is lost")
		}
		h.recorder = r
	}
	return h.recorder
}

// measureUsage returns the present use of the cluster and of each job with GPUs. What tasks hold is counted from the read
// model; duty and memory come from the last measurements of running tasks and are means weighted by measured GPUs.
func (h *UsageHistory) measureUsage(now time.Time) (usagehistory.ClusterSample, map[string]usagehistory.JobSample) {
	totals := h.leader.Model.CountGPUs()
	cluster := usagehistory.ClusterSample{WaitingGPUs: totals.Waiting, Types: map[string]usagehistory.TypeSample{}}
	for kind, n := range h.leader.gpuCounts.Current() {
		cluster.Types[kind] = usagehistory.TypeSample{GPUs: float64(n.All)}
	}
	for kind, held := range totals.HeldByType {
		one := cluster.Types[kind]
		one.Held = held
		cluster.Types[kind] = one
	}
	jobs := make(map[string]usagehistory.JobSample, len(totals.HeldByRun))
	for run, held := range totals.HeldByRun {
		jobs[run] = usagehistory.JobSample{GPUs: held}
	}
	for _, task := range h.leader.Usage.RecentMeans(now) {
		for kind, n := range task.GPUTypes {
			one := cluster.Types[kind]
			one.Duty += task.Duty * float64(n) // divided by Measured below
			one.Measured += float64(n)
			cluster.Types[kind] = one
		}
		run := task.RunID().String()
		one := jobs[run]
		n := float64(one.Measured)
		m := float64(task.Measured)
		one.Duty = (one.Duty*n + task.Duty*m) / (n + m)
		one.MemUsedMiB = (one.MemUsedMiB*n + task.MemUsedMiB*m) / (n + m)
		one.DutyMax, one.MemMiB, one.Measured = max(one.DutyMax, task.DutyMax), max(one.MemMiB, task.MemMiB), one.Measured+task.Measured
		jobs[run] = one
	}
	for kind, one := range cluster.Types {
		if one.Measured > 0 {
			one.Duty /= one.Measured
			cluster.Types[kind] = one
		}
	}
	return cluster, jobs
}

// ClusterUsage returns the use of the GPUs by type in the last hours.
func (h *UsageHistory) ClusterUsage(ctx context.Context, hours int) (v api.ClusterHistory, err error) {
	err = h.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		v = h.usageHistory(st).ClusterHistory(h.leader.loop.clock(), hours)
		return nil
	})
	return v, err
}

// JobUsage returns the usage of the GPUs of a job, or of the run NAME@RUN.
func (h *UsageHistory) JobUsage(ctx context.Context, name string) (v api.JobUsageHistory, err error) {
	j, ok := h.leader.Model.CopyJob(name)
	if !ok {
		return v, api.UnknownJob(name)
	}
	run := j.RunID().String()
	err = h.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		v = h.usageHistory(st).JobHistory(run, st.Document)
		return nil
	})
	return v, err
}
