package ledger

import (
	"cmp"
	"math"
	"slices"

	"mesos-gpu/gpu"
)

// readParts adds up the scalars of shared devices.
func readParts(resources []Resource) ([]gpu.Part, error) {
	mem, cores := map[string]float64{}, map[string]float64{}
	for _, r := range resources {
		switch uuid, isCores, ok := gpu.ShareResource(r.Name); {
		case ok && isCores:
			cores[uuid] += r.Scalar
		case ok:
			mem[uuid] += r.Scalar
		}
	}
	var parts []gpu.Part
	for uuid, n := range mem {
		if !countable(n) || n < 1 {
			return nil, refuse("%s:%v is not a whole number of MiB from 1 on", gpu.MemResource(uuid), n)
		}
		if !countable(cores[uuid]) {
			return nil, refuse("%s:%v is not a whole number of percent from 0 on", gpu.CoresResource(uuid), cores[uuid])
		}
		parts = append(parts, gpu.Part{UUID: uuid, MemMiB: int64(n), Cores: int(cores[uuid])})
		delete(cores, uuid)
	}
	for uuid, n := range cores {
		if n != 0 {
			return nil, refuse("%s:%v comes without %s: take memory of the device too", gpu.CoresResource(uuid), n, gpu.MemResource(uuid))
		}
	}
	slices.SortFunc(parts, func(a, b gpu.Part) int { return cmp.Compare(a.UUID, b.UUID) })
	return parts, nil
}

// maxAmount bounds what a scalar may ask of one device; none comes near.
const maxAmount = 1 << 40

func countable(n float64) bool { return n == math.Trunc(n) && n >= 0 && n <= maxAmount }

func partsOf(parts []gpu.Part) []string {
	if len(parts) == 0 {
		return nil
	}
	ids := make([]string, len(parts))
	for i, p := range parts {
		ids[i] = p.UUID
	}
	return ids
}

func partOf(parts []gpu.Part, device string) (gpu.Part, bool) {
	if i := slices.IndexFunc(parts, func(p gpu.Part) bool { return p.UUID == device }); i >= 0 {
		return parts[i], true
	}
	return gpu.Part{}, false
}

// fits reports whether a part is within another.
func fits(p, within gpu.Part) bool { return p.MemMiB <= within.MemMiB && p.Cores <= within.Cores }

// Union is what both lists come to together where each claims the larger part
// of a device, in the order of the devices' names.
func Union(a, b []gpu.Part) []gpu.Part {
	all := slices.Clone(b)
	for _, p := range a {
		i := slices.IndexFunc(all, func(q gpu.Part) bool { return q.UUID == p.UUID })
		if i < 0 {
			all = append(all, p)
			continue
		}
		all[i].MemMiB, all[i].Cores = max(all[i].MemMiB, p.MemMiB), max(all[i].Cores, p.Cores)
	}
	slices.SortFunc(all, func(a, b gpu.Part) int { return cmp.Compare(a.UUID, b.UUID) })
	return all
}

// checkParts tells whether those parts can be granted to a container that has
// others now: each of a shared device, or of a part of its ancestor, and with
// what others have of it no more than there is.
func (l *Ledger) checkParts(s source, parts, now []gpu.Part) error {
	for _, p := range parts {
		if err := s.check(p.UUID, "takes a part of"); err != nil {
			return err
		}
		has, holds := partOf(now, p.UUID)
		if holds && fits(p, has) {
			continue
		}
		all, ok := l.shared(p.UUID)
		if s.ancestor != "" {
			all, ok = partOf(s.parts, p.UUID)
		}
		if !ok && !holds {
			return refuse("container %s takes a part of device %s, which is not shared%s", s.container, p.UUID, s.from())
		}
		if err := s.overcommits(p, all, l.others(s, p.UUID)); err != nil {
			return err
		}
	}
	return nil
}

// overcommits is an error where a part, and what others have, is more than all.
func (s source) overcommits(p, all, others gpu.Part) error {
	if free := all.MemMiB - others.MemMiB; p.MemMiB > free {
		return refuse("container %s wants %d MiB of device %s, %d of its %d MiB are free%s", s.container, p.MemMiB, p.UUID, max(0, free), all.MemMiB, s.from())
	}
	if free := all.Cores - others.Cores; p.Cores > free {
		return refuse("container %s wants %d %% of the cores of device %s, %d of %d %% are free%s", s.container, p.Cores, p.UUID, max(0, free), all.Cores, s.from())
	}
	return nil
}

func (s source) from() string {
	if s.ancestor == "" {
		return ""
	}
	return " in container " + s.ancestor
}

// others adds up what containers beside this one have of the device that take
// from where it does.
func (l *Ledger) others(s source, device string) gpu.Part {
	sum := gpu.Part{UUID: device}
	for id, h := range l.held {
		if id == s.container || h.Inherits || Within(id, s.container) || nested(id) != nested(s.container) {
			continue
		}
		if nested(id) && l.lender(id) != s.ancestor {
			continue
		}
		p, _ := partOf(h.Parts, device)
		sum.MemMiB, sum.Cores = sum.MemMiB+p.MemMiB, sum.Cores+p.Cores
	}
	return sum
}

// take grants what is left of those parts, and leaves the rest.
func take(left, parts []gpu.Part) []gpu.Part {
	var taken []gpu.Part
	for _, p := range parts {
		i := slices.IndexFunc(left, func(q gpu.Part) bool { return q.UUID == p.UUID })
		if i < 0 || left[i].MemMiB == 0 && p.MemMiB > 0 {
			continue
		}
		p.MemMiB, p.Cores = min(p.MemMiB, left[i].MemMiB), min(p.Cores, left[i].Cores)
		left[i].MemMiB, left[i].Cores = left[i].MemMiB-p.MemMiB, left[i].Cores-p.Cores
		taken = append(taken, p)
	}
	return taken
}
