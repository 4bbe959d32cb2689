package leader

import (
	"context"
	"net/http"
	"os/user"
	"path"
	"strings"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// OwnerHome is the entry of Config.SharedFolders that stands for the home of each job's owner.
const OwnerHome = "~"

// checkChdir refuses a folder in which the tasks cannot start, because it is not on a file system that the agents share, or because
// they do not run as the user who owns the job. With another user's rights they could read what the owner cannot.
func (l *Leader) checkChdir(_ context.Context, _ *sched.State, s *submission) error {
	folder, owner := s.spec.Chdir, job.UnixUser(s.spec.Owner)
	switch {
	case folder == "":
		return nil
	case folder == job.ChdirSubmit:
		return api.NewProblemf(http.StatusUnprocessableEntity,
			"chdir: only the client knows the folder of the submission: send its absolute path, as mesos-gpu submit does")
	case owner == "":
		return api.NewProblemf(http.StatusForbidden,
			"chdir: the tasks must run as the owner of the job, who is no unix user: submit by the socket of a GPU server, "+
				"have run_as: owner set in the access file, or upload the folder by workdir")
	case s.spec.User != "" && s.spec.User != owner:
		return api.NewProblemf(http.StatusForbidden, "chdir: the tasks must run as the owner of the job, %s, and not as %s: leave out user", owner, s.spec.User)
	case !isShared(folder, owner, l.sharedFolders):
		return api.NewProblemf(http.StatusForbidden,
			"chdir: %s is not below a folder that the agents share: the scheduler's operator has named %s by --shared-folders; "+
				"submit from there, or upload the folder by workdir", folder, describeShared(l.sharedFolders))
	}
	return nil
}

// isShared reports whether a folder is one of the shared ones, or below one.
func isShared(folder, owner string, shared []string) bool {
	for _, top := range shared {
		if top == OwnerHome {
			account, err := user.Lookup(owner)
			if err != nil || path.Clean(account.HomeDir) == "/" { // system users have no home of their own
				continue
			}
			top = account.HomeDir
		}
		top = strings.TrimSuffix(path.Clean(top), "/")
		if path.IsAbs(folder) && (folder == top || strings.HasPrefix(folder, top+"/")) {
			return true
		}
	}
	return false
}

func describeShared(shared []string) string {
	if len(shared) == 0 {
		return "none"
	}
	names := strings.Join(shared, ", ")
	return strings.ReplaceAll(names, OwnerHome, "the owner's home")
}
