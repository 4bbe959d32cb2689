package alloc

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/resource"
)

// roleUsage is the quantity of each scalar resource that a role uses or has been
// offered, by role and resource name.
type roleUsage map[string]map[string]float64

func (u roleUsage) addResources(role string, rs []mesos.Resource) {
	if u[role] == nil {
		u[role] = map[string]float64{}
	}
	for _, r := range rs {
		if r.GetType() == mesos.SCALAR {
			u[role][r.Name] += r.Scalar.Value
		}
	}
}

// cutToLimits reduces part to the remaining quota of the role.
func (u roleUsage) cutToLimits(limits map[string]float64, role string, part []mesos.Resource) []mesos.Resource {
	if len(limits) == 0 {
		return part
	}
	left := map[string]float64{}
	for name, limit := range limits {
		left[name] = max(0, limit-u[role][name])
	}
	cut := make([]mesos.Resource, 0, len(part))
	for _, r := range part {
		if most, limited := left[r.Name]; limited && r.GetType() == mesos.SCALAR {
			r.Scalar = &mesos.Value_Scalar{Value: min(most, r.Scalar.Value)}
			left[r.Name] -= r.Scalar.Value
		}
		cut = append(cut, r)
	}
	return resource.Sum(cut)
}
