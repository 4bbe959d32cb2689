package leader

import (
	"cmp"
	"fmt"
	"net/http"
	"os/user"
	"strconv"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched/admission"
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

// assignHostUser sets the user of the machine as whom containers with paths, devices or shared memory of the machine run: the unix
// user who owns the job. As root in the container they would be root in what they reach. It returns a Problem for a job that cannot
// run so. Unix users with Admin on all roles choose the user of their own jobs.
func assignHostUser(by *access.Grant, spec *job.Spec) error {
	spec.HostUser = nil
	name := job.UnixUser(spec.Owner)
	if name == "" || by.UserName() == spec.Owner && by.HasPermissionOnAllRoles(access.Admin) {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return api.NewProblemf(http.StatusForbidden, format, args...)
	}
	switch {
	case admission.FetchesHostFiles(spec):
		return refuse("fetch: files of the machine would be copied with the rights of the service: copy them in the command, which runs as %s", name)
	case spec.Image == "" || !admission.UsesHost(spec):
		return nil
	case spec.Containerizer != job.Docker:
		return refuse("container: with resources of the machine it runs as %s, which needs container: %s", name, job.Docker)
	case spec.User != "" && spec.User != name, admission.SetsUser(spec):
		return refuse("user: a container with resources of the machine runs as %s, with the groups of %s: leave the user and the groups out", name, name)
	}
	u, err := findHostUser(name)
	if err != nil {
		return refuse("user: a container with resources of the machine runs as %s: %w", name, err)
	}
	spec.HostUser = u
	return nil
}

// findHostUser returns the numbers of a user of the machine.
func findHostUser(name string) (*job.HostUser, error) {
	account, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	gids, err := account.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of %s: %w", name, err)
	}
	numbers := make([]int, 0, len(gids)+2)
	for _, text := range append([]string{account.Uid, account.Gid}, gids...) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("numbers of %s: %w", name, err)
		}
		numbers = append(numbers, n)
	}
	return &job.HostUser{UID: numbers[0], GID: numbers[1], Groups: numbers[2:]}, nil
}
