package sched

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// HostPermissions is what jobs may have of their agents' own. The zero value is
// nothing.
type HostPermissions struct {
	// Volumes are the paths of the agents whose files tasks may see, with all
	// that is below them. Named volumes of the Docker engine need none.
	Volumes []string
	// HostIPC is the agents' shared memory and semaphores.
	HostIPC bool
	// AllowList, where set, refuse what they do not name.
	AllowList *SpecAllowList
}

// RolePermissions is what the jobs of a role and of those below it may have.
type RolePermissions struct {
	Role        string
	Permissions HostPermissions
}

// AllRoles is the root of Mesos's tree of roles, above each of them.
const AllRoles = "/"

// CoversRole reports whether a role is the other or above it: research covers
// research/vision, and not researchers.
func CoversRole(role, other string) bool {
	return role == AllRoles || role == other || strings.HasPrefix(other, role+"/")
}

// permissionsFor is the entry of the role or, where it has none, of the next one
// above that has.
func (p *Policy) permissionsFor(role string) *HostPermissions {
	best, depth := &p.Permissions, -1
	for i := range p.RolePermissions {
		in := &p.RolePermissions[i]
		at := len(in.Role)
		if in.Role == AllRoles {
			at = 0
		}
		if CoversRole(in.Role, role) && at > depth {
			best, depth = &in.Permissions, at
		}
	}
	return best
}

// ForbiddenSpecError says what a job wants of its agents and may not have.
type ForbiddenSpecError struct{ Reason string }

func (e *ForbiddenSpecError) Error() string { return e.Reason }

func (a *HostPermissions) validatePaths() error {
	var errs []error
	for _, prefix := range a.Volumes {
		if !path.IsAbs(prefix) {
			errs = append(errs, fmt.Errorf("allowed volumes: %q is no absolute path such as /data", prefix))
		}
	}
	return errors.Join(errs...)
}

// checkSpec returns a *ForbiddenSpecError for a job that wants more.
func (a *HostPermissions) checkSpec(s *job.Spec) error {
	var why []string
	mounts, hostIPC := hostAccessOf(s)
	for _, m := range mounts {
		if !slices.ContainsFunc(a.Volumes, func(prefix string) bool { return coversPath(prefix, path.Clean(m.source)) }) {
			why = append(why, fmt.Sprintf("%s: %s is the agent's own: the scheduler's operator allows such paths %s, and has allowed %s", m.key, m.source, a.grantedBy("--allow-volumes"), joinOrNone(a.Volumes)))
		}
	}
	if hostIPC && !a.HostIPC {
		why = append(why, fmt.Sprintf("ipc: %s is the agent's own: the scheduler's operator allows it %s, and has not", job.HostIPC, a.grantedBy("--allow-host-ipc")))
	}
	if a.AllowList != nil {
		why = append(why, a.AllowList.checkSpec(s)...)
	}
	if len(why) == 0 {
		return nil
	}
	return &ForbiddenSpecError{strings.Join(why, "\n")}
}

// hostMount is a path of an agent's own, and the key of the job file that wants it.
type hostMount struct{ key, source string }

// hostAccessOf are the paths of its agents that a job mounts or has fetched, and
// whether it shares their memory: by keys of its own, or by options of docker
// run.
func hostAccessOf(s *job.Spec) (mounts []hostMount, hostIPC bool) {
	for _, v := range s.Volumes {
		if !v.IsNamed() {
			mounts = append(mounts, hostMount{"volumes", v.Source})
		}
	}
	for _, a := range s.Fetch { // the fetcher copies them, as whoever it runs as
		if source, own := job.AgentFilePath(a.URI); own {
			mounts = append(mounts, hostMount{"fetch", source})
		}
	}
	hostIPC = s.IPC == job.HostIPC
	for _, p := range s.Parameters {
		switch p.OptionName() {
		case "volume":
			if source, _, _ := strings.Cut(p.Value, ":"); path.IsAbs(source) {
				mounts = append(mounts, hostMount{"parameters", source})
			}
		case "ipc":
			hostIPC = hostIPC || p.Value == string(job.HostIPC)
		}
	}
	return mounts, hostIPC
}

// grantedBy is where an operator allows it.
func (a *HostPermissions) grantedBy(flag string) string {
	if a.AllowList != nil {
		return "in the access file"
	}
	return "by " + flag
}

func joinOrNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// coversPath reports whether a clean path is the prefix or below it: /data holds
// /data/a, and not /database.
func coversPath(prefix, name string) bool {
	prefix = path.Clean(prefix)
	return name == prefix || strings.HasPrefix(name, strings.TrimSuffix(prefix, "/")+"/")
}
