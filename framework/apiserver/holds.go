package apiserver

import (
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/job"
)

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
	return s.acceptChange(w, r, func(leader LeaderBackend) error {
		return leader.HoldJob(r.Context(), changeOf(r), r.PathValue("name"), why.Reason)
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
	return s.acceptChange(w, r, func(leader LeaderBackend) error {
		return leader.ReleaseJob(r.Context(), changeOf(r), r.PathValue("name"))
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
	return s.acceptChange(w, r, func(leader LeaderBackend) error {
		return leader.RequeueJob(r.Context(), changeOf(r), r.PathValue("name"), q)
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
		return s.acceptChange(w, r, func(leader LeaderBackend) error {
			return leader.HoldJobsOf(r.Context(), apihttp.GrantOf(r.Context()), target, why)
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
		return s.acceptChange(w, r, func(leader LeaderBackend) error {
			return leader.ReleaseJobsOf(r.Context(), apihttp.GrantOf(r.Context()), target)
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
func (s *apiServer) handleListHolds(reads ReadBackend, w http.ResponseWriter, r *http.Request) error {
	list, err := reads.ListHolds(r.Context())
	if err != nil {
		return err
	}
	g := apihttp.GrantOf(r.Context())
	seen := make([]api.HoldView, 0, len(list))
	for _, h := range list {
		if g.HasPermissionOnAllRoles(access.View) || h.Kind == job.HeldRole && g.HasPermission(access.View, h.Name) || h.Kind == job.HeldUser && h.Name == g.UserName() {
			seen = append(seen, h)
		}
	}
	apihttp.WriteJSON(w, http.StatusOK, api.HoldList{Holds: seen})
	return nil
}
