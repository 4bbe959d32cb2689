package replay

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sim"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// AgentsFromTrace converts the agents of a trace.
func AgentsFromTrace(list []sim.RecordedAgent) []ReplayAgent {
	agents := make([]ReplayAgent, len(list))
	for i, a := range list {
		agents[i] = ReplayAgent{
			ID:    a.Name,
			GPUs:  a.GPUs,
			Model: a.Model,
			RDMA:  float64(a.RDMA),
			Has:   sched.Amount{CPUs: float64(a.CPUMilli) / 1000, MemMiB: float64(a.MemMiB)},
		}
	}
	return agents
}

// RecordsFromTasks converts tasks of a trace with times to records. A task that shares a GPU takes a whole one.
func RecordsFromTasks(list []sim.RecordedTask) (iter.Seq[JobRecord], error) {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b sim.RecordedTask) int { return cmp.Compare(a.Arrives, b.Arrives) })
	for i := range sorted {
		if sorted[i].Leaves == 0 {
			return nil, fmt.Errorf("task %q: the record has no time at which it left", sorted[i].Name)
		}
	}
	return func(yield func(JobRecord) bool) {
		for i := range sorted {
			t := &sorted[i]
			s := job.Spec{
				Name: t.Name, CPUs: max(float64(t.CPUMilli)/1000, 0.001), MemMiB: max(float64(t.MemMiB), 1),
				Request: gpu.Request{GPUs: t.GPUs, Types: gpu.TypeSelector{Include: t.Models}}, Command: []string{"true"},
			}
			s.SetDefaults()
			if !yield(JobRecord{Spec: s, ArrivesAt: t.Arrives - sorted[0].Arrives, RunTimes: []time.Duration{max(t.Leaves-t.Arrives, time.Second)}}) {
				return
			}
		}
	}, nil
}

// RecordsFromJobs converts jobs of a journal to records: those of which all tasks have run and ended. left counts the
// others. Records keep the resources, the role and what orders the queue. They drop containers, which do not run, and
// constraints, since the agents' attributes are not recorded. A job that shares GPUs takes whole ones.
func RecordsFromJobs(jobs []*job.Job) (works []JobRecord, left int) {
	for _, j := range jobs {
		w := JobRecord{Spec: plainSpec(j.Spec)}
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if t.State.IsLive() || t.Started.IsZero() || t.Ended.Before(t.Started) {
				break
			}
			w.RunTimes = append(w.RunTimes, max(t.Ended.Sub(t.Started), time.Second))
		}
		if len(w.RunTimes) < len(j.Tasks) || len(j.Tasks) == 0 {
			left++
			continue
		}
		w.ArrivesAt = time.Duration(j.Submitted.UnixNano())
		works = append(works, w)
	}
	sortByArrival(works)
	return works, left
}

// plainSpec returns what a replay uses of a job: its resources, and what orders the queue.
func plainSpec(s *job.Spec) job.Spec {
	p := job.Spec{
		Name: s.Name, Tasks: s.Tasks, Request: s.Request, CPUs: s.CPUs, MemMiB: s.MemMiB, Command: []string{"true"},
		Role: s.Role, Priority: s.Priority, Preemptible: s.Preemptible, Gang: s.Gang, RunTime: s.RunTime, KillGrace: s.KillGrace,
	}
	p.Request.Devices, p.Request.Share = gpu.DeviceSelector{}, gpu.ShareRequest{}
	p.SetDefaults()
	return p
}

// RecordFromSpec returns a record of a job that arrives at the start and runs as long as it declares.
func RecordFromSpec(s *job.Spec) (JobRecord, error) {
	if s.ExpectedRunTime() == 0 {
		return JobRecord{}, errors.New("the job has neither run_time nor timeout: set one")
	}
	p := plainSpec(s)
	p.RunTime = s.ExpectedRunTime()
	return JobRecord{Spec: p, RunTimes: []time.Duration{p.RunTime}}, nil
}

// sortByArrival sorts records and makes their arrivals relative to the first.
func sortByArrival(list []JobRecord) {
	slices.SortStableFunc(list, func(a, b JobRecord) int { return cmp.Compare(a.ArrivesAt, b.ArrivesAt) })
	for i := len(list) - 1; i >= 0; i-- {
		list[i].ArrivesAt -= list[0].ArrivesAt
	}
}
