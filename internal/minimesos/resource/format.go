package resource

import (
	"slices"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// kindOf returns r without its amount.
func kindOf(r *mesos.Resource) mesos.Resource {
	if isSimple(r) { // Clone is slow
		kind := mesos.Resource{Name: r.Name, Type: r.GetType().Enum(), Role: clonePointer(r.Role), ProviderID: clonePointer(r.ProviderID)}
		if r.AllocationInfo != nil {
			kind.AllocationInfo = &mesos.Resource_AllocationInfo{Role: clonePointer(r.AllocationInfo.Role)}
		}
		return kind
	}
	plain := *r
	plain.Scalar, plain.Ranges, plain.Set = nil, nil, nil
	kind := *proto.Clone(&plain).(*mesos.Resource)
	kind.Type = r.GetType().Enum() // a missing type reads as SCALAR
	return kind
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

// resourceKey is equal for resources that can be added. Resources that are not
// simple have only encoded.
type resourceKey struct {
	kind                 mesos.Value_Type
	name, provider, role string
	isAllocated          bool
	encoded              string
}

// keyOf returns the key of a resource: equal for the same kind, in either
// reservation format. It ignores how a disk is mounted.
func keyOf(r *mesos.Resource) resourceKey {
	if isSimple(r) {
		return resourceKey{
			kind:        r.GetType(),
			name:        r.Name,
			provider:    r.GetProviderID().GetValue(),
			role:        r.GetAllocationInfo().GetRole(),
			isAllocated: r.AllocationInfo != nil,
		}
	}
	kind := toRefined(kindOf(r))
	if kind.Disk != nil {
		kind.Disk.Volume = nil
		if kind.Disk.Persistence == nil && kind.Disk.Source == nil {
			kind.Disk = nil
		}
	}
	text, err := proto.Marshal(&kind)
	if err != nil {
		return resourceKey{encoded: kind.String()} // a required field is missing: still equal to itself
	}
	return resourceKey{encoded: string(text)}
}

// isSimple reports whether r is a plain resource of an agent or a provider, whose
// key needs no encoding.
func isSimple(r *mesos.Resource) bool {
	reserved := r.GetRole() != "*" || r.Reservation != nil || len(r.Reservations) > 0
	return !reserved && r.Disk == nil && r.Revocable == nil && r.Shared == nil && (r.ProviderID == nil || r.ProviderID.Value != "")
}

// toRefined converts a reservation to the `reservations` field and clears
// `role`.
func toRefined(r mesos.Resource) mesos.Resource {
	role := r.GetRole()
	if len(r.Reservations) == 0 && role != "*" {
		one := mesos.Resource_ReservationInfo{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &role}
		if r.Reservation != nil {
			one.Type = mesos.Resource_ReservationInfo_DYNAMIC.Enum()
			one.Principal, one.Labels = r.Reservation.Principal, r.Reservation.Labels
		}
		r.Reservations = []mesos.Resource_ReservationInfo{one}
	}
	r.Role, r.Reservation = nil, nil
	return r
}

// toPlain converts a reservation to the `role` and `reservation` fields, unless
// it is refined by others.
func toPlain(r mesos.Resource) mesos.Resource {
	switch len(r.Reservations) {
	case 0:
		r.Role = proto.String(r.GetRole())
	case 1:
		one := r.Reservations[0]
		r.Role = proto.String(one.GetRole())
		if one.GetType() == mesos.Resource_ReservationInfo_DYNAMIC {
			r.Reservation = &mesos.Resource_ReservationInfo{Principal: one.Principal, Labels: one.Labels}
		}
		r.Reservations = nil
	}
	return r
}

func mapResources(rs []mesos.Resource, f func(mesos.Resource) mesos.Resource) []mesos.Resource {
	out := slices.Clone(rs)
	for i := range out {
		out[i] = f(*proto.Clone(&out[i]).(*mesos.Resource))
	}
	return out
}

// Refined converts rs to the format for clients that support refined
// reservations.
func Refined(rs []mesos.Resource) []mesos.Resource { return mapResources(rs, toRefined) }

// Plain converts rs to the format without refined reservations.
func Plain(rs []mesos.Resource) []mesos.Resource { return mapResources(rs, toPlain) }

// Allocate marks unallocated resources as allocated to role.
func Allocate(rs []mesos.Resource, role string) []mesos.Resource {
	return mapResources(rs, func(r mesos.Resource) mesos.Resource {
		if r.AllocationInfo == nil {
			r.Allocate(role)
		}
		return r
	})
}

// Unallocate reverses Allocate.
func Unallocate(rs []mesos.Resource) []mesos.Resource {
	return mapResources(rs, func(r mesos.Resource) mesos.Resource {
		r.AllocationInfo = nil
		return r
	})
}

// UsableBy returns the resources that role may use: unreserved ones and those
// reserved to it or to an ancestor.
func UsableBy(rs []mesos.Resource, role string) []mesos.Resource {
	var out []mesos.Resource
	for _, r := range rs {
		if r.IsAllocatableTo(role) {
			out = append(out, r)
		}
	}
	return mapResources(out, func(r mesos.Resource) mesos.Resource { return r })
}
