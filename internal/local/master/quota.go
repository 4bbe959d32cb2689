package master

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
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

// roleDescription is a role in the answer to GET /roles. The quantities are of scalar resources, by name.
type roleDescription struct {
	Name  string `json:"name"`
	Quota struct {
		Role      string             `json:"role"`
		Guarantee map[string]float64 `json:"guarantee"`
		Limit     map[string]float64 `json:"limit"`
		Consumed  map[string]float64 `json:"consumed"`
	} `json:"quota"`
}

// serveRoles lists the roles that frameworks have or that have a quota.
func (m *EmbeddedMaster) serveRoles(w http.ResponseWriter, _ *http.Request) {
	var list []roleDescription
	m.withLock(func() { list = m.describeRoles() })
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"roles": list})
}

func (m *EmbeddedMaster) describeRoles() []roleDescription {
	names := map[string]bool{}
	for role := range m.quotas {
		names[role] = true
	}
	for _, f := range m.frameworks {
		for _, role := range f.info.Roles {
			names[role] = true
		}
	}
	limits, list := m.roleLimits(), []roleDescription{}
	for _, role := range slices.Sorted(maps.Keys(names)) {
		d := roleDescription{Name: role}
		d.Quota.Role, d.Quota.Limit, d.Quota.Guarantee, d.Quota.Consumed = role, map[string]float64{}, map[string]float64{}, map[string]float64{}
		maps.Copy(d.Quota.Limit, limits[role])
		for name, value := range m.quotas[role].Guarantees {
			d.Quota.Guarantee[name] = value.Value
		}
		for _, a := range m.agents {
			for _, rs := range a.usedResources("") {
				for _, r := range rs {
					if of := r.GetAllocationInfo().GetRole(); r.GetType() == mesos.SCALAR && (of == role || strings.HasPrefix(of, role+"/")) {
						d.Quota.Consumed[r.Name] += r.Scalar.Value
					}
				}
			}
		}
		list = append(list, d)
	}
	return list
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
