package apiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
)

// jobAccess is what a requester may read of a job.
type jobAccess struct {
	// sees permits the public fields, readsOutput all fields.
	sees, readsOutput bool
}

// accessToJob returns what the requester may read of a job or, if task is not empty, of one of
// its tasks: nothing of a job that does not exist.
func accessToJob(ctx context.Context, reads *ReadBackend, name, task string) (jobAccess, error) {
	g := apihttp.GrantOf(ctx)
	if g.HasPermissionOnAllRoles(access.View) && !g.HasPrivateOutput() || g.HasPermissionOnAllRoles(access.Operate) {
		return jobAccess{true, true}, nil
	}
	role, owner, err := reads.Jobs.OwnerOf(ctx, name, task)
	var p *api.Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return jobAccess{}, nil
	}
	if err != nil {
		return jobAccess{}, err
	}
	return jobAccess{g.HasPermission(access.View, role), canReadOutput(ctx, role, owner)}, nil
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
			has := jobAccess{}
			if err == nil {
				has, err = accessToJob(r.Context(), reads, t.Job, t.ID)
			}
			if p := (*api.Problem)(nil); err != nil && !(errors.As(err, &p) && p.Status == http.StatusNotFound) {
				return err
			}
			if !has.sees {
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
