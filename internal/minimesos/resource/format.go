package resource

import (
	"slices"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// kindOf returns r without its amount.
func kindOf(r mesos.Resource) mesos.Resource {
	r.Scalar, r.Ranges, r.Set = nil, nil, nil
	kind := *proto.Clone(&r).(*mesos.Resource)
	kind.Type = r.GetType().Enum() // a missing type reads as SCALAR
	return kind
}

// keyOf returns a key that is equal for resources that can be added: the same
// kind, in either reservation format. It ignores how a disk is mounted.
func keyOf(r mesos.Resource) string {
	if key, simple := simpleKey(r); simple {
		return key
	}
	kind := toRefined(kindOf(r))
	if kind.Disk != nil {
		kind.Disk.Volume = nil
		if kind.Disk.Persistence == nil && kind.Disk.Source == nil {
			kind.Disk = nil
		}
	}
	key, err := proto.Marshal(&kind)
	if err != nil {
		return kind.String() // a required field is missing: still equal to itself
	}
	return string(key)
}

// simpleKey is a fast path of keyOf without encoding, for plain resources of an
// agent or a provider.
func simpleKey(r mesos.Resource) (string, bool) {
	reserved := r.GetRole() != "*" || r.Reservation != nil || len(r.Reservations) > 0
	if reserved || r.Disk != nil || r.Revocable != nil || r.Shared != nil || r.ProviderID != nil && r.ProviderID.Value == "" {
		return "", false
	}
	role := ""
	if r.AllocationInfo != nil {
		role = "as " + r.AllocationInfo.GetRole()
	}
	return r.GetType().String() + "\x00" + r.Name + "\x00" + r.GetProviderID().GetValue() + "\x00" + role, true
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
