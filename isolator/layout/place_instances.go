// Package layout computes MIG layouts: which GPU instances one GPU can have at the same time,
// and where each of them is placed. It is pure and calls no driver: the caller provides the
// profiles and their possible placements.
package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// InstanceProfile is a kind of GPU instance, as the driver describes it.
type InstanceProfile struct {
	// Name is NVIDIA's name, "3g.20gb". ID is NVML's number.
	Name string `json:"name"`
	ID   int    `json:"id"`
	// Slices is the number of compute slices, MemMiB the memory.
	Slices int   `json:"slices"`
	MemMiB int64 `json:"mem_mib"`
	// Max is how many instances of the profile one GPU can have.
	Max int `json:"max"`
	// Size is the number of memory slices that an instance takes, from any of Starts.
	Size   int   `json:"size"`
	Starts []int `json:"starts"`
}

// GPUInstance is a profile and its place, in memory slices.
type GPUInstance struct {
	Profile string `json:"profile"`
	Start   int    `json:"start"`
	Size    int    `json:"size"`
}

// OverlapsWith reports whether both use the same memory slice. Compute slices are placed with
// memory slices and never run out before them.
func (i GPUInstance) OverlapsWith(o GPUInstance) bool {
	return i.Start < o.Start+o.Size && o.Start < i.Start+i.Size
}

// String returns for example "3g.20gb at 4".
func (i GPUInstance) String() string { return fmt.Sprintf("%s at %d", i.Profile, i.Start) }

// maxInstances bounds a requested layout. No GPU has as many slices.
const maxInstances = 16

// ParseLayout reads a layout such as "3g.20gb,2x1g.5gb": names of profiles separated by commas,
// with a number in front for more than one.
func ParseLayout(text string) ([]string, error) {
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		name, n := strings.TrimSpace(part), 1
		if count, rest, ok := strings.Cut(name, "x"); ok {
			if number, err := strconv.Atoi(count); err == nil {
				name, n = rest, number
			}
		}
		if name == "" || n < 1 || len(names)+n > maxInstances {
			return nil, fmt.Errorf("MIG layout %q: want 1 to %d profiles such as 3g.20gb,2x1g.5gb", text, maxInstances)
		}
		for range n {
			names = append(names, name)
		}
	}
	return names, nil
}

// FormatLayout returns the text that ParseLayout reads. It does not depend on the order of the
// names.
func FormatLayout(names []string) string {
	names = slices.Sorted(slices.Values(names))
	var parts []string
	for i := 0; i < len(names); {
		n := i + 1
		for n < len(names) && names[n] == names[i] {
			n++
		}
		if part := names[i]; n-i > 1 {
			parts = append(parts, fmt.Sprintf("%dx%s", n-i, part))
		} else {
			parts = append(parts, part)
		}
		i = n
	}
	slices.Reverse(parts) // the largest first
	return strings.Join(parts, ",")
}

// PlaceInstances finds a place for one instance of each named profile, in addition to the
// instances that stay. It finds places if there are any, and always the same ones. The result
// is sorted by place. The error names an unknown profile, or says that the instances do not
// fit.
func PlaceInstances(profiles []InstanceProfile, stay []GPUInstance, names []string) ([]GPUInstance, error) {
	if len(names) > maxInstances {
		return nil, fmt.Errorf("MIG layout has %d instances, a GPU at most %d", len(names), maxInstances)
	}
	wanted := make([]InstanceProfile, 0, len(names))
	for _, name := range names {
		p, ok := findProfile(profiles, name)
		if !ok {
			return nil, fmt.Errorf("this GPU has no MIG profile %q, but %s", name, strings.Join(profileNames(profiles), ", "))
		}
		wanted = append(wanted, p)
	}
	if err := checkCounts(wanted, stay); err != nil {
		return nil, err
	}
	// Profiles with the fewest places come first, equal ones are adjacent.
	slices.SortStableFunc(wanted, func(a, b InstanceProfile) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(len(a.Starts), len(b.Starts)), cmp.Compare(a.Name, b.Name))
	})
	placed, ok := placeRemaining(wanted, slices.Clone(stay), -1)
	if !ok {
		return nil, fmt.Errorf("MIG layout %s does not fit on the GPU%s", FormatLayout(names), describeFixed(stay))
	}
	placed = placed[len(stay):]
	slices.SortFunc(placed, compareStarts)
	return placed, nil
}

// placeRemaining places the wanted profiles one after the other and backtracks. Instances of
// equal profiles are placed in ascending order: each starts after last, the start of the one
// before it.
func placeRemaining(wanted []InstanceProfile, stand []GPUInstance, last int) ([]GPUInstance, bool) {
	if len(wanted) == 0 {
		return stand, true
	}
	p := wanted[0]
	for _, start := range slices.Sorted(slices.Values(p.Starts)) {
		i := GPUInstance{p.Name, start, p.Size}
		if start <= last || slices.ContainsFunc(stand, i.OverlapsWith) {
			continue
		}
		after := -1
		if len(wanted) > 1 && wanted[1].Name == p.Name {
			after = start
		}
		if all, ok := placeRemaining(wanted[1:], append(stand[:len(stand):len(stand)], i), after); ok {
			return all, true
		}
	}
	return nil, false
}

// checkCounts returns an error if there are more instances of a profile than a GPU can have.
// They may be limited by other engines than slices: a GPU has one media engine.
func checkCounts(wanted []InstanceProfile, stay []GPUInstance) error {
	for _, p := range wanted {
		n := 0
		for _, q := range wanted {
			if q.Name == p.Name {
				n++
			}
		}
		for _, i := range stay {
			if i.Profile == p.Name {
				n++
			}
		}
		if n > p.Max {
			return fmt.Errorf("MIG layout has %d of profile %s, a GPU at most %d", n, p.Name, p.Max)
		}
	}
	return nil
}

func compareStarts(a, b GPUInstance) int { return cmp.Compare(a.Start, b.Start) }

func findProfile(profiles []InstanceProfile, name string) (InstanceProfile, bool) {
	i := slices.IndexFunc(profiles, func(p InstanceProfile) bool { return p.Name == name })
	if i < 0 {
		return InstanceProfile{}, false
	}
	return profiles[i], true
}

func profileNames(profiles []InstanceProfile) []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

func describeFixed(stay []GPUInstance) string {
	if len(stay) == 0 {
		return ""
	}
	var texts []string
	for _, i := range stay {
		texts = append(texts, i.String())
	}
	return " in addition to the instances that stay: " + strings.Join(texts, ", ")
}
