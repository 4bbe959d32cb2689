package deploy

import (
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// Instance is a task of an app's job as it was last seen, ended and retired
// ones included: they show that their job is still there.
type Instance struct {
	TaskID string
	// Version is the App.VersionInfo.LastConfigChangeAt that its job was made
	// from, and Job the job's name.
	Version string
	Job     string

	State job.State
	// KillWanted, KillReason, Healthy and the rest are the task's.
	KillWanted time.Time
	KillReason job.KillReason
	Healthy    *bool
	Started    time.Time
	Changed    time.Time
	NotBefore  time.Time
	Hostname   string
	AgentID    string
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

// leaving reports whether the instance has ended or will, with none in its
// place.
func (i *Instance) leaving() bool {
	switch {
	case i.KillReason == job.ByScale:
		return true
	case !i.State.Live():
		return true
	default:
		return i.condemned()
	}
}

// condemned instances end with their whole job.
func (i *Instance) condemned() bool {
	return i.State.Live() && !i.KillWanted.IsZero() && i.KillReason == job.ByPerson
}

// value is what a constraint compares of the instance's agent, "" for nothing.
func (i *Instance) value(field string) string {
	switch {
	case !i.State.Placed():
		return ""
	case field == "hostname" || field == "@hostname":
		return i.Hostname
	default:
		return i.Fields[field]
	}
}

// healthy reports whether the instance runs and, where its app has health
// checks, they succeed. Of an app nobody knows it takes the instance's word.
func (i *Instance) healthy(app *marathon.App) bool {
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

func (i *Instance) ready(app *marathon.App) bool {
	return i.healthy(app) && (i.Ready || len(app.ReadinessChecks) == 0)
}
