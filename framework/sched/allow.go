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
	for _, source := range mounts {
		if !slices.ContainsFunc(a.Volumes, func(prefix string) bool { return covers(prefix, path.Clean(source)) }) {
			why = append(why, fmt.Sprintf("volumes: %s is the agent's own: the scheduler's operator allows such paths by --allow-volumes, and has allowed %s", source, a.named()))
		}
	}
	if hostIPC && !a.HostIPC {
		why = append(why, fmt.Sprintf("ipc: %s is the agent's own: the scheduler's operator allows it by --allow-host-ipc, and has not", job.HostIPC))
	}
	if len(why) == 0 {
		return nil
	}
	return &ForbiddenError{strings.Join(why, "\n")}
}

// asked are the paths of its agents that a job mounts or has fetched, and
// whether it shares their memory: by keys of its own, or by options of docker
// run.
func asked(s *job.Spec) (mounts []string, hostIPC bool) {
	for _, v := range s.Volumes {
		if !v.Named() {
			mounts = append(mounts, v.Source)
		}
	}
	for _, a := range s.Fetch { // the fetcher copies them, as whoever it runs as
		if source := strings.TrimPrefix(a.URI, "file://"); path.IsAbs(source) {
			mounts = append(mounts, source)
		}
	}
	hostIPC = s.IPC == job.HostIPC
	for _, p := range s.Parameters {
		switch p.Key {
		case "volume", "v":
			if source, _, _ := strings.Cut(p.Value, ":"); path.IsAbs(source) {
				mounts = append(mounts, source)
			}
		case "ipc":
			hostIPC = hostIPC || p.Value == string(job.HostIPC)
		}
	}
	return mounts, hostIPC
}

func (a *Allowed) named() string {
	if len(a.Volumes) == 0 {
		return "none"
	}
	return strings.Join(a.Volumes, ", ")
}

// covers reports whether a clean path is the prefix or below it: /data holds
// /data/a, and not /database.
func covers(prefix, name string) bool {
	prefix = path.Clean(prefix)
	return name == prefix || strings.HasPrefix(name, strings.TrimSuffix(prefix, "/")+"/")
}
