package job

import (
	"encoding/json"
	"fmt"
	"time"
)

// LaunchVersion is the version of the Launch wire format.
const LaunchVersion = 1

// Launch is what the framework tells the executor about one task. It travels
// as JSON in TaskInfo.data: Mesos allows no CommandInfo beside a custom
// executor.
type Launch struct {
	Version       int               `json:"version"`
	Job           string            `json:"job"`
	Index         int               `json:"index"`
	Containerizer Containerizer     `json:"containerizer"`
	Image         string            `json:"image,omitempty"`
	Command       []string          `json:"command,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	CPUs          float64           `json:"cpus"`
	MemMiB        float64           `json:"mem_mib"`
	GPUs          int               `json:"gpus"`
	DeviceIDs     []string          `json:"device_ids,omitempty"`
	KillGrace     time.Duration     `json:"kill_grace"`
}

// LaunchOf describes task t of a job with that spec.
func LaunchOf(s *Spec, t *Task) Launch {
	return Launch{
		Version: LaunchVersion, Job: s.Name, Index: t.Index,
		Containerizer: s.Containerizer, Image: s.Image, Command: s.Command, Env: s.Env,
		CPUs: s.CPUs, MemMiB: s.MemMiB, GPUs: s.Request.GPUs, DeviceIDs: t.DeviceIDs, KillGrace: s.KillGrace,
	}
}

// ParseLaunch reads TaskInfo.data. It refuses a version this executor does
// not know: scheduler and executor must come from compatible releases.
func ParseLaunch(data []byte) (Launch, error) {
	var l Launch
	if err := json.Unmarshal(data, &l); err != nil {
		return Launch{}, fmt.Errorf("parse task data: %w", err)
	}
	if l.Version != LaunchVersion {
		return Launch{}, fmt.Errorf("task data is version %d, this executor reads version %d: install the scheduler's release on the agent", l.Version, LaunchVersion)
	}
	return l, nil
}
