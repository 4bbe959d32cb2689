// Package layouttest contains the profiles of real GPUs for tests. They are from NVIDIA's
// Multi-Instance GPU User Guide, with the placements that `nvidia-smi mig -lgipp` prints.
package layouttest

import "mesos-gpu/isolator/layout"

// A100 returns the profiles of an A100 with 40 GB.
func A100() []layout.InstanceProfile { return sevenSliceProfiles("5gb", "10gb", "20gb", "40gb", 4864) }

// H100 returns the profiles of an H100 with 80 GB. An A100 with 80 GB has the same names.
func H100() []layout.InstanceProfile { return sevenSliceProfiles("10gb", "20gb", "40gb", "80gb", 9856) }

// A30 returns the profiles of an A30, which has four compute and four memory slices.
func A30() []layout.InstanceProfile {
	const slice = 5952
	return []layout.InstanceProfile{
		{Name: "1g.6gb", ID: 14, Slices: 1, MemMiB: slice, Max: 4, Size: 1, Starts: []int{0, 1, 2, 3}},
		{Name: "1g.6gb+me", ID: 21, Slices: 1, MemMiB: slice, Max: 1, Size: 1, Starts: []int{0, 1, 2, 3}},
		{Name: "2g.12gb", ID: 5, Slices: 2, MemMiB: 2 * slice, Max: 2, Size: 2, Starts: []int{0, 2}},
		{Name: "4g.24gb", ID: 0, Slices: 4, MemMiB: 4 * slice, Max: 1, Size: 4, Starts: []int{0}},
	}
}

// sevenSliceProfiles returns the profiles of a GPU with seven compute and eight memory slices.
// one, two, four and eight are the memory of that many slices.
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
