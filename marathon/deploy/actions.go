package deploy

import "mesos-gpu/marathon"

// Action is a change to one app: StopInstances, KillJob, SubmitJob or ScaleJob. Actions may
// be repeated. Those of one app are executed in order. After one that fails the rest is
// dropped, and the caller reports the app to Step again.
type Action interface {
	// TargetApp returns the id of the app.
	TargetApp() string
}

// SubmitJob starts the job of the configuration App.VersionInfo.LastConfigChangeAt with App.Instances tasks, which
// may be fewer than the app's desired number. It has no effect if the job exists.
type SubmitJob struct{ App *marathon.App }

// ScaleJob sets the number of tasks of the job of the app's Version. The number is never
// below that of its tasks once the StopInstances before it is done.
type ScaleJob struct {
	AppID, Version string
	Instances      int
	By             string // the user of the deployment, "" if it is unknown or if there is none
}

// StopInstances retires instances: they end, and their jobs do not replace them.
type StopInstances struct {
	AppID   string
	TaskIDs []string
	By      string // as of ScaleJob
}

// KillJob ends the job of the app's Version.
type KillJob struct {
	AppID, Version string
	By             string // as of ScaleJob
}

func (j SubmitJob) TargetApp() string     { return j.App.ID }
func (a ScaleJob) TargetApp() string      { return a.AppID }
func (a StopInstances) TargetApp() string { return a.AppID }
func (j KillJob) TargetApp() string       { return j.AppID }
