package api

import (
	"context"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// AppService executes the requests of the API. Its methods may be called concurrently. The
// caller may change the lists that they return, but not the apps and groups in them. Errors
// with a meaning for the client are *deploy.NotFoundError, *deploy.LockedError,
// *marathon.ValidationError and *ErrorResponse. Changes are recorded when a method returns.
type AppService interface {
	// RunExclusive runs do without other changes in between, so that what do reads
	// stays true until it changes something. do uses only the AppService that it is
	// given. RunExclusive returns the error of do.
	RunExclusive(ctx context.Context, do func(AppService) error) error

	// ParseSettings returns the settings for a definition with that id. Role is
	// that of its top group, if the group enforces its role.
	ParseSettings(ctx context.Context, id string) (marathon.ParseSettings, error)

	// ListApps returns all apps, sorted by id, with Version and VersionInfo.
	ListApps(ctx context.Context) ([]AppStatus, error)
	GetApp(ctx context.Context, id string) (AppStatus, error)
	// ListVersions returns the versions that are kept of an app, the newest first.
	ListVersions(ctx context.Context, id string) ([]string, error)
	GetVersion(ctx context.Context, id, version string) (*marathon.App, error)
	// UpdateApps deploys the apps that edit returns, in one deployment and without
	// other changes since edit was called. It returns the error of edit, or the
	// apps with their new versions.
	UpdateApps(ctx context.Context, edit EditFunc, force bool) (d deploy.Deployment, made []*marathon.App, err error)
	RemoveApp(ctx context.Context, id string, force bool) (deploy.Deployment, error)
	RestartApp(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// KillTasks ends tasks, which are replaced. It ignores tasks that have ended.
	KillTasks(ctx context.Context, taskIDs []string) error
	// KillAndScale ends tasks and scales their apps down by as many.
	KillAndScale(ctx context.Context, taskIDs []string, force bool) (deploy.Deployment, error)

	// ListDeployments returns the current deployments.
	ListDeployments(ctx context.Context) ([]deploy.Deployment, error)
	// CancelDeployment returns the deployment that rolls the changes back. With
	// force it keeps the changes and returns no deployment.
	CancelDeployment(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// GetGroup returns the group with its apps and subgroups. The root always
	// exists.
	GetGroup(ctx context.Context, id string) (*marathon.Group, error)
	// PutGroup changes the group id to g or, if g is a command (ScaleBy, Version),
	// executes it. A list that is nil in g does not change. A dry run returns the
	// deployment and changes nothing.
	PutGroup(ctx context.Context, id string, g *marathon.Group, o GroupOptions) (deploy.Deployment, error)
	RemoveGroup(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// ListQueue returns the apps with instances that wait to be placed.
	ListQueue(ctx context.Context) ([]deploy.QueuedApp, error)
	// ResetDelay ends the backoff of an app's instances.
	ResetDelay(ctx context.Context, id string) error

	// LeaderURL returns the base URL of the leader, or "" without a leader.
	LeaderURL(ctx context.Context) (string, error)
	// AbdicateLeadership makes this scheduler give up its leadership.
	AbdicateLeadership(ctx context.Context) error
	GetInfo(ctx context.Context) (SchedulerInfo, error)
}

// EditFunc returns new definitions of apps. stored returns the current definition, or nil.
// An EditFunc must not change stored definitions or call an AppService.
type EditFunc func(stored func(id string) *marathon.App) ([]*marathon.App, error)

// GroupOptions are options of PutGroup.
type GroupOptions struct{ Force, DryRun bool }
