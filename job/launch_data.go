package job

import (
	"encoding/json"
	"fmt"
	"time"
)

// Versions of LaunchData's encoding. Most tasks have LaunchVersion. The later versions
// are used only for tasks with fields that older executors would ignore, so that other
// tasks can run on agents with an older release.
const (
	// LaunchVersion is the oldest version that this release reads. The names of the others tell what they added.
	LaunchVersion           = 2
	entrypointLaunchVersion = 3
	secretsLaunchVersion    = 4
	filesLaunchVersion      = 5
	devicesLaunchVersion    = 6
	warnLaunchVersion       = 7
	pullSecretLaunchVersion = 8
	delayLaunchVersion      = 9
	hostUserLaunchVersion   = 10
	chdirLaunchVersion      = 11

	latestLaunchVersion = chdirLaunchVersion
)

// LaunchData contains the facts about a task that the scheduler passes to the executor
// in addition to the fields of TaskInfo. It is JSON in TaskInfo.data, because Mesos allows no
// CommandInfo together with a custom executor.
type LaunchData struct {
	// Version also distinguishes LaunchData from the data of other frameworks.
	Version int               `json:"mesos-gpu"`
	Job     string            `json:"job"`
	Index   int               `json:"index"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Secrets and SecretFiles are the Spec's. The executor finds them on the
	// agent.
	Secrets     map[string]string `json:"secrets,omitempty"`
	SecretFiles map[string]string `json:"secret_files,omitempty"`
	// PullSecret is the Spec's.
	PullSecret string `json:"pull_secret,omitempty"`
	// Devices are the Spec's. The executor opens them if the agent's operator allows it.
	Devices []string `json:"devices,omitempty"`
	// WholeGPUs is set if the task requested whole GPUs and has all of some shared ones.
	// An executor that does not know the field describes these to the task as shares.
	WholeGPUs bool `json:"whole_gpus,omitempty"`
	// User and Fetch are the Spec's. The executor copies them into the
	// CommandInfo of a nested container.
	User  string          `json:"user,omitempty"`
	Fetch []FetchArtifact `json:"fetch,omitempty"`
	// ImageEntrypoint is the Spec's.
	ImageEntrypoint bool `json:"image_entrypoint,omitempty"`
	// Warn is the Spec's. A KILL with a grace period above KillGrace and ShutdownDelay
	// warns the task first.
	Warn *Warning `json:"warn,omitempty"`
	// KillGrace is the Spec's, in tasks with Warn. They have no KillPolicy, to which Mesos
	// would limit the grace period of a drain.
	KillGrace *time.Duration `json:"kill_grace,omitempty"`
	// WarnPort is the port of Warn's HTTP request, where the task listens for it.
	WarnPort int `json:"warn_port,omitempty"`
	// ShutdownDelay is the Service's. A KILL without a grace period of its own sends
	// SIGTERM that much later.
	ShutdownDelay time.Duration `json:"shutdown_delay,omitempty"`
	// HostUser is the Spec's.
	HostUser *HostUser `json:"host_user,omitempty"`
	// RunsAsOwner is the Spec's. An executor that does not know the field starts the task with its sandbox as HOME.
	RunsAsOwner bool `json:"runs_as_owner,omitempty"`
	// Chdir is the Spec's.
	Chdir string `json:"chdir,omitempty"`
	// HealthChecks lists the checks for which TaskInfo has no field, each a
	// HealthCheck message of Mesos in JSON.
	HealthChecks []json.RawMessage `json:"health_checks,omitempty"`
}

// Encode returns the content of TaskInfo.data in the oldest version that contains all
// fields that are set.
func (l LaunchData) Encode() ([]byte, error) {
	l.Version = LaunchVersion
	if l.ImageEntrypoint || len(l.HealthChecks) > 0 {
		l.Version = entrypointLaunchVersion
	}
	if len(l.Secrets) > 0 {
		l.Version = secretsLaunchVersion
	}
	if len(l.SecretFiles) > 0 {
		l.Version = filesLaunchVersion
	}
	if len(l.Devices) > 0 {
		l.Version = devicesLaunchVersion
	}
	if l.Warn != nil {
		l.Version = warnLaunchVersion
	}
	if l.PullSecret != "" {
		l.Version = pullSecretLaunchVersion
	}
	if l.ShutdownDelay > 0 {
		l.Version = delayLaunchVersion
	}
	if l.HostUser != nil {
		l.Version = hostUserLaunchVersion
	}
	if l.Chdir != "" {
		l.Version = chdirLaunchVersion
	}
	data, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode launch of %s: %w", l.Job, err)
	}
	return data, nil
}

// ParseLaunch reads TaskInfo.data. ok reports whether it is LaunchData. It returns an
// error for an unknown version: scheduler and executor must be of compatible releases.
func ParseLaunch(data []byte) (l LaunchData, ok bool, err error) {
	if json.Unmarshal(data, &l) != nil || l.Version == 0 {
		return LaunchData{}, false, nil
	}
	if l.Version < LaunchVersion || l.Version > latestLaunchVersion {
		return LaunchData{}, true, fmt.Errorf("task data is version %d, this executor reads versions %d to %d: install the scheduler's release on the agent",
			l.Version, LaunchVersion, latestLaunchVersion)
	}
	return l, true, nil
}
