package sched

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// Allowed is what jobs may have of their agents' own. The zero value is
// nothing.
type Allowed struct {
	// Volumes are the paths of the agents whose files tasks may see, with all
	// that is below them. Named volumes of the Docker engine need none.
	Volumes []string
	// HostIPC is the agents' shared memory and semaphores.
	HostIPC bool
	// Bounds, where set, refuse what they do not name.
	Bounds *Bounds
}

// AllowedIn is what the jobs of a role and of those below it may have.
type AllowedIn struct {
	Role    string
	Allowed Allowed
}

// AllRoles is the root of Mesos's tree of roles, above each of them.
const AllRoles = "/"

// RoleCovers reports whether a role is the other or above it: research covers
// research/vision, and not researchers.
func RoleCovers(role, other string) bool {
	return role == AllRoles || role == other || strings.HasPrefix(other, role+"/")
}

// allowedFor is the entry of the role or, where it has none, of the next one
// above that has.
func (p *Policy) allowedFor(role string) *Allowed {
	best, depth := &p.Allowed, -1
	for i := range p.AllowedIn {
		in := &p.AllowedIn[i]
		at := len(in.Role)
		if in.Role == AllRoles {
			at = 0
		}
		if RoleCovers(in.Role, role) && at > depth {
			best, depth = &in.Allowed, at
		}
	}
	return best
}

// ForbiddenError says what a job wants of its agents and may not have.
type ForbiddenError struct{ Why string }

func (e *ForbiddenError) Error() string { return e.Why }

func (a *Allowed) validate() error {
	var errs []error
	for _, prefix := range a.Volumes {
		if !path.IsAbs(prefix) {
			errs = append(errs, fmt.Errorf("allowed volumes: %q is no absolute path such as /data", prefix))
		}
	}
	return errors.Join(errs...)
}

// check returns a *ForbiddenError for a job that wants more.
func (a *Allowed) check(s *job.Spec) error {
	var why []string
	mounts, hostIPC := asked(s)
	for _, m := range mounts {
		if !slices.ContainsFunc(a.Volumes, func(prefix string) bool { return covers(prefix, path.Clean(m.source)) }) {
			why = append(why, fmt.Sprintf("%s: %s is the agent's own: the scheduler's operator allows such paths %s, and has allowed %s", m.key, m.source, a.by("--allow-volumes"), listed(a.Volumes)))
		}
	}
	if hostIPC && !a.HostIPC {
		why = append(why, fmt.Sprintf("ipc: %s is the agent's own: the scheduler's operator allows it %s, and has not", job.HostIPC, a.by("--allow-host-ipc")))
	}
	if a.Bounds != nil {
		why = append(why, a.Bounds.check(s)...)
	}
	if len(why) == 0 {
		return nil
	}
	return &ForbiddenError{strings.Join(why, "\n")}
}

// mount is a path of an agent's own, and the key of the job file that wants it.
type mount struct{ key, source string }

// asked are the paths of its agents that a job mounts or has fetched, and
// whether it shares their memory: by keys of its own, or by options of docker
// run.
func asked(s *job.Spec) (mounts []mount, hostIPC bool) {
	for _, v := range s.Volumes {
		if !v.Named() {
			mounts = append(mounts, mount{"volumes", v.Source})
		}
	}
	for _, a := range s.Fetch { // the fetcher copies them, as whoever it runs as
		if source, own := job.OwnFile(a.URI); own {
			mounts = append(mounts, mount{"fetch", source})
		}
	}
	hostIPC = s.IPC == job.HostIPC
	for _, p := range s.Parameters {
		switch p.Option() {
		case "volume":
			if source, _, _ := strings.Cut(p.Value, ":"); path.IsAbs(source) {
				mounts = append(mounts, mount{"parameters", source})
			}
		case "ipc":
			hostIPC = hostIPC || p.Value == string(job.HostIPC)
		}
	}
	return mounts, hostIPC
}

// by is where an operator allows it.
func (a *Allowed) by(flag string) string {
	if a.Bounds != nil {
		return "in the access file"
	}
	return "by " + flag
}

func listed(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// covers reports whether a clean path is the prefix or below it: /data holds
// /data/a, and not /database.
func covers(prefix, name string) bool {
	prefix = path.Clean(prefix)
	return name == prefix || strings.HasPrefix(name, strings.TrimSuffix(prefix, "/")+"/")
}
