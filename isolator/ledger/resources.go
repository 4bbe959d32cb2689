package ledger

import (
	"fmt"
	"math"
	"slices"

	"mesos-gpu/gpu"
)

// Names of the resources that this package knows.
const (
	scalarName = "gpus"
	setName    = "gpu_ids"
)

// maxGPUs bounds what a scalar may ask for; no host comes near.
const maxGPUs = 1 << 16

// Resource is one of Mesos's Resource messages: a name, and a scalar or a set
// of items.
type Resource struct {
	Name   string   `json:"name"`
	Scalar float64  `json:"scalar,omitempty"`
	Set    []string `json:"set,omitempty"`
}

// Want is what a container's resources come to: devices by name, a number of
// devices of the stock pool, and parts of shared devices in the order of their
// names.
type Want struct {
	Named []string
	Stock int
	Parts []gpu.Part
}

// Empty reports whether nothing is wanted.
func (w Want) Empty() bool { return w.Count() == 0 }

// Count is the number of devices wanted, wholly or a part of.
func (w Want) Count() int { return len(w.Named) + w.Stock + len(w.Parts) }

// Read adds up resources. Names it does not know are not devices to it.
func Read(resources []Resource) (Want, error) {
	var w Want
	total := 0.0
	for _, r := range resources {
		switch r.Name {
		case scalarName:
			total += r.Scalar
		case setName:
			w.Named = append(w.Named, r.Set...)
		}
	}
	if total != math.Trunc(total) || total < 0 || total > maxGPUs {
		return Want{}, refuse("gpus:%v is not a whole number of devices from 0 to %d", total, maxGPUs)
	}
	if name := twice(w.Named); name != "" {
		return Want{}, refuse("gpu_ids names device %s twice", name)
	}
	if slices.Contains(w.Named, "") {
		return Want{}, refuse("gpu_ids holds an empty name among %d", len(w.Named))
	}
	if w.Stock = int(total) - len(w.Named); w.Stock < 0 {
		return Want{}, refuse("gpus:%d is less than its %d gpu_ids; a task takes one of its gpus for each gpu_ids item", int(total), len(w.Named))
	}
	slices.Sort(w.Named)
	var err error
	if w.Parts, err = readParts(resources); err != nil {
		return Want{}, err
	}
	for _, p := range w.Parts {
		if slices.Contains(w.Named, p.UUID) {
			return Want{}, refuse("device %s is named by gpu_ids, and a part of it by %s: it is one or the other", p.UUID, gpu.MemResource(p.UUID))
		}
	}
	return w, nil
}

func twice(names []string) string {
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if seen[n] {
			return n
		}
		seen[n] = true
	}
	return ""
}

// Refusal is an error of what was asked for, not of the books.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return r.Why }

func refuse(format string, args ...any) error { return &Refusal{Why: fmt.Sprintf(format, args...)} }
