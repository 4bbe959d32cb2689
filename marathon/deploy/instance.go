package deploy

import (
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// AppInstance is a task of an app's job as it was last seen, ended and retired
// ones included: they show that their job is still there.
type AppInstance struct {
	TaskID string
	// Version is the App.VersionInfo.LastConfigChangeAt that its job was made
	// from, and Job the job's name.
	Version string
	Job     string

	State job.State
	// KillRequested, KillReason, Healthy and the rest are the task's.
	KillRequested time.Time
	KillReason    job.KillReason
	Healthy       *bool
	Started       time.Time
	Changed       time.Time
	NotBefore     time.Time
	Hostname      string
	AgentID       string
	// Fields are what constraints compare of its agent, by the names that they
	// have there, nil where nobody has told yet. Nobody changes it.
	Fields map[string]string
	// StartedFor is the version of the app that it was started for, where that
	// is known: scaling makes versions without another configuration.
	StartedFor string
	Ports      []int
	// Addresses are where it is reached, as far as that is known.
	Addresses []IPAddress
	Message   string
	// Ready says that its readiness checks have all succeeded once. Without
	// such checks it does not matter.
	Ready bool
}

// IPAddress is an address of an instance; Protocol is IPv4 or IPv6.
type IPAddress struct {
	IPAddress string `json:"ipAddress"`
	Protocol  string `json:"protocol"`
}

// isLeaving reports whether the instance has ended or will, with none in its
// place.
func (i *AppInstance) isLeaving() bool {
	switch {
	case i.KillReason == job.KillByScaling:
		return true
	case !i.State.IsLive():
		return true
	default:
		return i.isCondemned()
	}
}

// isCondemned instances end with their whole job.
func (i *AppInstance) isCondemned() bool {
	return i.State.IsLive() && !i.KillRequested.IsZero() && i.KillReason == job.KillByUser
}

// constraintValue is what a constraint compares of the instance's agent, "" for nothing.
func (i *AppInstance) constraintValue(field string) string {
	switch {
	case !i.State.IsPlaced():
		return ""
	case field == "hostname" || field == "@hostname":
		return i.Hostname
	default:
		return i.Fields[field]
	}
}

// isHealthy reports whether the instance runs and, where its app has health
// checks, they succeed. Of an app nobody knows it takes the instance's word.
func (i *AppInstance) isHealthy(app *marathon.App) bool {
	switch {
	case i.State != job.Running:
		return false
	case app == nil:
		return i.Healthy == nil || *i.Healthy
	case len(app.HealthChecks) == 0:
		return true
	default:
		return i.Healthy != nil && *i.Healthy
	}
}

func (i *AppInstance) isReady(app *marathon.App) bool {
	return i.isHealthy(app) && (i.Ready || len(app.ReadinessChecks) == 0)
}
