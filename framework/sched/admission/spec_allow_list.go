package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// SpecAllowList lists what jobs may use outside their own containers. Bridge networks and no network need no
// permission.
type SpecAllowList struct {
	// Networks are host, and names of networks of the Docker engines and of CNI networks.
	Networks []string
	// Images are repositories, with or without a tag or digest. REGISTRY/* covers all below it, * covers everything.
	Images []string
	// FetchHosts are the hosts from which agents may fetch files for jobs.
	FetchHosts job.FetchHosts
	// NamedVolumes are the Docker engines' volumes that jobs may mount by their names on the engine, where every role
	// with the permission shares them. RoleVolumes permits all other names, each for a volume of the job's role.
	NamedVolumes []string
	RoleVolumes  bool
	// Parameters are options of docker run that jobs may set, as NAME, or as NAME=VALUE for one value.
	Parameters []string
	// Users are the users that jobs may name, besides the unix user who owns the job. Names are compared as text: 0 is
	// not root.
	Users []string
	// NoImage permits tasks without an image, which see their agent's files. ProcessNetwork permits them their agent's
	// network too; others need it in Networks.
	NoImage, ProcessNetwork bool
}

const wildcard = "*"

// checkSpec returns one message for each request of a job that the list does not allow.
func (l *SpecAllowList) checkSpec(s *job.Spec) (why []string) {
	refuse := func(format string, args ...any) {
		why = append(why, fmt.Sprintf(format, args...))
	}
	for _, name := range append([]string{string(s.Network)}, optionValues(s, "network")...) {
		n := job.NetworkMode(name)
		if n.IsHost() {
			n = job.HostNetwork
		}
		if n == job.HostNetwork && s.Image == "" && l.ProcessNetwork {
			continue
		}
		if n != job.BridgeNetwork && n != job.NoNetwork && !isPermitted(l.Networks, string(n)) {
			instead := "use bridge or none, or have it allowed"
			if s.Image == "" {
				instead = "tasks without an image use the agent's network: have networks: [host] allowed"
			}
			refuse("network: %s is more than the task's own: the access file allows %s to jobs of this role; %s", n, joinOrNone(l.Networks), instead)
		}
	}
	switch {
	case s.Image == "" && !l.NoImage:
		refuse("image: without one the task sees its agent's files: the access file does not allow that to jobs of this role")
	case s.Image != "" && !slices.ContainsFunc(l.Images, func(p string) bool { return matchesImage(p, s.Image) }):
		refuse("image: %s is not allowed: the access file allows jobs of this role: %s", s.Image, joinOrNone(l.Images))
	}
	for _, p := range s.Parameters {
		if !l.permitsParameter(p) {
			refuse("parameters: %s=%s: the access file allows %s to jobs of this role", p.Key, p.Value, joinOrNone(l.Parameters))
		}
	}
	for _, a := range s.Fetch {
		if err := l.fetchHosts().CheckURI(a.URI); err != nil {
			refuse("fetch: %v", err)
		}
	}
	for _, name := range namedVolumes(s) {
		if !l.RoleVolumes && !l.sharesVolume(name) {
			refuse("volumes: %s: the access file allows jobs of this role to mount these named volumes: %s; "+
				"an operator can add this one to named_volumes, or set role_volumes to give each role its own",
				name, joinOrNone(l.NamedVolumes))
		}
	}
	for _, user := range append([]string{s.User}, optionValues(s, "user")...) {
		if user != "" && user != job.UnixUser(s.Owner) && !isPermitted(l.Users, user) {
			refuse("user: %s: the access file allows %s to jobs of this role; leave it out to run as the user of the image or of the framework",
				user, joinOrNone(l.Users))
		}
	}
	return why
}

// permitsParameter reports whether an entry names the option, or the option and its value. Options have long and short
// names, and capabilities are written in several ways.
func (l *SpecAllowList) permitsParameter(p job.DockerParameter) bool {
	return slices.ContainsFunc(l.Parameters, func(entry string) bool {
		key, value, hasValue := strings.Cut(entry, "=")
		allowed := job.DockerParameter{Key: key, Value: value}
		switch {
		case entry == wildcard:
			return true
		case allowed.OptionName() != p.OptionName():
			return false
		case hasValue && p.OptionName() == "cap-add":
			return job.CapabilityName(value) == job.CapabilityName(p.Value)
		}
		return !hasValue || value == p.Value
	})
}

// fetchHosts returns a list that is not nil: nil would cover every host.
func (l *SpecAllowList) fetchHosts() job.FetchHosts {
	if l.FetchHosts == nil {
		return job.FetchHosts{}
	}
	return l.FetchHosts
}

// optionValues returns the values of an option of docker run, by its long or short name.
func optionValues(s *job.Spec, name string) (values []string) {
	for _, p := range s.Parameters {
		if p.OptionName() == name {
			values = append(values, p.Value)
		}
	}
	return values
}

func isPermitted(list []string, name string) bool {
	return slices.Contains(list, wildcard) || slices.Contains(list, name)
}

// ValidateImagePattern returns an error for an invalid entry of SpecAllowList.Images. A star is allowed only where it
// cannot extend a name: "host*" would cover a registry named host.evil.
func ValidateImagePattern(p string) error {
	body := strings.TrimSuffix(p, "/"+wildcard)
	if p == wildcard || body != "" && !strings.Contains(body, wildcard) {
		return nil
	}
	return fmt.Errorf("image %q: write a repository, REGISTRY/* for all below, or * for all", p)
}

// matchesImage compares texts. docker.io/library/debian is not debian: a name in another form is rejected.
func matchesImage(pattern, image string) bool {
	if pattern == wildcard {
		return true
	}
	if slices.Contains(strings.Split(image, "/"), "..") {
		return false
	}
	if prefix, below := strings.CutSuffix(pattern, wildcard); below {
		return strings.HasPrefix(image, prefix) && len(image) > len(prefix)
	}
	rest, same := strings.CutPrefix(image, pattern)
	if !same || strings.Contains(rest, "/") { // debian:5000/x is in the registry debian:5000
		return false
	}
	return rest == "" || rest[0] == '@' || rest[0] == ':' && !hasTag(pattern)
}

// hasTag reports whether a reference has a tag or a digest. The colon of a registry's port is followed by a slash.
func hasTag(ref string) bool {
	return strings.ContainsAny(ref[strings.LastIndexByte(ref, '/')+1:], ":@")
}

func joinOrNone(list []string) string { return cmp.Or(strings.Join(list, ", "), "none") }
