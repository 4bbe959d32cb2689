package api

import (
	"context"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// AppService does what requests ask for. Its methods may be called at the same
// time. The lists that they return are the caller's, the apps and groups in them
// are shared and never changed. Errors are *deploy.NotFoundError for what is not
// there, *deploy.LockedError, *marathon.ValidationError or *Problem where the requester is
// to know more than that something broke. A change is recorded when its method
// returns.
type AppService interface {
	// RunExclusive has do run while nothing else changes, so that what it sees still
	// holds for what it does. do asks the Service that it is given, and none
	// outside. An error of do comes back as it is.
	RunExclusive(ctx context.Context, do func(AppService) error) error

	// ParseSettings are what a definition at that id is read with: Role is that of
	// its top group where that enforces one.
	ParseSettings(ctx context.Context, id string) (marathon.ParseSettings, error)

	// ListApps are all, in the order of their ids, with Version and VersionInfo.
	ListApps(ctx context.Context) ([]AppStatus, error)
	GetApp(ctx context.Context, id string) (AppStatus, error)
	// ListVersions are those of an app that are kept, the newest first.
	ListVersions(ctx context.Context, id string) ([]string, error)
	GetVersion(ctx context.Context, id, version string) (*marathon.App, error)
	// UpdateApps has the apps that edit returns deployed, in one deployment.
	// Nothing changes between what edit sees and that. An error of edit comes
	// back as it is. made are the apps as they are wanted then.
	UpdateApps(ctx context.Context, edit EditFunc, force bool) (d deploy.Deployment, made []*marathon.App, err error)
	RemoveApp(ctx context.Context, id string, force bool) (deploy.Deployment, error)
	RestartApp(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// KillTasks ends tasks, which are replaced. Those that have ended are no error.
	KillTasks(ctx context.Context, taskIDs []string) error
	// KillAndScale ends tasks and lowers their apps' instances by as many.
	KillAndScale(ctx context.Context, taskIDs []string, force bool) (deploy.Deployment, error)

	// ListDeployments are those under way.
	ListDeployments(ctx context.Context) ([]deploy.Deployment, error)
	// CancelDeployment returns the deployment that leads back to what was, or, with
	// force, none: what was done stays.
	CancelDeployment(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// GetGroup is the group with all below it. The root is always there.
	GetGroup(ctx context.Context, id string) (*marathon.Group, error)
	// PutGroup makes the group id what g says: its content, or where g is an
	// order (ScaleBy, Version), what that comes to. A list that is nil in g is
	// left as it is. A dry run only returns the deployment.
	PutGroup(ctx context.Context, id string, g *marathon.Group, o GroupOptions) (deploy.Deployment, error)
	RemoveGroup(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// ListQueue lists the apps that have instances to place.
	ListQueue(ctx context.Context) ([]deploy.QueuedApp, error)
	// ResetDelay ends the pause that an app's failures have brought about.
	ResetDelay(ctx context.Context, id string) error

	// LeaderURL is the base URL of the scheduler that leads, empty if none does.
	LeaderURL(ctx context.Context) (string, error)
	// AbdicateLeadership has this scheduler stop leading.
	AbdicateLeadership(ctx context.Context) error
	GetInfo(ctx context.Context) (SchedulerInfo, error)
}

// EditFunc makes apps out of those there are; stored returns nil for an app that
// is not there. It does not change what it sees, and calls no Service.
type EditFunc func(stored func(id string) *marathon.App) ([]*marathon.App, error)

// GroupOptions say how a group is changed.
type GroupOptions struct{ Force, DryRun bool }
