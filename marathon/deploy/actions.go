package deploy

import "mesos-gpu/marathon"

// Action is what is to be done to one app: Stop, Kill, Submit or Scale. All
// may be done again without harm. The actions of one app are done in order;
// after one that fails the rest of them are left, and Step is told of the app
// once more.
type Action interface{ appID() string }

// SubmitJob starts the job of App.VersionInfo.LastConfigChangeAt with
// App.Instances tasks, which may be fewer than the app wants. Where the job is
// there already nothing is to be done.
type SubmitJob struct{ App *marathon.App }

// ScaleJob has the job of the app's Version run so many tasks, which is never
// less than it does once the Stop before it is done.
type ScaleJob struct {
	AppID, Version string
	Instances      int
}

// StopInstances retires instances: they end, and their jobs start none in their places.
type StopInstances struct {
	AppID   string
	TaskIDs []string
}

// KillJob ends the job of the app's Version for good.
type KillJob struct{ AppID, Version string }

func (a SubmitJob) appID() string     { return a.App.ID }
func (a ScaleJob) appID() string      { return a.AppID }
func (a StopInstances) appID() string { return a.AppID }
func (a KillJob) appID() string       { return a.AppID }
