package leader

import (
	"cmp"
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// assignUser sets the user of processes to the unix user who owns the job, unless the job
// names one. It returns a Problem if the requester may not run processes as that user. The
// user of a container is one of its image and has no rights outside of it.
func assignUser(by *access.Grant, spec *job.Spec) error {
	if spec.Image != "" {
		return nil
	}
	spec.User = cmp.Or(spec.User, job.UnixUser(spec.Owner))
	if by.CanRunAs(spec.User) {
		return nil
	}
	return api.NewProblemf(http.StatusForbidden,
		"user: %s may run tasks without an image only as %s, not as %q: an operator may do so", by.UserName(),
		job.UnixUser(by.UserName()), spec.User)
}
