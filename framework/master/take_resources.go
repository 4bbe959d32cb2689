package master

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
)

// resourceRequest lists the resources that one task or executor takes from an agent's offers.
type resourceRequest struct {
	// cpus, mem and disk are in the units of Mesos: CPUs and MiB.
	cpus, mem, disk float64
	// gpus is the gpus scalar; devices are the UUIDs of whole devices, if the agent names them.
	gpus    int
	devices []string
	// shares are parts of shared devices, and do not count in gpus.
	shares []gpu.DeviceShare
	ports  []int
}

// takeResources takes w out of the offered resources. The taken resources keep
// provider, reservations and allocation of the offered ones, because Mesos
// compares all of it. Among resources of one name it prefers those with the
// narrowest reservation, which other frameworks cannot use. It returns the
// rest for the next task, and does not modify its arguments.
func takeResources(offered []mesos.Resource, w resourceRequest) (taken, rest []mesos.Resource, err error) {
	rest = slices.Clone(offered)
	slices.SortStableFunc(rest, func(a, b mesos.Resource) int { return cmp.Compare(reservationDepth(b), reservationDepth(a)) })
	for _, r := range []struct {
		name   string
		amount int64
	}{{"cpus", toMilli(w.cpus)}, {"mem", toMilli(w.mem)}, {"disk", toMilli(w.disk)}} {
		part, err := takeScalar(rest, r.name, r.amount, isPlainResource)
		if err != nil {
			return nil, nil, err
		}
		taken = append(taken, part...)
	}
	gpus, err := takeGPUs(rest, w)
	if err != nil {
		return nil, nil, err
	}
	parts, err := takeShares(rest, w.shares)
	if err != nil {
		return nil, nil, err
	}
	ports, err := takePorts(rest, w.ports)
	if err != nil {
		return nil, nil, err
	}
	taken = append(append(append(taken, gpus...), parts...), ports...)
	return taken, slices.DeleteFunc(rest, isEmptyResource), nil
}

// reservationDepth is 0 for an unreserved resource, 1 for one reserved to a
// role, and more for refinements of that.
func reservationDepth(r mesos.Resource) int {
	if len(r.Reservations) == 0 && r.Role != nil && *r.Role != "*" {
		return 1 // as agents before Mesos 1.4 send it
	}
	return len(r.Reservations)
}

// takeGPUs takes devices by name and one of the scalar gpus for each: from the
// provider of the device if it has one left, else from any entry.
func takeGPUs(rest []mesos.Resource, w resourceRequest) (taken []mesos.Resource, err error) {
	left := int64(w.gpus) * 1000
	if len(w.devices) > 0 && len(w.devices) != w.gpus {
		return nil, fmt.Errorf("task requests %d GPUs and names %d devices", w.gpus, len(w.devices))
	}
	var names []mesos.Resource
	for _, id := range w.devices {
		i := slices.IndexFunc(rest, func(r mesos.Resource) bool {
			return isPlainResource(r) && r.Name == "gpu_ids" && slices.Contains(r.GetSet().GetItem(), id)
		})
		if i < 0 {
			return nil, fmt.Errorf("device %s is not among the offered gpu_ids", id)
		}
		source := rest[i]
		names = appendItem(names, source, id)
		rest[i] = withItems(source, slices.DeleteFunc(slices.Clone(source.GetSet().GetItem()), func(x string) bool { return x == id }))
		same := func(r mesos.Resource) bool { return isPlainResource(r) && sameSource(r, source) }
		part, err := takeScalar(rest, "gpus", 1000, same)
		if err == nil { // otherwise it is taken from any entry below
			taken = mergeScalars(taken, part)
			left -= 1000
		}
	}
	part, err := takeScalar(rest, "gpus", left, isPlainResource)
	if err != nil {
		return nil, err
	}
	return append(mergeScalars(taken, part), names...), nil
}

