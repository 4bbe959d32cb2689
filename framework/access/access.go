// Package access decides what users may do to the jobs of each role, and what jobs may
// use, from an access file that the operator writes. It does no I/O and does not handle
// requests: package gate identifies users.
package access

import (
	"fmt"
	"slices"
	"strings"
)

// Permission is a level of access to the jobs of a role. Each level includes the lower
// ones.
type Permission int

// The permissions, the lowest first.
const (
	// None is no permission.
	None Permission = iota
	// View permits reading jobs, tasks, their output and their events.
	View
	// Submit permits submitting jobs, and ending, stopping and scaling one's own.
	Submit
	// Operate permits ending, stopping and scaling the jobs of all users.
	Operate
	// Admin permits changing the role itself, such as its quota.
	Admin
)

var permissionNames = [...]string{None: "none", View: "view", Submit: "submit", Operate: "operate", Admin: "admin"}

func (p Permission) String() string {
	if p < 0 || int(p) >= len(permissionNames) {
		return fmt.Sprintf("permission %d", int(p))
	}
	return permissionNames[p]
}

// ParsePermission parses view, submit, operate or admin.
func ParsePermission(text string) (Permission, error) {
	if i := slices.Index(permissionNames[:], text); i > int(None) {
		return Permission(i), nil
	}
	return None, fmt.Errorf("%q is not one of %s", text, strings.Join(permissionNames[View:], ", "))
}

// Identity is the user of a request. The zero value is a request without a token.
type Identity struct {
	// Name is a token's name, OIDCPrefix and the user's name at the issuer, or
	// job.UnixUserPrefix and the name of a user of the machine or the agents.
	Name string
	// Groups are the token's groups, or with one of these prefixes those at the issuer or
	// on the machine.
	Groups []string
}

// OIDCPrefix is the prefix of user names and groups from an OIDC issuer. It keeps them
// distinct from the names of tokens.
const OIDCPrefix = "oidc:"

// AnyUser is a group that contains every user who was identified.
const AnyUser = "*"
