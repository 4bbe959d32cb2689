package fit

import (
	"cmp"
	"math/bits"
	"slices"
)

// PortRange is a range of ports that includes both ends.
type PortRange struct{ First, Last int }

const maxPort = 65535

// mergePorts returns sorted ranges that do not touch. It drops invalid port
// numbers. The caller must not change the result, which may be the ranges themselves.
func mergePorts(ranges []PortRange) []PortRange {
	if len(ranges) == 0 {
		return nil
	}
	if areMerged(ranges) {
		return ranges
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

// areMerged reports whether the ranges are sorted and valid and do not touch.
func areMerged(ranges []PortRange) bool {
	for i, r := range ranges {
		if r.First < 1 || r.First > r.Last || r.Last > maxPort || i > 0 && r.First <= ranges[i-1].Last+1 {
			return false
		}
	}
	return true
}

// containPorts reports whether merged ranges contain all wanted ports except 0.
func containPorts(ranges []PortRange, wanted []int) bool {
	return !slices.ContainsFunc(wanted, func(p int) bool { return p > 0 && findRange(ranges, p) < 0 })
}

// findRange returns which of the merged ranges contains the port, or -1.
func findRange(ranges []PortRange, port int) int {
	return slices.IndexFunc(ranges, func(r PortRange) bool { return r.First <= port && port <= r.Last })
}

// takePorts takes n ports from merged ranges, which contain the wanted ones. For a wanted 0, and for ports beyond
// wanted, it draws one of those that need not be avoided, so that a program outside of Mesos which uses a port of the
// range does not block every attempt. Equal seeds draw the same.
func takePorts(ranges []PortRange, n int, wanted, spared []int, seed uint64) (taken []int, left []PortRange) {
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
		p := drawPort(left, spared, seed+uint64(i)*splitMixStep)
		taken, left = append(taken, p), withoutPort(left, p)
	}
	return taken, left
}

// drawPort returns a port that is not among the others, which are sorted. If all ports are, it returns one of those.
func drawPort(ranges []PortRange, others []int, seed uint64) int {
	candidates := ranges
	if among := portsAmong(ranges, others); len(among) > 0 && len(among) < countPorts(ranges) {
		candidates = WithoutPorts(ranges, among)
	}
	nth, _ := bits.Mul64(splitMix(seed), uint64(countPorts(candidates)))
	left := int(nth)
	for _, r := range candidates {
		if size := r.Last - r.First + 1; left >= size {
			left -= size
			continue
		}
		return r.First + left
	}
	return candidates[0].First
}

// portsAmong returns those of the ports that merged ranges contain.
func portsAmong(ranges []PortRange, ports []int) (among []int) {
	for _, p := range ports {
		if findRange(ranges, p) >= 0 {
			among = append(among, p)
		}
	}
	return slices.Compact(among)
}

// WithoutPorts returns the ranges without some ports.
func WithoutPorts(ranges []PortRange, ports []int) []PortRange {
	if len(ports) == 0 {
		return ranges
	}
	left := slices.Clone(mergePorts(ranges))
	for _, p := range ports {
		left = withoutPort(left, p)
	}
	return left
}

// withoutPort removes a port. It modifies the ranges.
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

// addPorts returns the ranges with the ports merged in.
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
