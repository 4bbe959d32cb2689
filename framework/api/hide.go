package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"mesos-gpu/framework/access"
)

// Hidden stands for the id of a task that the requester may not see.
const Hidden = "hidden"

// sees reports whether the requester may see a job, or one of its tasks. One
// that is not there nobody sees.
func (s *server) sees(ctx context.Context, name, task string) (bool, error) {
	g := GrantOf(ctx)
	if g.MayEverywhere(access.View) {
		return true, nil
	}
	role, _, err := s.backend().Whose(ctx, name, task)
	var p *Problem
	if errors.As(err, &p) && p.Status == http.StatusNotFound {
		return false, nil
	}
	return err == nil && g.May(access.View, role), err
}

// hideTasks leaves no task's id of a role that the requester may not see.
func (s *server) hideTasks(r *http.Request, gpus []GPU) error {
	if GrantOf(r.Context()).MayEverywhere(access.View) {
		return nil
	}
	for i := range gpus {
		if gpus[i].Task == "" {
			continue
		}
		ids := strings.Split(gpus[i].Task, ", ")
		for j, id := range ids {
			t, err := s.backend().Task(r.Context(), id)
			sees := false
			if err == nil {
				sees, err = s.sees(r.Context(), t.Job, t.ID)
			}
			if p := (*Problem)(nil); err != nil && !(errors.As(err, &p) && p.Status == http.StatusNotFound) {
				return err
			}
			if !sees {
				ids[j] = Hidden
			}
		}
		gpus[i].Task = strings.Join(ids, ", ")
	}
	return nil
}
