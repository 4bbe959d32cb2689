package deploy

import "mesos-gpu/marathon"

// Action is what is to be done to one app: Stop, Kill, Submit or Scale. All
// may be done again without harm. The actions of one app are done in order;
// after one that fails the rest of them are left, and Step is told of the app
// once more.
type Action interface{ appID() string }

// Submit starts the job of App.VersionInfo.LastConfigChangeAt with
// App.Instances tasks, which may be fewer than the app wants. Where the job is
// there already nothing is to be done.
type Submit struct{ App *marathon.App }

// Scale has the job of the app's Version run so many tasks, which is never
// less than it does once the Stop before it is done.
type Scale struct {
	AppID, Version string
	Instances      int
}

// Stop retires instances: they end, and their jobs start none in their places.
type Stop struct {
	AppID   string
	TaskIDs []string
}

// Kill ends the job of the app's Version for good.
type Kill struct{ AppID, Version string }

func (a Submit) appID() string { return a.App.ID }
func (a Scale) appID() string  { return a.AppID }
func (a Stop) appID() string   { return a.AppID }
func (a Kill) appID() string   { return a.AppID }
