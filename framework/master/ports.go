package master

import (
	"cmp"
	"fmt"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// takePorts takes exactly these ports out of the offered ranges.
func takePorts(rest []mesos.Resource, ports []int) (taken []mesos.Resource, err error) {
	from := map[int][]uint64{} // by index in rest
	for _, port := range ports {
		i := slices.IndexFunc(rest, func(r mesos.Resource) bool {
			return r.Name == "ports" && isPlainResource(r) && containsPort(r.GetRanges().GetRange(), uint64(port))
		})
		if i < 0 {
			return nil, fmt.Errorf("port %d is not among the offered ports", port)
		}
		rest[i] = withRanges(rest[i], removePort(rest[i].GetRanges().GetRange(), uint64(port)))
		from[i] = append(from[i], uint64(port))
	}
	for i := range rest {
		if len(from[i]) > 0 {
			taken = append(taken, withRanges(rest[i], portRanges(from[i])))
		}
	}
	return taken, nil
}

func containsPort(ranges []mesos.Value_Range, port uint64) bool {
	return slices.ContainsFunc(ranges, func(r mesos.Value_Range) bool { return r.Begin <= port && port <= r.End })
}

// removePort splits the range with the port.
func removePort(ranges []mesos.Value_Range, port uint64) []mesos.Value_Range {
	var left []mesos.Value_Range
	for _, r := range ranges {
		if port < r.Begin || r.End < port {
			left = append(left, r)
			continue
		}
		if r.Begin < port {
			left = append(left, mesos.Value_Range{Begin: r.Begin, End: port - 1})
		}
		if port < r.End {
			left = append(left, mesos.Value_Range{Begin: port + 1, End: r.End})
		}
	}
	return left
}

// portRanges joins adjacent ports.
func portRanges(ports []uint64) []mesos.Value_Range {
	slices.SortFunc(ports, cmp.Compare)
	var ranges []mesos.Value_Range
	for _, p := range ports {
		if n := len(ranges); n > 0 && ranges[n-1].End+1 == p {
			ranges[n-1].End = p
			continue
		}
		ranges = append(ranges, mesos.Value_Range{Begin: p, End: p})
	}
	return ranges
}

// withRanges returns a copy of a resource with other ranges.
func withRanges(r mesos.Resource, ranges []mesos.Value_Range) mesos.Resource {
	r.Ranges = &mesos.Value_Ranges{Range: ranges}
	return r
}
