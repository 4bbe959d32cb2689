package deploy

import (
	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// AppInstance is a task of an app's job. Ended and retired tasks are included: they show
// that their job exists.
type AppInstance struct {
	job.Task
	// Version is the configuration (App.VersionInfo.LastConfigChangeAt) that the
	// job was created from.
	Version string
	// Fields are the values of its agent that constraints compare, by field. They
	// are nil if they are not known, and must not be changed.
	Fields map[string]string
	// StartedFor is the version of the app that it was started for, if that is
	// known. Scaling adds versions without a new configuration.
	StartedFor string
	// Addresses are its known IP addresses, with their protocols.
	Addresses []IPAddress
	// Ready is true once all of its readiness checks have succeeded. It is ignored
	// without such checks.
	Ready bool
}

// IPAddress is an address of an instance; Protocol is IPv4 or IPv6.
type IPAddress struct {
	IPAddress string `json:"ipAddress"`
	Protocol  string `json:"protocol"`
}

// isLeaving reports whether the instance has ended or will end without a replacement.
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

// isCondemned reports whether the instance ends because its job was killed.
func (i *AppInstance) isCondemned() bool {
	return i.State.IsLive() && !i.KillRequested.IsZero() && i.KillReason == job.KillByUser
}

// constraintValue returns the value of the agent's field, or "".
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

// isHealthy reports whether the instance runs and its health checks succeed, if its app has
// some. If the app is not known, the last result counts.
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
