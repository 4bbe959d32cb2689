// Package admission decides what jobs may use of their agents besides what they are allocated: host paths, devices,
// the IPC namespace, networks, images, options of docker run and users. It compares a job with the permissions of its role.
package admission

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// HostPermissions lists the resources of agents' hosts that jobs may use. The zero value permits nothing.
type HostPermissions struct {
	// Volumes are paths on the agents that tasks may mount, with everything below them. AllowList has the named volumes
	// of the Docker engine; without it they need no permission.
	Volumes []string
	// Devices are device nodes of the agents, or folders of them, that tasks may open.
	Devices []string
	// HostIPC permits the agents' shared memory and semaphores.
	HostIPC bool
	// AllowList, if set, forbids everything that it does not name.
	AllowList *SpecAllowList
}

// RolePermissions are the permissions for jobs of a role and of the roles below it.
type RolePermissions struct {
	Role        string
	Permissions HostPermissions
}

// AllRoles is the parent of every role in Mesos's tree of roles.
const AllRoles = "/"

// CoversRole reports whether role is the other one or above it: research covers research/vision, but not researchers.
func CoversRole(role, other string) bool {
	return role == AllRoles || role == other || strings.HasPrefix(other, role+"/")
}

// PermissionsFor returns the entry of the role, or of the nearest role above it that has one, and general if none has.
func PermissionsFor(role string, general *HostPermissions, entries []RolePermissions) *HostPermissions {
	best, depth := general, -1
	for i := range entries {
		e := &entries[i]
		at := len(e.Role)
		if e.Role == AllRoles {
			at = 0
		}
		if CoversRole(e.Role, role) && at > depth {
			best, depth = &e.Permissions, at
		}
	}
	return best
}

// ForbiddenSpecError reports what a job may not use of its agents.
type ForbiddenSpecError struct{ Reason string }

func (e *ForbiddenSpecError) Error() string { return e.Reason }

// Validate returns all errors of the permissions.
func (h *HostPermissions) Validate() error {
	var errs []error
	for _, prefix := range h.Volumes {
		if !path.IsAbs(prefix) {
			errs = append(errs, fmt.Errorf("allowed volumes: %q is not an absolute path such as /data", prefix))
		}
	}
	for _, d := range h.Devices {
		if err := job.ValidateDevicePath(d); err != nil {
			errs = append(errs, fmt.Errorf("allowed devices: %w", err))
		}
	}
	return errors.Join(errs...)
}

// CheckSpec returns a *ForbiddenSpecError if the job needs more than is permitted.
func (h *HostPermissions) CheckSpec(s *job.Spec) error {
	var why []string
	mounts, hostIPC := hostAccessOf(s)
	for _, m := range mounts {
		if !slices.ContainsFunc(h.Volumes, func(prefix string) bool { return coversPath(prefix, path.Clean(m.source)) }) {
			why = append(why, fmt.Sprintf("%s: %s is the agent's own: the scheduler's operator allows such paths %s, and has allowed %s",
				m.key, m.source, h.grantedBy("--allow-volumes"), joinOrNone(h.Volumes)))
		}
	}
	for _, d := range s.Devices {
		if !slices.ContainsFunc(h.Devices, func(prefix string) bool { return coversPath(prefix, path.Clean(d)) }) {
			why = append(why, fmt.Sprintf("devices: %s is the agent's own: the scheduler's operator allows such devices %s, and has allowed %s",
				d, h.grantedBy("--allow-devices"), joinOrNone(h.Devices)))
		}
	}
	if hostIPC && !h.HostIPC {
		why = append(why, fmt.Sprintf("ipc: %s is the agent's own: the scheduler's operator allows it %s, and has not", job.HostIPC, h.grantedBy("--allow-host-ipc")))
	}
	if h.AllowList != nil {
		why = append(why, h.AllowList.checkSpec(s)...)
	}
	if len(why) == 0 {
		return nil
	}
	return &ForbiddenSpecError{strings.Join(why, "\n")}
}

// hostMount is a path on the agent, and the key of the job file that requests it.
type hostMount struct{ key, source string }

// hostAccessOf returns the paths on the agent that a job mounts or fetches, and whether it shares the agent's IPC
// namespace, by its own keys or by options of docker run.
func hostAccessOf(s *job.Spec) (mounts []hostMount, hostIPC bool) {
	for _, v := range s.Volumes {
		if !v.IsNamed() {
			mounts = append(mounts, hostMount{"volumes", v.Source})
		}
	}
	for _, a := range s.Fetch { // the fetcher copies them with its own rights
		if source, own := job.AgentFilePath(a.URI); own {
			mounts = append(mounts, hostMount{"fetch", source})
		}
	}
	for _, v := range optionValues(s, "volume") {
		if source, _, _ := strings.Cut(v, ":"); path.IsAbs(source) {
			mounts = append(mounts, hostMount{"parameters", source})
		}
	}
	hostIPC = s.IPC == job.HostIPC || slices.Contains(optionValues(s, "ipc"), string(job.HostIPC))
	return mounts, hostIPC
}

// UsesHost reports whether a container of the job reaches resources of the agent's machine: paths, devices or shared memory.
func UsesHost(s *job.Spec) bool {
	mounts, hostIPC := hostAccessOf(s)
	return len(mounts) > 0 || len(s.Devices) > 0 || hostIPC
}

// FetchesHostFiles reports whether the agent copies files of its machine into the sandboxes of the job.
func FetchesHostFiles(s *job.Spec) bool {
	return slices.ContainsFunc(s.Fetch, func(a job.FetchArtifact) bool {
		_, own := job.AgentFilePath(a.URI)
		return own
	})
}

// SetsUser reports whether the job chooses the user or the groups of its containers by options of docker run.
func SetsUser(s *job.Spec) bool {
	return len(optionValues(s, "user")) > 0 || len(optionValues(s, "group-add")) > 0
}

// grantedBy returns where an operator can grant the permission: in the access file or by the flag.
func (h *HostPermissions) grantedBy(flag string) string {
	if h.AllowList != nil {
		return "in the access file"
	}
	return "by " + flag
}

// coversPath reports whether a clean path is the prefix or below it: /data covers /data/a, but not /database.
func coversPath(prefix, name string) bool {
	prefix = path.Clean(prefix)
	return name == prefix || strings.HasPrefix(name, strings.TrimSuffix(prefix, "/")+"/")
}
