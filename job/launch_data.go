package job

import (
	"encoding/json"
	"fmt"
)

// Versions of the Launch wire format. LaunchVersion is that of most tasks;
// entrypointLaunchVersion and secretsLaunchVersion are written only for what executors of those
// before would not heed, so that the others may run on agents that have an
// older release.
const (
	LaunchVersion           = 2
	entrypointLaunchVersion = 3
	secretsLaunchVersion    = 4
)

// LaunchData is what the framework tells the executor about one task beyond what
// Mesos has words for in a TaskInfo. It travels as JSON in TaskInfo.data:
// Mesos allows no CommandInfo beside a custom executor.
type LaunchData struct {
	// Version also tells a Launch from other frameworks' data.
	Version int               `json:"mesos-gpu"`
	Job     string            `json:"job"`
	Index   int               `json:"index"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Secrets are the Spec's: the executor finds their values.
	Secrets map[string]string `json:"secrets,omitempty"`
	// User and Fetch are the Spec's, for a nested container: the executor puts
	// them into its CommandInfo.
	User  string          `json:"user,omitempty"`
	Fetch []FetchArtifact `json:"fetch,omitempty"`
	// ImageEntrypoint is the Spec's.
	ImageEntrypoint bool `json:"image_entrypoint,omitempty"`
	// HealthChecks are those beside the TaskInfo's own, each a HealthCheck of
	// Mesos in JSON.
	HealthChecks []json.RawMessage `json:"health_checks,omitempty"`
}

// Encode is TaskInfo.data, with the oldest version that says it all.
func (l LaunchData) Encode() ([]byte, error) {
	l.Version = LaunchVersion
	if l.ImageEntrypoint || len(l.HealthChecks) > 0 {
		l.Version = entrypointLaunchVersion
	}
	if len(l.Secrets) > 0 {
		l.Version = secretsLaunchVersion
	}
	data, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode launch of %s: %w", l.Job, err)
	}
	return data, nil
}

// ParseLaunch reads TaskInfo.data; ok tells whether it is a Launch at all. It
// refuses a version this executor does not know: scheduler and executor must
// come from compatible releases.
func ParseLaunch(data []byte) (l LaunchData, ok bool, err error) {
	if json.Unmarshal(data, &l) != nil || l.Version == 0 {
		return LaunchData{}, false, nil
	}
	if l.Version < LaunchVersion || l.Version > secretsLaunchVersion {
		return LaunchData{}, true, fmt.Errorf("task data is version %d, this executor reads versions %d to %d: install the scheduler's release on the agent", l.Version, LaunchVersion, secretsLaunchVersion)
	}
	return l, true, nil
}
