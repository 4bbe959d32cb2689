package sched

import (
	"slices"

	"mesos-gpu/framework/sched/fit"
)

// What a task may find too little of, in Lack.Short.
const (
	ShortGPUs  = "gpus"
	ShortCPUs  = "cpus"
	ShortMem   = "mem"
	ShortDisk  = "disk"
	ShortPorts = "ports"
)

// short says of n tasks that find no place beside spots how many lack GPUs,
// and what the others lack though GPUs are free. Of a gang all do or none.
func (s *survey) short(j *Job, d *fit.Demand, spots []fit.Spot, n int) (gpus int, plain []string) {
	bare := *d
	bare.Beside = slices.Clone(d.Beside)
	for i := range spots {
		bare.Beside = append(bare.Beside, &s.agents[spots[i].Agent])
	}
	bare.Amount, bare.Ports, bare.HostPorts = Amount{}, 0, nil
	free := s.room(&bare, n)
	switch {
	case free == 0, j.Spec.Gang && free < n:
		return n, nil
	default:
		return n - free, s.plainShort(d, bare, free)
	}
}

// plainShort names what keeps n tasks from GPUs that are free: each thing that
// alone would, or where only several together do, all that is wished for.
func (s *survey) plainShort(d *fit.Demand, bare fit.Demand, n int) (short []string) {
	var wished []string
	for _, x := range []struct {
		name string
		wish bool
		with func(b *fit.Demand)
	}{
		{ShortCPUs, d.Amount.CPUs > 0, func(b *fit.Demand) { b.Amount.CPUs = d.Amount.CPUs }},
		{ShortMem, d.Amount.MemMiB > 0, func(b *fit.Demand) { b.Amount.MemMiB = d.Amount.MemMiB }},
		{ShortDisk, d.Amount.DiskMiB > 0, func(b *fit.Demand) { b.Amount.DiskMiB = d.Amount.DiskMiB }},
		{ShortPorts, d.Ports > 0, func(b *fit.Demand) { b.Ports, b.HostPorts = d.Ports, d.HostPorts }},
	} {
		if !x.wish {
			continue
		}
		wished = append(wished, x.name)
		alone := bare
		x.with(&alone)
		if s.room(&alone, n) < n {
			short = append(short, x.name)
		}
	}
	if short == nil {
		return wished
	}
	return short
}

// room is how many of n tasks find a place.
func (s *survey) room(d *fit.Demand, n int) int {
	spots := s.cluster.Fill(d, n)
	s.cluster.Undo(d, spots)
	return len(spots)
}
