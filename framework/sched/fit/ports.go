package fit

import (
	"cmp"
	"slices"
)

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last int }

const maxPort = 65535

// mergePorts sorts ranges and melts those that touch. What is no port number
// is left out. Callers share what it returns: nobody changes it.
func mergePorts(ranges []PortRange) []PortRange {
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

// requiredPorts are the numbers that the demand's ports must have, nil for none.
// Their count is the demand's.
func requiredPorts(d *Demand) []int {
	if !slices.ContainsFunc(d.HostPorts, func(p int) bool { return p > 0 }) {
		return nil
	}
	return slices.Clone(d.HostPorts[:min(len(d.HostPorts), d.Ports)])
}

// containPorts reports whether joined ranges hold all those numbers but 0.
func containPorts(ranges []PortRange, wanted []int) bool {
	return !slices.ContainsFunc(wanted, func(p int) bool { return p > 0 && findRange(ranges, p) < 0 })
}

// findRange is where joined ranges hold a port; -1 if they do not.
func findRange(ranges []PortRange, port int) int {
	return slices.IndexFunc(ranges, func(r PortRange) bool { return r.First <= port && port <= r.Last })
}

// AvoidPorts has demands that any port will do leave those ports, as long as there
// are others: somebody waits for just them.
func (c *Cluster) AvoidPorts(ports []int) {
	c.index.avoidedPorts = slices.Clone(ports)
	slices.Sort(c.index.avoidedPorts)
}

// takePorts splits n ports off joined ranges: the numbers wanted, which the
// ranges hold, and where there is none the lowest that is not to be spared.
func takePorts(ranges []PortRange, n int, wanted, spared []int) (taken []int, left []PortRange) {
	left = slices.Clone(ranges)
	taken = make([]int, 0, n)
	for _, p := range wanted {
		if p > 0 {
			left = withoutPort(left, p)
		}
	}
	for i := 0; i < n; i++ {
		if i < len(wanted) && wanted[i] > 0 {
			taken = append(taken, wanted[i])
			continue
		}
		if len(left) == 0 {
			break
		}
		p := lowestPortExcept(left, spared)
		taken, left = append(taken, p), withoutPort(left, p)
	}
	return taken, left
}

// lowestPortExcept is the lowest port that is not among the sorted others, or the
// lowest of all.
func lowestPortExcept(ranges []PortRange, others []int) int {
	for _, r := range ranges {
		for p := r.First; p <= r.Last; p++ {
			if _, among := slices.BinarySearch(others, p); !among {
				return p
			}
		}
	}
	return ranges[0].First
}

// WithoutPorts are the ranges less some ports.
func WithoutPorts(ranges []PortRange, ports []int) []PortRange {
	if len(ports) == 0 {
		return ranges
	}
	left := mergePorts(ranges)
	for _, p := range ports {
		left = withoutPort(left, p)
	}
	return left
}

// withoutPort splits the range that holds the port. It changes the ranges.
func withoutPort(ranges []PortRange, port int) []PortRange {
	i := findRange(ranges, port)
	if i < 0 {
		return ranges
	}
	var rest []PortRange
	if r := ranges[i]; r.First < port {
		rest = append(rest, PortRange{r.First, port - 1})
	}
	if r := ranges[i]; port < r.Last {
		rest = append(rest, PortRange{port + 1, r.Last})
	}
	return slices.Replace(ranges, i, i+1, rest...)
}

// addPorts joins ports to ranges.
func addPorts(ranges []PortRange, ports []int) []PortRange {
	all := slices.Clone(ranges)
	for _, p := range ports {
		all = append(all, PortRange{p, p})
	}
	return mergePorts(all)
}

func countPorts(ranges []PortRange) int {
	n := 0
	for _, r := range ranges {
		n += r.Last - r.First + 1
	}
	return n
}
