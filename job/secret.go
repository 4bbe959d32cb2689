package job

import (
	"maps"
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

// validateSecrets checks the names. Only the agents know which secrets exist.
func (s *Spec) validateSecrets(bad reportFunc) {
	if len(s.Secrets) > MaxSecrets {
		bad(field("secrets"), "secrets: %d are more than %d", len(s.Secrets), MaxSecrets)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		if !variablePattern.MatchString(name) {
			bad(field("secrets", name), "secrets: %q is not a variable's name of letters, digits and underscores", name)
		}
		if !IsSecretName(s.Secrets[name]) {
			bad(field("secrets", name), "secrets: %s: %q is not a secret's name: use words of letters, digits, dots, dashes and underscores with slashes between", name, s.Secrets[name])
		}
		if _, ok := s.Env[name]; ok {
			bad(field("secrets", name).and("env"), "secrets: %s is in env too", name)
		}
	}
}
