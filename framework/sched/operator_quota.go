package sched

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// storedQuota is how a quota that somebody has set is recorded: a document
// that is empty is none.
type storedQuota struct {
	Quota string `json:"quota"`
}

// restoreOperatorSettings takes in what the documents say operators have done.
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

// applyOperatorQuotas is a table of roles with what operators have set. What they set
// for a role that is not in it holds once it is.
func (s *State) applyOperatorQuotas(roles []queue.Role) []queue.Role {
	roles = slices.Clone(roles)
	for i := range roles {
		if q, set := s.operatorQuotas[roles[i].Name]; set {
			roles[i].Quota = q
		}
	}
	return roles
}

// UnknownRoleError says that the scheduler has no jobs of a role.
type UnknownRoleError struct {
	Role string
	Has  []string
}

func (e *UnknownRoleError) Error() string {
	return fmt.Sprintf("role %q: the scheduler has jobs of %s", e.Role, strings.Join(e.Has, ", "))
}

// AdmitQuota says what is in the way of setting a role's quota; nil where
// nothing is.
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
