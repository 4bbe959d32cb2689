// Package layout is the arithmetic of NVIDIA's Multi-Instance GPU: which GPU
// instances one GPU can be cut into at the same time, and where each of them
// goes. It is pure, and asks no driver: what profiles there are and where they
// may stand is told to it.
package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// InstanceProfile is one kind of GPU instance, as the driver tells of it.
type InstanceProfile struct {
	// Name is NVIDIA's, "3g.20gb", and ID the number that NVML has for it.
	Name string `json:"name"`
	ID   int    `json:"id"`
	// Slices are its slices of compute, and MemMiB is its memory.
	Slices int   `json:"slices"`
	MemMiB int64 `json:"mem_mib"`
	// Max is how many of them one GPU can have.
	Max int `json:"max"`
	// Size is how many slices of memory it takes, from any of Starts.
	Size   int   `json:"size"`
	Starts []int `json:"starts"`
}

// GPUInstance is a GPU instance: a profile at a place, in slices of memory.
type GPUInstance struct {
	Profile string `json:"profile"`
	Start   int    `json:"start"`
	Size    int    `json:"size"`
}

// OverlapsWith reports whether both take the same slice of memory. Slices of
// compute are placed with those of memory, and never run out before them.
func (i GPUInstance) OverlapsWith(o GPUInstance) bool {
	return i.Start < o.Start+o.Size && o.Start < i.Start+i.Size
}

// String reads "3g.20gb at 4".
func (i GPUInstance) String() string { return fmt.Sprintf("%s at %d", i.Profile, i.Start) }

// maxInstances bounds what may be asked for: no GPU has so many slices.
const maxInstances = 16

// ParseLayout reads "3g.20gb,2x1g.5gb": the names of profiles with commas between,
// each with its number before it where that is more than one.
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

// FormatLayout is what Parse reads, the same for all orders of the names.
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

// PlaceInstances finds a place for one instance of each profile named, beside those
// that stay. It finds one where there is one, and of several always the same.
// The result is in order of place. The error names a profile that there is
// not, or says that they do not fit.
func PlaceInstances(profiles []InstanceProfile, stay []GPUInstance, names []string) ([]GPUInstance, error) {
	if len(names) > maxInstances {
		return nil, fmt.Errorf("MIG layout has %d instances, a GPU at most %d", len(names), maxInstances)
	}
	wanted := make([]InstanceProfile, 0, len(names))
	for _, name := range names {
		p, ok := findProfile(profiles, name)
		if !ok {
			return nil, fmt.Errorf("MIG profile %q is none of this GPU's: %s", name, strings.Join(profileNames(profiles), ", "))
		}
		wanted = append(wanted, p)
	}
	if err := checkCounts(wanted, stay); err != nil {
		return nil, err
	}
	// What has the fewest places goes first; equals stand together.
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

// placeRemaining puts the wanted ones beside what stands, each of equals after the one
// before it, which began at last.
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

// checkCounts is an error where there are more of one profile than a GPU can have,
// though there be places: of media engines there is one.
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
	return " beside what others made: " + strings.Join(texts, ", ")
}
