// Package access decides which users may do what to the jobs of which roles, and
// what jobs may have, by one file that the operator writes. It does no I/O and knows
// no requests: package gate identifies users.
package access

import (
	"fmt"
	"slices"
	"strings"
)

// Permission is what a user may do to the jobs of a role. Each includes those
// below it.
type Permission int

// The permissions, the least first.
const (
	// None is no permission.
	None Permission = iota
	// View sees jobs, tasks, what they write and what happens to them.
	View
	// Submit submits jobs, and ends, stops and scales one's own.
	Submit
	// Operate does so to everybody's.
	Operate
	// Admin sets what the role itself has, such as its quota.
	Admin
)

var permissionNames = [...]string{None: "none", View: "view", Submit: "submit", Operate: "operate", Admin: "admin"}

func (p Permission) String() string {
	if p < 0 || int(p) >= len(permissionNames) {
		return fmt.Sprintf("permission %d", int(p))
	}
	return permissionNames[p]
}

// ParsePermission reads view, submit, operate or admin.
func ParsePermission(text string) (Permission, error) {
	if i := slices.Index(permissionNames[:], text); i > int(None) {
		return Permission(i), nil
	}
	return None, fmt.Errorf("%q is none of %s", text, strings.Join(permissionNames[View:], ", "))
}

// Identity is the user of a request. The zero value is a request without a token.
type Identity struct {
	// Name is a token's name, or OIDCPrefix and the user's name at the issuer.
	Name string
	// Groups likewise.
	Groups []string
}

// OIDCPrefix begins the names and groups that an OIDC issuer tells, so that none
// is taken for a token's.
const OIDCPrefix = "oidc:"

// AnyUser, as a group, is every user with a token.
const AnyUser = "*"
