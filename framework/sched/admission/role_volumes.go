package admission

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// roleVolumePrefix begins the names of roles' volumes on the Docker engines, userVolumePrefix those of the machine's users.
const (
	roleVolumePrefix = "mesos-gpu."
	userVolumePrefix = "mesos-gpu-user."
)

// RoleVolume returns the name on the Docker engines of a role's volume. Volumes of two roles have different names: the
// encoded role contains no period. Letters, digits and hyphens of the role stay, a slash becomes two underscores,
// and each other byte an underscore with its two hexadecimal digits.
func RoleVolume(role, name string) string {
	return roleVolumePrefix + encodeVolumePart(role) + "." + name
}

// UserVolume returns the name on the Docker engines of a volume of a user of the machine, encoded as that of a role. The users of
// one machine usually share one role.
func UserVolume(user, name string) string {
	return userVolumePrefix + encodeVolumePart(user) + "." + name
}

func encodeVolumePart(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		case c == '/':
			b.WriteString("__")
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
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
	ownVolume := func(name string) string {
		if user := job.UnixUser(s.Owner); user != "" {
			return UserVolume(user, name)
		}
		return RoleVolume(role, name)
	}
	resolved := *s
	resolved.Volumes, resolved.Parameters = slices.Clone(s.Volumes), slices.Clone(s.Parameters)
	for i, v := range resolved.Volumes {
		if v.IsNamed() && !h.AllowList.sharesVolume(v.Source) {
			resolved.Volumes[i].Source = ownVolume(v.Source)
		}
	}
	for i, p := range resolved.Parameters {
		name, rest, _ := strings.Cut(p.Value, ":")
		if p.OptionName() == "volume" && isVolumeName(name) && !h.AllowList.sharesVolume(name) {
			resolved.Parameters[i].Value = ownVolume(name) + ":" + rest
		}
	}
	return &resolved
}

// sharesVolume reports whether jobs mount the volume by its name on the engine. A star does not cover volumes of roles and users.
func (l *SpecAllowList) sharesVolume(name string) bool {
	return slices.Contains(l.NamedVolumes, name) ||
		slices.Contains(l.NamedVolumes, wildcard) && !strings.HasPrefix(name, roleVolumePrefix) && !strings.HasPrefix(name, userVolumePrefix)
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
