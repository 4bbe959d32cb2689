package sched

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// setPolicy replaces the policy. Tasks keep running; jobs of a role that is removed wait until it is back. Also without a
// subscription it returns the new roles, which the next SUBSCRIBE carries.
func (s *State) setPolicy(p Policy) []Operation {
	p.SetDefaults()
	p.Fit.Patterns = &s.patterns
	before := s.roleNames()
	s.cfg.Policy, s.configuredRoles = p, p.Roles
	s.applyOperatorQuotas()
	s.agentCache, s.queueCache = agentCache{}, queueCache{}
	s.updateBudgets()
	s.reconsiderAll()
	roles := s.roleNames()
	for role, d := range s.offerDemands {
		if !slices.Contains(roles, role) && d.waiting == 0 {
			delete(s.offerDemands, role)
		}
	}
	if slices.Equal(before, roles) {
		return nil
	}
	for id, h := range s.offers.offers {
		if !slices.Contains(roles, h.Role) {
			delete(s.offers.offers, id)
		}
	}
	return []Operation{SetRoles{Roles: namedRoles(roles)}}
}

// applyOperatorQuotas sets the configured roles with the quotas that operators have set.
func (s *State) applyOperatorQuotas() {
	roles := slices.Clone(s.configuredRoles)
	for i := range roles {
		if q, set := s.operatorQuotas[roles[i].Name]; set {
			roles[i].Quota = q
		}
	}
	s.cfg.Policy.Roles = roles
}

// storedQuota is the document of a quota that an operator has set. An empty document means none.
type storedQuota struct {
	Quota string `json:"quota"`
}

func (s *State) unknownRoleError(role string) error {
	return fmt.Errorf("role %q: the scheduler has jobs of %s", role, strings.Join(s.roleNames(), ", "))
}

// setMesosQuotas replaces the quotas of Mesos. They are not recorded: each leader reads them from the master.
func (s *State) setMesosQuotas(quotas []quota.MesosQuota) {
	s.mesosQuotas = quotas
	s.reconsiderAll()
}

// AdmitQuota returns why a role's quota may not be set, nil if it may.
func (s *State) AdmitQuota(role string) error {
	if !slices.ContainsFunc(s.configuredRoles, func(r queue.Role) bool { return r.Name == role }) {
		return s.unknownRoleError(role)
	}
	return nil
}

func (s *State) setQuota(e SetQuota) {
	if s.AdmitQuota(e.Role) != nil {
		return
	}
	if e.Quota == nil {
		delete(s.operatorQuotas, e.Role)
		s.writeDocument(quotaPrefix+e.Role, nil)
	} else {
		s.operatorQuotas[e.Role] = e.Quota
		s.writeJSONDocument(quotaPrefix+e.Role, storedQuota{e.Quota.String()})
	}
	s.applyOperatorQuotas()
	s.reconsiderAll()
}
