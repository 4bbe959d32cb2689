// Package resource implements the arithmetic of Mesos resources: sums,
// differences and containment of scalars, ranges and sets. Resources with
// different names, roles, reservations, providers or allocations are separate.
// The package is pure: it modifies no argument and its results share no memory
// with them. The embedded master and agent and the test masters use it.
package resource

import (
	"maps"
	"math"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// resourcePart is a bag's total of one kind of resource. Scalars are integers
// in thousandths, the precision of Mesos.
type resourcePart struct {
	key    resourceKey
	kind   *mesos.Resource // the first one that was added
	milli  int64
	set    map[string]struct{} // nil without items
	ranges mesos.Ranges
}

// resourceBag has at most one part of each kind, in insertion order. Agents have
// so few kinds that a search is faster than a map.
type resourceBag struct {
	parts []resourcePart
	// overlap is set once a set item or a range was added twice.
	overlap bool
}

func newBag(groups ...[]mesos.Resource) *resourceBag {
	b := &resourceBag{}
	for _, group := range groups {
		b.parts = slices.Grow(b.parts, len(group))
		for i := range group {
			b.addResource(&group[i])
		}
	}
	return b
}

// findPart returns the part with a key, nil if none exists.
func (b *resourceBag) findPart(key resourceKey) *resourcePart {
	for i := range b.parts {
		if b.parts[i].key == key {
			return &b.parts[i]
		}
	}
	return nil
}

func (b *resourceBag) addResource(r *mesos.Resource) {
	key := keyOf(r)
	p := b.findPart(key)
	if p == nil {
		b.parts = append(b.parts, resourcePart{key: key, kind: r})
		p = &b.parts[len(b.parts)-1]
	}
	p.milli += milliValue(r)
	if items := r.GetSet().GetItem(); len(items) > 0 {
		if p.set == nil {
			p.set = make(map[string]struct{}, len(items))
		}
		for _, item := range items {
			if _, has := p.set[item]; has {
				b.overlap = true
			}
			p.set[item] = struct{}{}
		}
	}
	if more := r.GetRanges().GetRange(); len(more) > 0 {
		all := mesos.Ranges(slices.Concat(p.ranges, more))
		if len(all) > 1 {
			all.Sort()
		}
		for i := 1; i < len(all); i++ {
			if all[i].Begin <= all[i-1].End {
				b.overlap = true
			}
		}
		p.ranges = all.Squash()
	}
}

// subtractResource removes the part of r that the bag contains.
func (b *resourceBag) subtractResource(r *mesos.Resource) {
	p := b.findPart(keyOf(r))
	if p == nil {
		return
	}
	p.milli = max(0, p.milli-milliValue(r))
	for _, item := range r.GetSet().GetItem() {
		delete(p.set, item)
	}
	for _, span := range r.GetRanges().GetRange() {
		p.ranges = p.ranges.Remove(span)
	}
}

func (p *resourcePart) isEmpty() bool { return p.milli <= 0 && len(p.set) == 0 && len(p.ranges) == 0 }

func (b *resourceBag) list() []mesos.Resource {
	var out []mesos.Resource
	for i := range b.parts {
		p := &b.parts[i]
		if p.isEmpty() {
			continue
		}
		if out == nil {
			out = make([]mesos.Resource, 0, len(b.parts)-i)
		}
		r := kindOf(p.kind)
		switch r.GetType() {
		case mesos.SET:
			r.Set = &mesos.Value_Set{Item: slices.Sorted(maps.Keys(p.set))}
		case mesos.RANGES:
			r.Ranges = &mesos.Value_Ranges{Range: slices.Clone(p.ranges)}
		default:
			r.Scalar = &mesos.Value_Scalar{Value: float64(p.milli) / 1000}
		}
		out = append(out, r)
	}
	return out
}

func milliValue(r *mesos.Resource) int64 {
	return int64(math.Round(r.GetScalar().GetValue() * 1000))
}

// Sum returns the sum of groups, with one resource for each kind.
func Sum(groups ...[]mesos.Resource) []mesos.Resource { return newBag(groups...).list() }

// Subtract returns from without what. No amount becomes negative.
func Subtract(from, what []mesos.Resource) []mesos.Resource { return difference(from, what).list() }

func difference(from, what []mesos.Resource) *resourceBag {
	b := newBag(from)
	for i := range what {
		b.subtractResource(&what[i])
	}
	return b
}

// Contains reports whether have contains all of want.
func Contains(have, want []mesos.Resource) bool {
	missing := difference(want, have)
	return !slices.ContainsFunc(missing.parts, func(p resourcePart) bool { return !p.isEmpty() })
}

// Equal reports whether a and b contain the same amounts.
func Equal(a, b []mesos.Resource) bool { return Contains(a, b) && Contains(b, a) }

// Overlaps reports whether the groups contain a set item or range more than once.
func Overlaps(groups ...[]mesos.Resource) bool { return newBag(groups...).overlap }

// SumScalar returns the sum of all scalars with the given name.
func SumScalar(rs []mesos.Resource, name string) float64 {
	var sum int64
	for i := range rs {
		if r := &rs[i]; r.Name == name && r.GetType() == mesos.SCALAR {
			sum += milliValue(r)
		}
	}
	return float64(sum) / 1000
}

// NewScalar returns an unreserved scalar resource.
func NewScalar(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
}

// NewSet returns an unreserved set resource.
func NewSet(name string, items ...string) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: items}}
}
