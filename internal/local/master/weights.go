package master

import (
	"maps"
	"net/http"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/roles"

	"mesos-gpu/internal/mesosapi"
)

// updateWeights sets weights of roles. As in Mesos, it rescinds the outstanding
// offers of these roles and allocates again.
func (m *EmbeddedMaster) updateWeights(infos []mesos.WeightInfo) error {
	for _, w := range infos {
		if err := roles.Validate(w.GetRole()); err != nil {
			return mesosapi.Errorf(http.StatusBadRequest, "invalid weight: %v", err)
		}
		if !(w.Weight > 0) {
			return mesosapi.Errorf(http.StatusBadRequest, "invalid weight %g of role %q: weights must be positive", w.Weight, w.GetRole())
		}
	}
	for _, w := range infos {
		m.weights[w.GetRole()] = w.Weight
		m.rescindOffers(func(o *outstandingOffer) bool { return o.slot.Role == w.GetRole() })
	}
	m.allocateAll()
	return nil
}

// describeWeights returns the weights that operators have set.
func (m *EmbeddedMaster) describeWeights() *operator.Response_GetWeights {
	out := &operator.Response_GetWeights{}
	for _, w := range slices.Sorted(maps.Keys(m.weights)) {
		out.WeightInfos = append(out.WeightInfos, mesos.WeightInfo{Role: &w, Weight: m.weights[w]})
	}
	return out
}
