package sched

import (
	"slices"

	"mesos-gpu/framework/sched/fit"
)

// What a task may find too little of, in Lack.Short.
const (
	MissingGPUs  = "gpus"
	MissingCPUs  = "cpus"
	MissingMem   = "mem"
	MissingDisk  = "disk"
	MissingPorts = "ports"
)

// splitByShortage says of n tasks that find no place beside spots how many lack GPUs,
// and what the others lack though GPUs are free. Of a gang all do or none.
func (s *demandSurvey) splitByShortage(j *WaitingJob, d *fit.Demand, spots []fit.Placement, n int) (gpus int, plain []string) {
	bare := *d
	bare.PeerAgents = slices.Clone(d.PeerAgents)
	for i := range spots {
		bare.PeerAgents = append(bare.PeerAgents, &s.agents[spots[i].Agent])
	}
	bare.Amount, bare.Ports, bare.HostPorts = Amount{}, 0, nil
	free := s.countFits(&bare, n)
	switch {
	case free == 0, j.Spec.Gang && free < n:
		return n, nil
	default:
		return n - free, s.nonGPUShortages(d, bare, free)
	}
}

// nonGPUShortages names what keeps n tasks from GPUs that are free: each thing that
// alone would, or where only several together do, all that is wished for.
func (s *demandSurvey) nonGPUShortages(d *fit.Demand, bare fit.Demand, n int) (short []string) {
	var wished []string
	for _, x := range []struct {
		name string
		wish bool
		with func(b *fit.Demand)
	}{
		{MissingCPUs, d.Amount.CPUs > 0, func(b *fit.Demand) { b.Amount.CPUs = d.Amount.CPUs }},
		{MissingMem, d.Amount.MemMiB > 0, func(b *fit.Demand) { b.Amount.MemMiB = d.Amount.MemMiB }},
		{MissingDisk, d.Amount.DiskMiB > 0, func(b *fit.Demand) { b.Amount.DiskMiB = d.Amount.DiskMiB }},
		{MissingPorts, d.Ports > 0, func(b *fit.Demand) { b.Ports, b.HostPorts = d.Ports, d.HostPorts }},
	} {
		if !x.wish {
			continue
		}
		wished = append(wished, x.name)
		alone := bare
		x.with(&alone)
		if s.countFits(&alone, n) < n {
			short = append(short, x.name)
		}
	}
	if short == nil {
		return wished
	}
	return short
}

// countFits is how many of n tasks find a place.
func (s *demandSurvey) countFits(d *fit.Demand, n int) int {
	spots := s.cluster.fillPlacements(d, n)
	s.cluster.undoPlacements(d, spots)
	return len(spots)
}
