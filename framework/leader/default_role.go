package leader

import (
	"slices"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/sched"
)

// defaultRole returns the role of a submission that names none: the only one to which the requester may submit, or the one
// that the roles file gives to the requester or to a group of it, or the first role.
func defaultRole(st *sched.State, by *access.Grant) string {
	permitted := submitRoles(st, by)
	if len(permitted) == 1 {
		return permitted[0]
	}
	// A permission on one role includes the roles below it.
	if granted := by.GrantedRoles(access.Submit); len(granted) == 1 && slices.Contains(permitted, granted[0]) {
		return granted[0]
	}
	for _, r := range st.Roles() {
		if by.IsUser(r.DefaultFor.Users) {
			return r.Name
		}
	}
	for _, r := range st.Roles() {
		if by.IsInGroup(r.DefaultFor.Groups) {
			return r.Name
		}
	}
	return st.DefaultRole()
}

// submitRoles returns the names of the roles to which the requester may submit jobs.
func submitRoles(st *sched.State, by *access.Grant) (names []string) {
	for _, r := range st.Roles() {
		if r.Name != "" && by.HasPermission(access.Submit, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}
