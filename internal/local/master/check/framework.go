package check

import (
	"errors"
	"fmt"
	"math"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/roles"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/minimesos/events"
)

// maxFailoverTimeout is the largest duration that fits Mesos's nanoseconds, in
// seconds.
const maxFailoverTimeout = math.MaxInt64 / 1e9

// ValidateFramework returns the first error in a FrameworkInfo.
func ValidateFramework(info mesos.FrameworkInfo) error {
	multi := events.HasCapability(info, mesos.FrameworkInfo_Capability_MULTI_ROLE)
	switch {
	case multi && info.Role != nil:
		return errors.New("'FrameworkInfo.role' must not be set when the framework is MULTI_ROLE capable")
	case !multi && len(info.Roles) > 0:
		return errors.New("'FrameworkInfo.roles' must not be set when the framework is not MULTI_ROLE capable")
	}
	if err := roles.Validate(RolesOf(info)...); err != nil {
		return fmt.Errorf("framework has an invalid role: %w", err)
	}
	if value := info.GetID().GetValue(); value != "" {
		if err := link.ValidateID("framework id", value); err != nil {
			return err
		}
	}
	if t := info.GetFailoverTimeout(); math.IsNaN(t) || math.Abs(t) > maxFailoverTimeout {
		return fmt.Errorf("framework's failover_timeout %v is invalid: it is beyond %.0f seconds", t, float64(maxFailoverTimeout))
	}
	return nil
}

// ValidateSuppressed returns an error for a suppressed role that the framework
// does not have.
func ValidateSuppressed(info mesos.FrameworkInfo, suppressed []string) error {
	for _, role := range suppressed {
		if !slices.Contains(RolesOf(info), role) {
			return fmt.Errorf("suppressed role %q is not contained in the set of roles %q", role, RolesOf(info))
		}
	}
	return nil
}

// ValidateUpdate says which change from old to info is not allowed. strict is for
// UPDATE_FRAMEWORK, which may not change user and checkpoint; SUBSCRIBE
// keeps the old values of those.
func ValidateUpdate(old, info mesos.FrameworkInfo, strict bool) error {
	switch {
	case old.GetPrincipal() != info.GetPrincipal():
		return errors.New("changing framework's principal is not allowed")
	case strict && old.User != info.User:
		return fmt.Errorf("updating 'FrameworkInfo.user' from %q to %q is unsupported", old.User, info.User)
	case strict && old.GetCheckpoint() != info.GetCheckpoint():
		return fmt.Errorf("updating 'FrameworkInfo.checkpoint' from %v to %v is unsupported", old.GetCheckpoint(), info.GetCheckpoint())
	}
	return nil
}

// RolesOf returns the roles that the framework subscribes to.
func RolesOf(info mesos.FrameworkInfo) []string {
	if events.HasCapability(info, mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		return info.Roles
	}
	return []string{info.GetRole()}
}
