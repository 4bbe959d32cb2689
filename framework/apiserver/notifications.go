package apiserver

import (
	"context"
	"net/http"
	"slices"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
)

// NotificationCommands retry and drop notifications.
type NotificationCommands interface {
	// RetryNotification delivers a notification again at once, DropNotification gives it up. It is 404 if it was
	// delivered or dropped before.
	RetryNotification(ctx context.Context, id string) error
	DropNotification(ctx context.Context, id string) error
}

// requireOnNotification checks an operation on a notification. The owner of its job may change it.
func requireOnNotification(s *apiServer, r *http.Request, p access.Permission) error {
	if err := requireInAnyRole(s, r, min(p, access.Submit)); err != nil {
		return err
	}
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	list, err := reads.Queue.ListNotifications(r.Context())
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	i := slices.IndexFunc(list, func(n api.NotificationView) bool { return n.ID == id })
	if i < 0 {
		return api.UnknownNotification(id)
	}
	return checkOwnedAccess(r, list[i].Job, list[i].Role, list[i].Owner, p, api.UnknownNotification(id))
}

// handleListNotifications lists the notifications about jobs of the roles that the requester may see.
func (s *apiServer) handleListNotifications(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	state, name := api.NotificationState(r.URL.Query().Get("state")), r.URL.Query().Get("job")
	if state != "" && state != api.NotificationPending && state != api.NotificationFailed {
		return api.NewProblemf(http.StatusBadRequest, "state: %q is neither %s nor %s", state, api.NotificationPending, api.NotificationFailed)
	}
	list, err := reads.Queue.ListNotifications(r.Context())
	if err != nil {
		return err
	}
	g := apihttp.GrantOf(r.Context())
	run, owner := s.selectRecords(r, name)
	selects := func(n *api.NotificationView) bool {
		return (state == "" || n.State == state) && (run.Name == "" || n.Job == run.Name) && (run.Run == 0 || n.Run == run.Run) && (owner == "" || n.Owner == owner)
	}
	seen := make([]api.NotificationView, 0, len(list))
	for i := range list {
		if n := &list[i]; selects(n) && g.HasPermission(access.View, n.Role) {
			seen = append(seen, readableNotification(r.Context(), *n))
		}
	}
	apihttp.WriteJSON(w, http.StatusOK, api.NotificationList{Notifications: seen})
	return nil
}

func (s *apiServer) handleRetryNotification(w http.ResponseWriter, r *http.Request) error {
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Notifications.RetryNotification(r.Context(), r.PathValue("id"))
	})
}

func (s *apiServer) handleDropNotification(w http.ResponseWriter, r *http.Request) error {
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Notifications.DropNotification(r.Context(), r.PathValue("id"))
	})
}
