package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/job"
)

// canSeeJob reports whether the requester may see a job or, if task is not empty, one of
// its tasks. A job that does not exist is not visible.
func canSeeJob(ctx context.Context, reads *ReadBackend, name, task string) (bool, error) {
	g := apihttp.GrantOf(ctx)
	if g.HasPermissionOnAllRoles(access.View) {
		return true, nil
	}
	role, _, err := reads.Jobs.OwnerOf(ctx, name, task)
	var p *api.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return false, nil
	}
	return err == nil && g.HasPermission(access.View, role), err
}

// hideEnvironment returns a job's specification, without the environment if output is private and the
// requester may not change the job: it may contain tokens of the job's own services, such as a notebook.
func hideEnvironment(ctx context.Context, spec *job.Spec) *job.Spec {
	if g := apihttp.GrantOf(ctx); g.HasPrivateOutput() && !g.CanChangeJob(spec.Role, spec.Owner) {
		hidden := *spec
		hidden.Env = nil
		return &hidden
	}
	return spec
}

// hideTaskIDs replaces the ids of tasks in roles that the requester may not see.
func hideTaskIDs(r *http.Request, reads *ReadBackend, gpus []api.GPUView) error {
	if apihttp.GrantOf(r.Context()).HasPermissionOnAllRoles(access.View) {
		return nil
	}
	for i := range gpus {
		if gpus[i].Task == "" {
			continue
		}
		ids := strings.Split(gpus[i].Task, ", ")
		for j, id := range ids {
			t, err := reads.Jobs.GetTask(r.Context(), id)
			sees := false
			if err == nil {
				sees, err = canSeeJob(r.Context(), reads, t.Job, t.ID)
			}
			if p := (*api.Problem)(nil); err != nil && !(errors.As(err, &p) && p.Status == http.StatusNotFound) {
				return err
			}
			if !sees {
				ids[j] = api.HiddenTaskID
			}
		}
		gpus[i].Task = strings.Join(ids, ", ")
	}
	return nil
}

// hideStrays replaces the ids of attempts in roles that the requester may not see.
func hideStrays(r *http.Request, strays []api.StrayTask) {
	g := apihttp.GrantOf(r.Context())
	if g.HasPermissionOnAllRoles(access.View) {
		return
	}
	for i := range strays {
		if s := &strays[i]; s.Role == "" || !g.HasPermission(access.View, s.Role) {
			s.Task, s.Role = api.HiddenTaskID, ""
		}
	}
}
