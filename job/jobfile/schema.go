package jobfile

import (
	"fmt"
	"maps"
	"slices"

	"mesos-gpu/job/spell"
)

// Key is one of a job file's keys, for people.
type Key struct {
	Name string
	// Doc says what it is and what it takes, Default what holds where it is
	// left out, which may be empty.
	Doc, Default string
	// Parts are the keys inside its value, where it may have some.
	Parts []string
}

// Keys lists the keys of a job file in alphabetical order.
func Keys() []Key {
	var all []Key
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, Key{Name: name})
	}
	return all
}

// Explain finds a key by its name, and names the one that was probably meant
// where there is none.
func Explain(name string) (Key, error) {
	best, distance := "", 3
	for _, k := range Keys() {
		if k.Name == name {
			return k, nil
		}
		if d := spell.Distance(name, k.Name); d < distance && d < len(name) {
			best, distance = k.Name, d
		}
	}
	if best != "" {
		return Key{}, fmt.Errorf("a job file has no key %q; did you mean %q?", name, best)
	}
	return Key{}, fmt.Errorf("a job file has no key %q", name)
}
