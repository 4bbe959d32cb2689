// Package layouttest has the profiles of real GPUs, for tests: as NVIDIA's
// Multi-Instance GPU User Guide lists them, with the places that `nvidia-smi
// mig -lgipp` prints.
package layouttest

import "mesos-gpu/isolator/layout"

// A100 is an A100 of 40 GB.
func A100() []layout.InstanceProfile { return sevenSliceProfiles("5gb", "10gb", "20gb", "40gb", 4864) }

// H100 is an H100 of 80 GB; an A100 of 80 GB has the same names.
func H100() []layout.InstanceProfile { return sevenSliceProfiles("10gb", "20gb", "40gb", "80gb", 9856) }

// A30 has four slices of either.
func A30() []layout.InstanceProfile {
	const slice = 5952
	return []layout.InstanceProfile{
		{Name: "1g.6gb", ID: 14, Slices: 1, MemMiB: slice, Max: 4, Size: 1, Starts: []int{0, 1, 2, 3}},
		{Name: "1g.6gb+me", ID: 21, Slices: 1, MemMiB: slice, Max: 1, Size: 1, Starts: []int{0, 1, 2, 3}},
		{Name: "2g.12gb", ID: 5, Slices: 2, MemMiB: 2 * slice, Max: 2, Size: 2, Starts: []int{0, 2}},
		{Name: "4g.24gb", ID: 0, Slices: 4, MemMiB: 4 * slice, Max: 1, Size: 4, Starts: []int{0}},
	}
}

// sevenSliceProfiles are the profiles of GPUs with seven slices of compute and eight of
// memory, named by what one, two, four and eight of those come to.
func sevenSliceProfiles(one, two, four, eight string, slice int64) []layout.InstanceProfile {
	all := []int{0, 1, 2, 3, 4, 5, 6}
	return []layout.InstanceProfile{
		{Name: "1g." + one, ID: 19, Slices: 1, MemMiB: slice, Max: 7, Size: 1, Starts: all},
		{Name: "1g." + one + "+me", ID: 20, Slices: 1, MemMiB: slice, Max: 1, Size: 1, Starts: all},
		{Name: "1g." + two, ID: 15, Slices: 1, MemMiB: 2 * slice, Max: 4, Size: 2, Starts: []int{0, 2, 4, 6}},
		{Name: "2g." + two, ID: 14, Slices: 2, MemMiB: 2 * slice, Max: 3, Size: 2, Starts: []int{0, 2, 4}},
		{Name: "3g." + four, ID: 9, Slices: 3, MemMiB: 4 * slice, Max: 2, Size: 4, Starts: []int{0, 4}},
		{Name: "4g." + four, ID: 5, Slices: 4, MemMiB: 4 * slice, Max: 1, Size: 4, Starts: []int{0}},
		{Name: "7g." + eight, ID: 0, Slices: 7, MemMiB: 8 * slice, Max: 1, Size: 8, Starts: []int{0}},
	}
}
