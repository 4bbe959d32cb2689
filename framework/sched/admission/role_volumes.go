package admission

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// roleVolumePrefix begins the names of roles' volumes on the Docker engines.
const roleVolumePrefix = "mesos-gpu."

// RoleVolume returns the name on the Docker engines of a role's volume. Volumes of two roles have different names: the
// encoded role contains no period. Letters, digits and hyphens of the role stay, a slash becomes two underscores,
// and each other byte an underscore with its two hexadecimal digits.
func RoleVolume(role, name string) string {
	var b strings.Builder
	b.WriteString(roleVolumePrefix)
	for _, c := range []byte(role) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		case c == '/':
			b.WriteString("__")
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String() + "." + name
}

// FetchHosts returns the hosts from which agents may fetch files, or nil for all.
func (h *HostPermissions) FetchHosts() job.FetchHosts {
	if h.AllowList == nil {
		return nil
	}
	return h.AllowList.fetchHosts()
}

// ResolveVolumes returns the job with the names that its volumes have on the Docker engines. It returns s itself if no
// name differs. Without an allow list all volumes are shared, since every user may submit to every role.
func (h *HostPermissions) ResolveVolumes(s *job.Spec, role string) *job.Spec {
	if h.AllowList == nil || !slices.ContainsFunc(namedVolumes(s), func(name string) bool { return !h.AllowList.sharesVolume(name) }) {
		return s
	}
	resolved := *s
	resolved.Volumes, resolved.Parameters = slices.Clone(s.Volumes), slices.Clone(s.Parameters)
	for i, v := range resolved.Volumes {
		if v.IsNamed() && !h.AllowList.sharesVolume(v.Source) {
			resolved.Volumes[i].Source = RoleVolume(role, v.Source)
		}
	}
	for i, p := range resolved.Parameters {
		name, rest, _ := strings.Cut(p.Value, ":")
		if p.OptionName() == "volume" && isVolumeName(name) && !h.AllowList.sharesVolume(name) {
			resolved.Parameters[i].Value = RoleVolume(role, name) + ":" + rest
		}
	}
	return &resolved
}

// sharesVolume reports whether jobs mount the volume by its name on the engine. A star does not cover roles' volumes.
func (l *SpecAllowList) sharesVolume(name string) bool {
	return slices.Contains(l.NamedVolumes, name) || slices.Contains(l.NamedVolumes, wildcard) && !strings.HasPrefix(name, roleVolumePrefix)
}

// namedVolumes returns the names of the Docker engine's volumes that a job mounts, by its own key or by options of
// docker run.
func namedVolumes(s *job.Spec) (names []string) {
	for _, v := range s.Volumes {
		if v.IsNamed() {
			names = append(names, v.Source)
		}
	}
	for _, v := range optionValues(s, "volume") {
		if name, _, _ := strings.Cut(v, ":"); isVolumeName(name) {
			names = append(names, name)
		}
	}
	return names
}

func isVolumeName(source string) bool { return job.Volume{Source: source}.IsNamed() }
