package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/pflag"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// jobFlags are the flags of a job whose text needs reading.
type jobFlags struct {
	gpuMem, gpuMemory, topology, restart, disk string
	constraints, after, secrets                []string
	container                                  containerFlags
}

func (w *jobFlags) register(f *pflag.FlagSet, s *job.Spec) {
	f.StringSliceVar(&s.Request.Devices.Include, "gpu-uuid", nil, "GPUs that will do, by UUID")
	f.StringSliceVar(&s.Request.Devices.Exclude, "not-gpu-uuid", nil, "GPUs that will not do, by UUID")
	f.StringVar(&w.gpuMemory, "gpu-memory", "", "a part of each GPU instead of all of it: memory, such as 4GiB or 30%")
	f.IntVar(&s.Request.Share.Cores, "gpu-cores", 0, "a part of each GPU instead of all of it: compute in percent; 100 is a shared GPU to oneself")
	f.StringVar(&w.gpuMem, "gpu-mem", "", "memory each GPU has at least, such as 40GiB")
	f.StringVar(&s.Request.MinDriver, "gpu-driver", "", "oldest driver version that will do")
	f.StringVar(&s.Request.MinCUDA, "gpu-cuda", "", "oldest CUDA version that the driver must serve")
	f.StringVar(&w.topology, "gpu-topology", "", "how a task's GPUs hang together: any, nvlink or same-numa")
	f.StringArrayVar(&w.constraints, "constraint", nil, "which agents will do, as Marathon has it: 'hostname UNIQUE', 'rack LIKE r[12]'")
	w.container.register(f, s)
	f.StringVar(&w.disk, "disk", "", "disk for each task, such as 10GiB")
	f.StringArrayVar(&w.secrets, "secret", nil, "NAME=KEY: a variable whose value the agent keeps under that name for the job's role")
	f.StringVar(&s.Role, "role", "", "Mesos role whose offers and quota the job uses")
	f.IntVar(&s.Priority, "priority", 0, "jobs of one role go by priority, the highest first")
	f.BoolVar(&s.Preemptible, "preemptible", false, "tasks may be stopped and queued again for a job of higher priority")
	f.BoolVar(&s.Gang, "gang", false, "tasks start together or not at all")
	f.StringVar(&w.restart, "restart", "no", "always: a service, whose tasks are started again whatever ends them; or no")
	f.IntVar(&s.MaxParallel, "max-parallel", 0, "how many of the tasks hold places at a time; 0 is all")
	f.StringSliceVar(&w.after, "after", nil, "jobs that must have finished first, or JOB:ended, JOB:failed")
	f.IntVar(&s.Retries, "retries", 0, "how often a task that failed is tried again")
	f.DurationVar(&s.Timeout, "timeout", 0, "how long a task may run")
	f.DurationVar(&s.KillGrace, "kill-grace", job.DefaultKillGrace, "how long a task may take to end by itself (SIGTERM) before it is ended (SIGKILL)")
	f.DurationVar(&s.RunTime, "run-time", 0, "how long a task is expected to run: short jobs may go before large ones that wait")
	f.DurationVar(&s.MaxWait, "max-wait", 0, "how long the job may wait for its first start")
}

// applyTo reads what flags give as text.
func (w *jobFlags) applyTo(s *job.Spec) error {
	if err := w.container.applyTo(s); err != nil {
		return err
	}
	switch w.restart {
	case "always":
		s.Service = &job.Service{}
	case "no":
	default:
		return &usageError{fmt.Errorf("--restart: %q is neither always nor no: --retries says how often a task that failed is tried again", w.restart)}
	}
	if w.gpuMemory != "" {
		var err error
		if s.Request.Share.MemMiB, s.Request.Share.MemPercent, err = jobfile.ParseShareMemory(w.gpuMemory); err != nil {
			return &usageError{fmt.Errorf("--gpu-memory: %w", err)}
		}
	}
	if w.gpuMem != "" {
		mib, err := jobfile.ParseSize(w.gpuMem)
		if err != nil {
			return &usageError{fmt.Errorf("--gpu-mem: %w", err)}
		}
		s.Request.MinMemMiB = int64(math.Ceil(math.Min(mib, 1<<40)))
	}
	var err error
	if w.disk != "" {
		if s.DiskMiB, err = jobfile.ParseSize(w.disk); err != nil {
			return &usageError{fmt.Errorf("--disk: %w", err)}
		}
	}
	if s.Secrets, err = parseAssignments(w.secrets); err != nil {
		return &usageError{fmt.Errorf("--secret: %w: the value is the secret's name on the agent, never the secret", err)}
	}
	for _, text := range w.after {
		name, outcome, _ := strings.Cut(text, ":")
		s.After = append(s.After, job.Dependency{Job: name, Outcome: job.DependencyOutcome(outcome)})
	}
	s.Request.Topology = gpu.Topology(w.topology)
	for _, text := range w.constraints {
		c, err := job.ParseConstraint(text)
		if err != nil {
			return &usageError{fmt.Errorf("--constraint: %w", err)}
		}
		s.Constraints = append(s.Constraints, c)
	}
	return nil
}
