package job

import (
	"encoding/json"
	"fmt"
)

// LaunchVersion is the version of the Launch wire format.
const LaunchVersion = 2

// Launch is what the framework tells the executor about one task beyond what
// Mesos has words for in a TaskInfo. It travels as JSON in TaskInfo.data:
// Mesos allows no CommandInfo beside a custom executor.
type Launch struct {
	// Version also tells a Launch from other frameworks' data.
	Version int               `json:"mesos-gpu"`
	Job     string            `json:"job"`
	Index   int               `json:"index"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// User and Fetch are the Spec's, for a nested container: the executor puts
	// them into its CommandInfo.
	User  string     `json:"user,omitempty"`
	Fetch []Artifact `json:"fetch,omitempty"`
}

// ParseLaunch reads TaskInfo.data; ok tells whether it is a Launch at all. It
// refuses a version this executor does not know: scheduler and executor must
// come from compatible releases.
func ParseLaunch(data []byte) (l Launch, ok bool, err error) {
	if json.Unmarshal(data, &l) != nil || l.Version == 0 {
		return Launch{}, false, nil
	}
	if l.Version != LaunchVersion {
		return Launch{}, true, fmt.Errorf("task data is version %d, this executor reads version %d: install the scheduler's release on the agent", l.Version, LaunchVersion)
	}
	return l, true, nil
}
