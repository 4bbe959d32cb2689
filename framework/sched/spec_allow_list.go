package sched

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// SpecAllowList name what jobs may have that opens more than their own container. A
// network of their own, bridge, and no network need no permission.
type SpecAllowList struct {
	// Networks are host, and the names of the Docker engines' networks.
	Networks []string
	// Images are repositories, with or without a tag or digest; REGISTRY/*
	// covers all below, and * everything.
	Images []string
	// Parameters are the options of docker run that jobs may name.
	Parameters []string
	// Users are whom tasks may run as where a job names somebody. Names are
	// compared as they are written: 0 is not root.
	Users []string
	// NoImage are tasks that run in their agent's own file system.
	NoImage bool
}

const wildcard = "*"

// checkSpec says what a job wants beyond the bounds.
func (b *SpecAllowList) checkSpec(s *job.Spec) (why []string) {
	refuse := func(format string, args ...any) {
		why = append(why, fmt.Sprintf(format, args...))
	}
	for _, n := range requestedNetworks(s) {
		if !isPermitted(b.Networks, n) {
			refuse("network: %s is more than the task's own: the access file allows %s to jobs of this role; use bridge or none, or have it allowed", n, joinOrNone(b.Networks))
		}
	}
	switch {
	case s.Image == "" && !b.NoImage:
		refuse("image: without one the task sees its agent's files: the access file does not allow that to jobs of this role")
	case s.Image != "" && !slices.ContainsFunc(b.Images, func(p string) bool { return matchesImage(p, s.Image) }):
		refuse("image: %s is none that the access file allows to jobs of this role: %s", s.Image, joinOrNone(b.Images))
	}
	for _, p := range s.Parameters {
		if !isPermitted(b.Parameters, p.Key) && !isPermitted(b.Parameters, p.OptionName()) {
			refuse("parameters: %s: the access file allows %s to jobs of this role", p.Key, joinOrNone(b.Parameters))
		}
	}
	for _, user := range requestedUsers(s) {
		if !isPermitted(b.Users, user) {
			refuse("user: %s: the access file allows %s to jobs of this role; leave it out to run as whom the image or the framework names", user, joinOrNone(b.Users))
		}
	}
	return why
}

// requestedUsers are whom a job names to run as: by its key, or by an option of
// docker run.
func requestedUsers(s *job.Spec) (names []string) {
	if s.User != "" {
		names = append(names, s.User)
	}
	for _, p := range s.Parameters {
		if p.OptionName() == "user" {
			names = append(names, p.Value)
		}
	}
	return names
}

func isPermitted(list []string, name string) bool {
	return slices.Contains(list, wildcard) || slices.Contains(list, name)
}

// requestedNetworks are those of a job that need permission: by its key, or by an
// option of docker run.
func requestedNetworks(s *job.Spec) (names []string) {
	add := func(n job.NetworkMode) {
		switch {
		case n.IsHost():
			names = append(names, string(job.HostNetwork))
		case n != job.BridgeNetwork && n != job.NoNetwork:
			names = append(names, string(n))
		}
	}
	add(s.Network)
	for _, p := range s.Parameters {
		if p.OptionName() == "network" {
			add(job.NetworkMode(p.Value))
		}
	}
	return names
}

// ValidateImagePattern says what is wrong with one of Bounds.Images. Stars stand
// only where nothing can be put before or after them: "host*" would cover a
// registry called host.evil.
func ValidateImagePattern(p string) error {
	body := strings.TrimSuffix(p, "/"+wildcard)
	if p == wildcard || body != "" && !strings.Contains(body, wildcard) {
		return nil
	}
	return fmt.Errorf("image %q: write a repository, REGISTRY/* for all below, or * for all", p)
}

// matchesImage compares texts: docker.io/library/debian is not debian, and
// what is written otherwise is refused rather than let through.
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
	if !same || strings.Contains(rest, "/") { // debian:5000/x is of the registry debian:5000
		return false
	}
	return rest == "" || rest[0] == '@' || rest[0] == ':' && !hasTag(pattern)
}

// hasTag reports whether a reference has a tag or a digest. The colon of a
// registry's port has a slash after it.
func hasTag(ref string) bool {
	return strings.ContainsAny(ref[strings.LastIndexByte(ref, '/')+1:], ":@")
}
