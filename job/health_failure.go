package job

import (
	"encoding/json"
	"strings"
)

// HealthFailureLabel is the label of a status update with the HealthFailure that it reports,
// encoded. The mesos-gpu executor sets it.
const HealthFailureLabel = "mesos-gpu.health_failure"

// maxHealthCause bounds Cause, which may contain what a task answered.
const maxHealthCause = 1024

// HealthFailure is a failed attempt of a health check.
type HealthFailure struct {
	// Check is the number of the check among the job's, from 1.
	Check int `json:"check"`
	// Failures counts the failures of this check in a row, this one included.
	Failures int    `json:"failures"`
	Cause    string `json:"cause,omitempty"`
}

// Encode returns the value of HealthFailureLabel.
func (f HealthFailure) Encode() string {
	if len(f.Cause) > maxHealthCause {
		f.Cause = strings.ToValidUTF8(f.Cause[:maxHealthCause], "") + "…"
	}
	text, _ := json.Marshal(f) // numbers and a text
	return string(text)
}

// ParseHealthFailure decodes the value of HealthFailureLabel. It returns nil for a value that
// no executor sets.
func ParseHealthFailure(text string) *HealthFailure {
	var f HealthFailure
	if json.Unmarshal([]byte(text), &f) != nil || f.Check < 1 || f.Failures < 1 || len(f.Cause) > maxHealthCause+len("…") {
		return nil
	}
	return &f
}
