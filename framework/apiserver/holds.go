package apiserver

import (
	"context"
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// HoldCommands hold, release and requeue jobs.
type HoldCommands interface {
	// HoldJob keeps the waiting tasks of a job from being placed until ReleaseJob, which is no
	// error for a job that is not held. Both check that the requester may change the present hold.
	HoldJob(ctx context.Context, c request.Change, name, reason string) error
	ReleaseJob(ctx context.Context, c request.Change, name string) error
	// RequeueJob stops the placed tasks of a job, which are queued again.
	RequeueJob(ctx context.Context, c request.Change, name string, q api.RequeueRequest) error
	// HoldJobsOf does to all jobs of a user or a role what HoldJob does to one.
	HoldJobsOf(ctx context.Context, by *access.Grant, target job.HoldTarget, q api.HoldRequest) error
	ReleaseJobsOf(ctx context.Context, by *access.Grant, target job.HoldTarget) error
}

// requireOnUser checks an operation on all jobs of a user: users may hold their own.
func requireOnUser(s *apiServer, r *http.Request, p access.Permission) error {
	g := apihttp.GrantOf(r.Context())
	if name := r.PathValue("user"); g.UserName() == name && g.HasPermissionOnAnyRole(access.Submit) {
		return nil
	}
	return requireInAllRoles(s, r, p)
}

func (s *apiServer) handleHoldJob(w http.ResponseWriter, r *http.Request) error {
	why, err := readHold(w, r)
	if err != nil {
		return err
	}
	if why.Drain {
		return api.NewProblemf(http.StatusUnprocessableEntity, "drain: it is for users and roles: queue the job again with hold instead")
	}
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Holds.HoldJob(r.Context(), changeOf(r), r.PathValue(runOfPath), why.Reason)
	})
}

// readHold reads the reason of a hold, which may be absent.
func readHold(w http.ResponseWriter, r *http.Request) (why api.HoldRequest, err error) {
	if err := readJSON(w, r, &why); err != nil {
		return why, err
	}
	return why, checkReason(why.Reason)
}

// checkReason returns the Problem of a reason that is too long: the journal keeps it.
func checkReason(reason string) error {
	if len(reason) > maxReason {
		return api.NewProblemf(http.StatusUnprocessableEntity, "reason: it has %d bytes, at most %d are kept", len(reason), maxReason)
	}
	return nil
}

func (s *apiServer) handleReleaseJob(w http.ResponseWriter, r *http.Request) error {
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Holds.ReleaseJob(r.Context(), changeOf(r), r.PathValue(runOfPath))
	})
}

func (s *apiServer) handleRequeueJob(w http.ResponseWriter, r *http.Request) error {
	var q api.RequeueRequest
	if err := readJSON(w, r, &q); err != nil {
		return err
	}
	if err := checkReason(q.Reason); err != nil {
		return err
	}
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Holds.RequeueJob(r.Context(), changeOf(r), r.PathValue(runOfPath), q)
	})
}

// holdHandler returns the handler that holds the jobs of a user or a role, which the path value names.
func holdHandler(kind job.HoldKind) handlerFunc {
	return func(s *apiServer, w http.ResponseWriter, r *http.Request) error {
		why, err := readHold(w, r)
		if err != nil {
			return err
		}
		target, err := holdTargetOf(kind, r)
		if err != nil {
			return err
		}
		return s.acceptChange(w, r, func(leader *LeaderBackend) error {
			return leader.Holds.HoldJobsOf(r.Context(), apihttp.GrantOf(r.Context()), target, why)
		})
	}
}

// releaseHandler returns the handler that ends such a hold.
func releaseHandler(kind job.HoldKind) handlerFunc {
	return func(s *apiServer, w http.ResponseWriter, r *http.Request) error {
		target, err := holdTargetOf(kind, r)
		if err != nil {
			return err
		}
		return s.acceptChange(w, r, func(leader *LeaderBackend) error {
			return leader.Holds.ReleaseJobsOf(r.Context(), apihttp.GrantOf(r.Context()), target)
		})
	}
}

// maxHeldName limits the name of a user, in bytes. Identity providers choose the names.
const maxHeldName = 256

// holdTargetOf returns the user or role in the request's path. It need not exist.
func holdTargetOf(kind job.HoldKind, r *http.Request) (job.HoldTarget, error) {
	target := job.HoldTarget{Kind: kind, Name: r.PathValue(string(kind))}
	if n := len(target.Name); n > maxHeldName {
		return target, api.NewProblemf(http.StatusUnprocessableEntity, "%s: the name has %d bytes, at most %d are possible", kind, n, maxHeldName)
	}
	return target, nil
}

// handleListHolds lists the holds of the roles that the requester may see, and those of users to the users themselves
// and to those who see all roles.
func (s *apiServer) handleListHolds(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	list, err := reads.Queue.ListHolds(r.Context())
	if err != nil {
		return err
	}
	g := apihttp.GrantOf(r.Context())
	seen := make([]api.HoldView, 0, len(list))
	for _, h := range list {
		if g.HasPermissionOnAllRoles(access.View) || h.Kind == job.HeldRole && g.HasPermission(access.View, h.Name) ||
			h.Kind == job.HeldUser && h.Name == g.UserName() {
			seen = append(seen, h)
		}
	}
	apihttp.WriteJSON(w, http.StatusOK, api.HoldList{Holds: seen})
	return nil
}
