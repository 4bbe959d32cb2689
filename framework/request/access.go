package request

import (
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched/admission"
)

// CheckRoleAccess returns an *api.Problem if g lacks the permission on the role.
func CheckRoleAccess(g *access.Grant, p access.Permission, role string) error {
	on := "role " + role
	if role == admission.AllRoles {
		on = AllRoles
	}
	return CheckPermission(g, g.HasPermission(p, role), p, on)
}

// AllRoles is the name of the root of the role tree in messages.
const AllRoles = "all roles"

// CheckAnyAccess returns an *api.Problem if g has no permission at all. It is for handlers
// that check permissions themselves.
func CheckAnyAccess(g *access.Grant) error {
	return CheckPermission(g, g.HasPermissionOnAnyRole(access.View), access.View, "any role")
}

// CheckPermission returns nil if may is true, and otherwise the *api.Problem of a requester without the permission. on names
// where it is missing.
func CheckPermission(g *access.Grant, may bool, p access.Permission, on string) error {
	switch {
	case may:
		return nil
	case !g.IsKnown():
		return api.NewProblemf(http.StatusUnauthorized, "this needs a token: give one by --token-file, MESOS_GPU_TOKEN_FILE or MESOS_GPU_TOKEN")
	}
	return api.NewProblemf(http.StatusForbidden, "%s may not do this: it needs the permission %s on %s", g.UserName(), p, on)
}
