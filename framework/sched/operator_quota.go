package sched

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// storedQuota is the document of a quota that an operator has set. An empty document means none.
type storedQuota struct {
	Quota string `json:"quota"`
}

// restoreOperatorSettings reads cordons and quotas from the documents.
func (s *State) restoreOperatorSettings() {
	s.cordons = ParseCordons(s.documents[reservedPrefix])
	for key, value := range s.documents[reservedPrefix] {
		role, ok := strings.CutPrefix(key, quotaPrefix)
		var stored storedQuota
		if !ok || json.Unmarshal(value, &stored) != nil {
			continue
		}
		if q, err := quota.Parse(stored.Quota); err == nil {
			s.operatorQuotas[role] = q
		}
	}
	s.cfg.Policy.Roles = s.applyOperatorQuotas(s.configuredRoles)
}

// applyOperatorQuotas returns the roles with the quotas that operators have set. Quotas of roles that are not configured
// are kept until they are.
func (s *State) applyOperatorQuotas(roles []queue.Role) []queue.Role {
	roles = slices.Clone(roles)
	for i := range roles {
		if q, set := s.operatorQuotas[roles[i].Name]; set {
			roles[i].Quota = q
		}
	}
	return roles
}

// UnknownRoleError reports that the scheduler has no such role.
type UnknownRoleError struct {
	Role string
	Has  []string
}

func (e *UnknownRoleError) Error() string {
	return fmt.Sprintf("role %q: the scheduler has jobs of %s", e.Role, strings.Join(e.Has, ", "))
}

// AdmitQuota returns why a role's quota may not be set, nil if it may.
func (s *State) AdmitQuota(role string) error {
	if !slices.ContainsFunc(s.configuredRoles, func(r queue.Role) bool { return r.Name == role }) {
		return &UnknownRoleError{Role: role, Has: s.roleNames()}
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
	s.cfg.Policy.Roles = s.applyOperatorQuotas(s.configuredRoles)
	s.reconsiderAll()
}
