package master

import (
	"net/http"

	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/roles"

	"mesos-gpu/internal/mesosapi"
)

// updateQuota sets quota limits of roles. Guarantees are stored but have no
// effect. It rescinds the outstanding offers of these roles and allocates again
// under the new limits.
func (m *EmbeddedMaster) updateQuota(call *operator.Call_UpdateQuota) error {
	for _, c := range call.GetQuotaConfigs() {
		if err := roles.Validate(c.Role); err != nil {
			return mesosapi.Errorf(http.StatusBadRequest, "invalid quota configuration: %v", err)
		}
	}
	for _, c := range call.GetQuotaConfigs() {
		m.quotas[c.Role] = c
		m.rescindOffers(func(o *outstandingOffer) bool { return o.slot.Role == c.Role })
	}
	m.allocateAll()
	return nil
}

// roleLimits returns the quota limits, by role and resource name.
func (m *EmbeddedMaster) roleLimits() map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for role, c := range m.quotas {
		out[role] = map[string]float64{}
		for name, value := range c.Limits {
			out[role][name] = value.Value
		}
	}
	return out
}
