package apiserver

import (
	"errors"
	"net/http"
	"strings"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// scopeCheck returns an *api.Problem if the requester lacks the permission on the roles
// of the request.
type scopeCheck func(s *apiServer, r *http.Request, p access.Permission) error

// authorizeRequest returns an *api.Problem if the requester may not make the request. Without an access file, in which
// case there is no grant, everything is permitted.
func (s *apiServer) authorizeRequest(r *http.Request, one *route) error {
	switch {
	case apihttp.GrantOf(r.Context()) == nil && !strings.Contains(one.request, "/v1/jobs/{reference}"): // it is still to be resolved
		return nil
	case one.scope == nil:
		return requireInAllRoles(s, r, access.Admin)
	}
	return one.scope(s, r, one.permission)
}

// allowAnyone permits the request without a token.
func allowAnyone(*apiServer, *http.Request, access.Permission) error { return nil }

// requireInAnyRole requires the permission on some role. The handler omits what belongs to others.
func requireInAnyRole(_ *apiServer, r *http.Request, p access.Permission) error {
	g := apihttp.GrantOf(r.Context())
	return request.CheckPermission(g, g.HasPermissionOnAnyRole(p), p, "any role")
}

// requireInAllRoles requires the permission on the root of the role tree, for what all roles share.
func requireInAllRoles(_ *apiServer, r *http.Request, p access.Permission) error {
	g := apihttp.GrantOf(r.Context())
	return request.CheckPermission(g, g.HasPermissionOnAllRoles(p), p, request.AllRoles)
}

func requireMetricsAccess(_ *apiServer, r *http.Request, p access.Permission) error {
	g := apihttp.GrantOf(r.Context())
	return request.CheckPermission(g, g.CanReadMetrics(), p, "any role")
}

// runOfPath is the path value with the run that the reference in the path means, NAME@RUN. Handlers use it: the same reference
// may mean another run when they look.
const runOfPath = "run"

// requireOnJob requires the permission on the role of the job in the path, or its ownership. It sets the value runOfPath.
func requireOnJob(s *apiServer, r *http.Request, p access.Permission) error {
	found, err := s.findJob(r, r.PathValue("reference"), p)
	if err == nil {
		r.SetPathValue(runOfPath, found.ID())
	}
	return err
}

// requireOnTask requires the permission on the role of the job of the task in the path, or its ownership.
func requireOnTask(s *apiServer, r *http.Request, p access.Permission) error {
	if err := requireInAnyRole(s, r, min(p, access.Submit)); err != nil {
		return err // without any permission a client does not even learn what exists
	}
	id := r.PathValue("id")
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	t, err := reads.Jobs.GetTask(r.Context(), id)
	if err != nil {
		return err
	}
	return s.checkTaskAccess(r, t.Job, id, p, api.UnknownTask(id))
}

// ofOutput returns the check of a request that reads the output of a job. Where output is
// private it needs the permission to change the job.
func ofOutput(check scopeCheck) scopeCheck {
	return func(s *apiServer, r *http.Request, p access.Permission) error {
		if apihttp.GrantOf(r.Context()).HasPrivateOutput() {
			p = access.Operate
		}
		return check(s, r, p)
	}
}

// requireOnRole requires the permission on the role in the path.
func requireOnRole(_ *apiServer, r *http.Request, p access.Permission) error {
	role := r.PathValue("role")
	apihttp.AuditNoteOf(r.Context()).Role = role
	return request.CheckRoleAccess(apihttp.GrantOf(r.Context()), p, role)
}

// findJob returns the run that the requester means by a reference, as of JobResolver, and checks an operation on it. A job's
// owner may change it.
func (s *apiServer) findJob(r *http.Request, reference string, p access.Permission) (found request.FoundJob, err error) {
	if err := requireInAnyRole(s, r, min(p, access.Submit)); err != nil {
		return found, err
	}
	reads, err := s.reads(r.Context())
	if err != nil {
		return found, err
	}
	g := apihttp.GrantOf(r.Context())
	if reads.Names == nil {
		found.Run, _ = job.ParseRunID(reference)
		found.IsSingleRun = found.Run.Run != 0
	} else if found, err = reads.Names.ResolveJob(r.Context(), g, reference); err != nil {
		return found, err
	}
	if g == nil {
		return found, nil
	}
	return found, s.checkTaskAccess(r, found.ID(), "", p, api.UnknownJob(reference))
}

// selectRecords returns which records a reference selects, by a run or the name and owner of a job. Records may be older than the
// known jobs: for a job that is not known or not unique the reference itself decides.
func (s *apiServer) selectRecords(r *http.Request, reference string) (run job.RunID, owner string) {
	if reference == "" {
		return run, ""
	}
	if found, err := s.findJob(r, reference, access.View); err == nil {
		return found.Selects()
	}
	ref, _ := job.ParseReference(reference)
	return job.RunID{Name: ref.Name, Run: ref.Run}, ref.Owner
}

// checkTaskAccess checks an operation on a job or, if task is not empty, on one of its
// tasks.
func (s *apiServer) checkTaskAccess(r *http.Request, name, task string, p access.Permission, unknown *api.Problem) error {
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	role, owner, err := reads.Jobs.OwnerOf(r.Context(), name, task)
	if err != nil {
		return err
	}
	return checkOwnedAccess(r, name, role, owner, p, unknown)
}

// requireOnSchedule checks an operation on a schedule. Its owner may end it.
func requireOnSchedule(s *apiServer, r *http.Request, p access.Permission) error {
	if err := requireInAnyRole(s, r, min(p, access.Submit)); err != nil {
		return err
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	view, err := leader.Schedules.GetSchedule(r.Context(), apihttp.GrantOf(r.Context()), r.PathValue("name"))
	if errors.Is(err, request.ErrScheduleDamaged) {
		return requireInAllRoles(s, r, p) // its owner is not known
	}
	if err != nil {
		return err
	}
	return checkOwnedAccess(r, view.Spec.Name, view.Spec.Role, view.Spec.Owner, p, api.UnknownSchedule(r.PathValue("name")))
}

// checkOwnedAccess returns unknown if the requester may not see the object: another
// answer would reveal that it exists, and in which role. For the permission Operate it suffices to own the object.
func checkOwnedAccess(r *http.Request, name, role, owner string, p access.Permission, unknown *api.Problem) error {
	g, note := apihttp.GrantOf(r.Context()), apihttp.AuditNoteOf(r.Context())
	note.Job, note.Role = name, role
	if !g.HasPermission(access.View, role) {
		return unknown
	}
	if p == access.Operate {
		return request.CheckPermission(g, g.CanChangeJob(role, owner), p, "role "+role)
	}
	return request.CheckRoleAccess(g, p, role)
}

// filterVisible returns the entries of roles that the requester may see.
func filterVisible[T any](g *access.Grant, list []T, role func(*T) string) []T {
	if g.HasPermissionOnAllRoles(access.View) {
		return list
	}
	seen := make([]T, 0, len(list))
	for i := range list {
		if g.HasPermission(access.View, role(&list[i])) {
			seen = append(seen, list[i])
		}
	}
	return seen
}
