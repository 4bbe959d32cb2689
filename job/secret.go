package job

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// MaxSecrets bounds the secrets of one job.
const MaxSecrets = 100

const maxSecretName = 255

// secretPattern matches one part of a secret's name.
var secretPattern = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// IsSecretName reports whether a secret may have that name: parts separated by slashes. No part may lead out of the
// folder of secrets.
func IsSecretName(name string) bool {
	for word := range strings.SplitSeq(name, "/") {
		if !secretPattern.MatchString(word) || word == "." || word == ".." {
			return false
		}
	}
	return len(name) <= maxSecretName
}

const notSecretName = "%q is not a secret's name: use words of letters, digits, dots, dashes and underscores with slashes between"

// validateSecrets checks the names. Only the agents know which secrets exist.
func (s *Spec) validateSecrets(bad reportFunc) {
	if n := len(s.Secrets) + len(s.SecretFiles); n > MaxSecrets {
		bad(field("secrets").and("secret_files"), "secrets: %d are more than %d", n, MaxSecrets)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		if !variablePattern.MatchString(name) {
			bad(field("secrets", name), "secrets: %q is not a variable's name of letters, digits and underscores", name)
		}
		if !IsSecretName(s.Secrets[name]) {
			bad(field("secrets", name), "secrets: %s: "+notSecretName, name, s.Secrets[name])
		}
		if _, ok := s.Env[name]; ok {
			bad(field("secrets", name).and("env"), "secrets: %s is in env too", name)
		}
	}
}

// sandboxPath is the path of the sandbox in a container with an image.
const sandboxPath = "/mnt/mesos/sandbox"

// IsSecretPath reports whether a secret may be mounted at the path: a plain absolute or relative one that every
// container does without.
func IsSecretPath(target string) bool {
	return target != "" && len(target) <= maxSecretPath && path.Clean(target) == target && target != ".." && !strings.HasPrefix(target, "../") &&
		!strings.ContainsAny(target, ":\x00") && !slices.Contains(reservedPaths, absolutePath(target))
}

const maxSecretPath = 1024

// absolutePath returns the path in the container of a target, which may be relative to the sandbox.
func absolutePath(target string) string {
	if path.IsAbs(target) {
		return target
	}
	return path.Join(sandboxPath, target)
}

// validateSecretFiles checks where secrets are mounted. Volumes come first.
func (s *Spec) validateSecretFiles(bad reportFunc) {
	used := map[string]bool{}
	for _, v := range s.Volumes {
		used[v.Target] = true
	}
	for _, target := range slices.Sorted(maps.Keys(s.SecretFiles)) {
		at := field("secret_files", target)
		switch {
		case !IsSecretPath(target):
			bad(at, "secret_files: %q is not a path of a file such as /run/secrets/db, or db for one in the sandbox, or a reserved one", target)
		case used[absolutePath(target)]:
			bad(at.and("volumes"), "secret_files: two files, or a file and a volume, are at %s", absolutePath(target))
		case s.Image == "" && path.IsAbs(target):
			bad(at.and("image"), "secret_files: %s needs an image: without one write a path in the sandbox, such as %s", target, path.Base(target))
		}
		used[absolutePath(target)] = true
		if !IsSecretName(s.SecretFiles[target]) {
			bad(at, "secret_files: %s: "+notSecretName, target, s.SecretFiles[target])
		}
	}
}

// validatePullSecret checks the name, and that the Docker engine pulls the image: Mesos's own puller gets its
// credentials from the master, which never has a secret.
func (s *Spec) validatePullSecret(bad reportFunc) {
	switch at := field("pull_secret"); {
	case s.PullSecret == "":
	case !IsSecretName(s.PullSecret):
		bad(at, "pull_secret: "+notSecretName, s.PullSecret)
	case s.Image == "":
		bad(at.and("image"), "pull_secret: there is no image to pull")
	case s.Containerizer == Mesos:
		bad(at.and("container"), "pull_secret needs container: %s: with container: %s the agent's own --docker_config has the credentials", Docker, Mesos)
	}
}
