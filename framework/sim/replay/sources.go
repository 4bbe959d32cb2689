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

// FromAgents are recorded agents.
func FromAgents(list []sim.Agent) []Agent {
	agents := make([]Agent, len(list))
	for i, a := range list {
		agents[i] = Agent{ID: a.Name, GPUs: a.GPUs, Model: a.Model, Has: sched.Amount{CPUs: float64(a.CPUMilli) / 1000, MemMiB: float64(a.MemMiB)}}
	}
	return agents
}

// FromTasks makes works of recorded tasks that tell when they came and left.
// One that shares a GPU takes a whole one here.
func FromTasks(list []sim.Task) (iter.Seq[Work], error) {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b sim.Task) int { return cmp.Compare(a.Arrives, b.Arrives) })
	for i := range sorted {
		if sorted[i].Leaves == 0 {
			return nil, fmt.Errorf("task %q: the record does not say when it left", sorted[i].Name)
		}
	}
	return func(yield func(Work) bool) {
		for i := range sorted {
			t := &sorted[i]
			s := job.Spec{
				Name: t.Name, CPUs: max(float64(t.CPUMilli)/1000, 0.001), MemMiB: max(float64(t.MemMiB), 1),
				Request: gpu.Request{GPUs: t.GPUs, Types: gpu.Types{Include: t.Models}}, Command: []string{"true"},
			}
			s.SetDefaults()
			if !yield(Work{Spec: s, Arrives: t.Arrives - sorted[0].Arrives, Runs: []time.Duration{max(t.Leaves-t.Arrives, time.Second)}}) {
				return
			}
		}
	}, nil
}

// FromJobs makes works of what a journal remembers: jobs all of whose tasks
// have run and ended, with their times; left counts the others. Of what they
// asked for, the resources, the role and what orders the queue is kept.
// Containers and constraints are not: nobody runs anything here, and the
// agents' attributes are not on record. One that shares GPUs takes whole ones
// here.
func FromJobs(jobs []*job.Job) (works []Work, left int) {
	for _, j := range jobs {
		w := Work{Spec: plain(&j.Spec)}
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if t.State.Live() || t.Started.IsZero() || t.Ended.Before(t.Started) {
				break
			}
			w.Runs = append(w.Runs, max(t.Ended.Sub(t.Started), time.Second))
		}
		if len(w.Runs) < len(j.Tasks) || len(j.Tasks) == 0 {
			left++
			continue
		}
		w.Arrives = time.Duration(j.Submitted.UnixNano())
		works = append(works, w)
	}
	slices.SortStableFunc(works, func(a, b Work) int { return cmp.Compare(a.Arrives, b.Arrives) })
	for i := len(works) - 1; i >= 0; i-- {
		works[i].Arrives -= works[0].Arrives
	}
	return works, left
}

func plain(s *job.Spec) job.Spec {
	p := job.Spec{
		Name: s.Name, Tasks: s.Tasks, Request: s.Request, CPUs: s.CPUs, MemMiB: s.MemMiB, Command: []string{"true"},
		Role: s.Role, Priority: s.Priority, Preemptible: s.Preemptible, Gang: s.Gang, RunTime: s.RunTime, KillGrace: s.KillGrace,
	}
	p.Request.Devices, p.Request.Share = gpu.Devices{}, gpu.Share{}
	p.SetDefaults()
	return p
}

// FromSpec is a job that is there from the begin. It says itself how long it
// runs.
func FromSpec(s *job.Spec) (Work, error) {
	if s.Runs() == 0 {
		return Work{}, errors.New("the job says neither run_time nor timeout: how long would it run?")
	}
	p := plain(s)
	p.RunTime = s.Runs()
	return Work{Spec: p, Runs: []time.Duration{p.RunTime}}, nil
}