// takeShares takes memory and cores of shared devices, by the name of each
// device.
func takeShares(rest []mesos.Resource, parts []gpu.DeviceShare) (taken []mesos.Resource, err error) {
	for _, p := range parts {
		mem, err := takeScalar(rest, gpu.MemResource(p.UUID), p.MemMiB*1000, isPlainResource)
		if err != nil {
			return nil, err
		}
		cores, err := takeScalar(rest, gpu.CoresResource(p.UUID), int64(p.Cores)*1000, isPlainResource)
		if err != nil {
			return nil, err
		}
		taken = append(append(taken, mem...), cores...)
	}
	return taken, nil
}

// takeScalar takes amount, in thousandths, from the entries with that name that
// are permitted. On an error rest is unchanged.
func takeScalar(rest []mesos.Resource, name string, amount int64, isPermitted func(mesos.Resource) bool) (taken []mesos.Resource, err error) {
	var have int64
	for _, r := range rest {
		if r.Name == name && isPermitted(r) {
			have += toMilli(r.GetScalar().GetValue())
		}
	}
	if have < amount {
		return nil, fmt.Errorf("task needs %g %s, offers have %g", float64(amount)/1000, name, float64(have)/1000)
	}
	for i := range rest {
		if amount == 0 {
			break
		}
		if rest[i].Name != name || !isPermitted(rest[i]) {
			continue
		}
		available := toMilli(rest[i].GetScalar().GetValue())
		part := min(available, amount)
		if part == 0 {
			continue
		}
		amount -= part
		taken = append(taken, withScalar(rest[i], part))
		rest[i] = withScalar(rest[i], available-part)
	}
	return taken, nil
}

// isPlainResource reports whether any task may take the resource: it is no
// volume, not revocable and not a shared Mesos resource.
func isPlainResource(r mesos.Resource) bool {
	return r.Disk == nil && r.Revocable == nil && r.Shared == nil
}

// sameSource reports whether two resources differ only in name and amount.
func sameSource(a, b mesos.Resource) bool {
	return a.GetProviderID().GetValue() == b.GetProviderID().GetValue() &&
		a.GetRole() == b.GetRole() && len(a.Reservations) == len(b.Reservations) &&
		slices.EqualFunc(a.Reservations, b.Reservations, func(x, y mesos.Resource_ReservationInfo) bool { return x.Equal(y) })
}

// mergeScalars adds each part to the entry with the same source.
func mergeScalars(into, part []mesos.Resource) []mesos.Resource {
	for _, p := range part {
		i := slices.IndexFunc(into, func(r mesos.Resource) bool { return r.Name == p.Name && sameSource(r, p) })
		if i < 0 {
			into = append(into, p)
			continue
		}
		into[i] = withScalar(into[i], toMilli(into[i].GetScalar().GetValue())+toMilli(p.GetScalar().GetValue()))
	}
	return into
}

// appendItem adds an item to the entry with the same source, or adds an entry.
func appendItem(list []mesos.Resource, source mesos.Resource, id string) []mesos.Resource {
	i := slices.IndexFunc(list, func(r mesos.Resource) bool { return sameSource(r, source) })
	if i < 0 {
		return append(list, withItems(source, []string{id}))
	}
	list[i] = withItems(list[i], append(slices.Clone(list[i].GetSet().GetItem()), id))
	return list
}

// withScalar and withItems return a copy of a resource with another amount or other items.
func withScalar(r mesos.Resource, thousandths int64) mesos.Resource {
	r.Scalar = &mesos.Value_Scalar{Value: float64(thousandths) / 1000}
	return r
}

func withItems(r mesos.Resource, items []string) mesos.Resource {
	r.Set = &mesos.Value_Set{Item: items}
	return r
}

// isEmptyResource reports whether nothing is left of a resource.
func isEmptyResource(r mesos.Resource) bool {
	switch r.GetType() {
	case mesos.SCALAR:
		return toMilli(r.GetScalar().GetValue()) == 0
	case mesos.SET:
		return len(r.GetSet().GetItem()) == 0
	case mesos.RANGES:
		return len(r.GetRanges().GetRange()) == 0
	default:
		return false
	}
}

// toMilli converts to thousandths, as Mesos does.
func toMilli(x float64) int64 { return int64(math.Round(x * 1000)) }
