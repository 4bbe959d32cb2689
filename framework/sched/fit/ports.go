package fit

import (
	"cmp"
	"slices"
)

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last int }

const maxPort = 65535

// joinPorts sorts ranges and melts those that touch. What is no port number
// is left out. Callers share what it returns: nobody changes it.
func joinPorts(ranges []PortRange) []PortRange {
	if len(ranges) == 0 {
		return nil
	}
	sorted := make([]PortRange, 0, len(ranges))
	for _, r := range ranges {
		if r = (PortRange{max(r.First, 1), min(r.Last, maxPort)}); r.First <= r.Last {
			sorted = append(sorted, r)
		}
	}
	slices.SortFunc(sorted, func(a, b PortRange) int { return cmp.Compare(a.First, b.First) })
	joined := sorted[:0]
	for _, r := range sorted {
		if n := len(joined); n > 0 && r.First <= joined[n-1].Last+1 {
			joined[n-1].Last = max(joined[n-1].Last, r.Last)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// takePorts splits the n lowest ports off joined ranges.
func takePorts(ranges []PortRange, n int) (taken []int, left []PortRange) {
	left = slices.Clone(ranges)
	taken = make([]int, 0, n)
	for len(taken) < n && len(left) > 0 {
		taken = append(taken, left[0].First)
		if left[0].First++; left[0].First > left[0].Last {
			left = left[1:]
		}
	}
	return taken, left
}

// givePorts joins ports to ranges.
func givePorts(ranges []PortRange, ports []int) []PortRange {
	all := slices.Clone(ranges)
	for _, p := range ports {
		all = append(all, PortRange{p, p})
	}
	return joinPorts(all)
}

func countPorts(ranges []PortRange) int {
	n := 0
	for _, r := range ranges {
		n += r.Last - r.First + 1
	}
	return n
}
