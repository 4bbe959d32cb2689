package pending

import (
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
)

// The resources that UnmetDemand.Missing names.
const (
	MissingGPUs  = "gpus"
	MissingCPUs  = "cpus"
	MissingMem   = "mem"
	MissingDisk  = "disk"
	MissingPorts = "ports"
)

// splitByShortage returns how many of n tasks without a place lack GPUs, and what the other tasks lack although GPUs
// are free. places are those of the job's other tasks. Either all or none of a gang's tasks lack GPUs.
func (s *demandSurvey) splitByShortage(j *queue.WaitingJob, d *fit.Demand, places []fit.Placement, n int) (withoutGPUs int, missing []string) {
	gpusOnly := *d
	gpusOnly.PeerAgents = slices.Clone(d.PeerAgents)
	for i := range places {
		gpusOnly.PeerAgents = append(gpusOnly.PeerAgents, &s.Cluster.Agents()[places[i].Agent])
	}
	gpusOnly.Amount, gpusOnly.Ports, gpusOnly.HostPorts = fit.Amount{}, 0, nil
	fitting := s.countFits(&gpusOnly, n)
	if fitting == 0 || j.Spec.Gang && fitting < n {
		return n, nil
	}
	return n - fitting, s.findOtherShortages(d, gpusOnly, fitting)
}

// findOtherShortages returns the resources that each alone prevent n tasks from using free GPUs, or all that the tasks
// need if only several together do.
func (s *demandSurvey) findOtherShortages(d *fit.Demand, gpusOnly fit.Demand, n int) (missing []string) {
	var needed []string
	for _, r := range []struct {
		name  string
		needs bool
		add   func(with *fit.Demand)
	}{
		{MissingCPUs, d.Amount.CPUs > 0, func(with *fit.Demand) { with.Amount.CPUs = d.Amount.CPUs }},
		{MissingMem, d.Amount.MemMiB > 0, func(with *fit.Demand) { with.Amount.MemMiB = d.Amount.MemMiB }},
		{MissingDisk, d.Amount.DiskMiB > 0, func(with *fit.Demand) { with.Amount.DiskMiB = d.Amount.DiskMiB }},
		{MissingPorts, d.Ports > 0, func(with *fit.Demand) { with.Ports, with.HostPorts = d.Ports, d.HostPorts }},
	} {
		if !r.needs {
			continue
		}
		needed = append(needed, r.name)
		with := gpusOnly
		r.add(&with)
		if s.countFits(&with, n) < n {
			missing = append(missing, r.name)
		}
	}
	if missing == nil {
		return needed
	}
	return missing
}

// countFits returns how many of n tasks fit now, and takes no places.
func (s *demandSurvey) countFits(d *fit.Demand, n int) int {
	places := s.Cluster.PlaceTasks(d, n)
	s.Cluster.UndoPlacements(d, places)
	return len(places)
}
