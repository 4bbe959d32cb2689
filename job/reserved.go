package job

import (
	"fmt"
	"strings"
)

// AppLabel and AppVersionLabel are the labels of a job that runs a Marathon app: its id and
// version. Its Group is the id, which begins with AppGroupPrefix.
const (
	AppLabel        = "marathon.app"
	AppVersionLabel = "marathon.version"
	AppGroupPrefix  = "/"
)

// ReservedError reports that a request sets a label or a group by which the scheduler finds
// the jobs of Marathon apps.
type ReservedError struct {
	// Key is the key of the job file, Value the label's name or the group.
	Key, Value string
}

func (e *ReservedError) Error() string {
	return fmt.Sprintf("%s: %q is reserved for the scheduler, which marks the jobs of Marathon apps with it: choose another", e.Key, e.Value)
}

// CheckReserved returns a *ReservedError if the job has what only the scheduler may set.
// Requests of users are checked. Jobs from the journal are not, because earlier versions
// accepted these values.
func (s *Spec) CheckReserved() error {
	for _, label := range []string{AppLabel, AppVersionLabel} {
		if _, ok := s.Labels[label]; ok {
			return &ReservedError{"labels", label}
		}
	}
	if strings.HasPrefix(s.Group, AppGroupPrefix) {
		return &ReservedError{"group", s.Group}
	}
	return nil
}
