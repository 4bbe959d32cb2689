package alloc

import (
	"cmp"
	"maps"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/resource"
)

// clusterShares computes each role's and each claim's share of the cluster.
type clusterShares struct {
	total  map[string]float64
	roles  map[string]map[string]float64
	claims map[RoleClaim]map[string]float64
	turns  map[RoleClaim]uint64
	next   uint64
}

func newShares(in AllocationInput) *clusterShares {
	s := &clusterShares{
		total:  map[string]float64{},
		roles:  map[string]map[string]float64{},
		claims: map[RoleClaim]map[string]float64{},
		turns:  map[RoleClaim]uint64{},
	}
	maps.Copy(s.turns, in.Turns)
	for _, turn := range in.Turns {
		s.next = max(s.next, turn)
	}
	for _, agent := range in.Agents {
		addResources(s.total, agent.Total)
	}
	for _, h := range in.Held {
		s.addHolding(h.RoleClaim, h.Resources)
	}
	return s
}

func (s *clusterShares) addHolding(claim RoleClaim, rs []mesos.Resource) {
	if s.roles[claim.Role] == nil {
		s.roles[claim.Role] = map[string]float64{}
	}
	if s.claims[claim] == nil {
		s.claims[claim] = map[string]float64{}
	}
	addResources(s.roles[claim.Role], rs)
	addResources(s.claims[claim], rs)
}

func addResources(sum map[string]float64, rs []mesos.Resource) {
	for _, r := range rs {
		if r.GetType() == mesos.SCALAR {
			sum[r.Name] += resource.SumScalar([]mesos.Resource{r}, r.Name)
		}
	}
}

// dominantShare returns the largest share of any one resource in held. It
// ignores GPUs, because the share of a GPU job would exceed all others.
func (s *clusterShares) dominantShare(held map[string]float64) float64 {
	var most float64
	for name, value := range held {
		if total := s.total[name]; name != "gpus" && total > 0 {
			most = max(most, value/total)
		}
	}
	return most
}

// compareClaims orders roles by dominant share. If gpus is set, the number of
// GPUs takes precedence. It orders the frameworks of a role in the same way,
// and equal claims by waiting time, longest first.
func (s *clusterShares) compareClaims(gpus bool) func(a, b RoleClaim) int {
	less := func(a, b map[string]float64) int {
		if c := cmp.Compare(a["gpus"], b["gpus"]); gpus && c != 0 {
			return c
		}
		return cmp.Compare(s.dominantShare(a), s.dominantShare(b))
	}
	lastTurn := map[string]uint64{}
	for claim, turn := range s.turns {
		lastTurn[claim.Role] = max(lastTurn[claim.Role], turn)
	}
	return func(a, b RoleClaim) int {
		if a.Role != b.Role {
			return cmp.Or(
				less(s.roles[a.Role], s.roles[b.Role]),
				cmp.Compare(lastTurn[a.Role], lastTurn[b.Role]),
				cmp.Compare(a.Role, b.Role))
		}
		return cmp.Or(
			less(s.claims[a], s.claims[b]),
			cmp.Compare(s.turns[a], s.turns[b]),
			cmp.Compare(a.Framework, b.Framework))
	}
}

// cutToLimits reduces part to the remaining quota of the role.
func (s *clusterShares) cutToLimits(limits map[string]float64, role string, part []mesos.Resource) []mesos.Resource {
	if len(limits) == 0 {
		return part
	}
	room := map[string]float64{}
	for name, limit := range limits {
		room[name] = max(0, limit-s.roles[role][name])
	}
	cut := make([]mesos.Resource, 0, len(part))
	for _, r := range part {
		if left, limited := room[r.Name]; limited && r.GetType() == mesos.SCALAR {
			r.Scalar = &mesos.Value_Scalar{Value: min(left, r.Scalar.Value)}
			room[r.Name] -= r.Scalar.Value
		}
		cut = append(cut, r)
	}
	return resource.Sum(cut)
}
