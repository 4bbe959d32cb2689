package api

import (
	"context"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// Service does what requests ask for. Its methods may be called at the same
// time. The lists that they return are the caller's, the apps and groups in them
// are shared and never changed. Errors are *deploy.Unknown for what is not
// there, *deploy.Locked, *marathon.Invalid or *Problem where the requester is
// to know more than that something broke. A change is recorded when its method
// returns.
type Service interface {
	// Turn has do run while nothing else changes, so that what it sees still
	// holds for what it does. do asks the Service that it is given, and none
	// outside. An error of do comes back as it is.
	Turn(ctx context.Context, do func(Service) error) error

	// Settings are what a definition at that id is read with: Role is that of
	// its top group where that enforces one.
	Settings(ctx context.Context, id string) (marathon.Settings, error)

	// Apps are all, in the order of their ids, with Version and VersionInfo.
	Apps(ctx context.Context) ([]App, error)
	App(ctx context.Context, id string) (App, error)
	// Versions are those of an app that are kept, the newest first.
	Versions(ctx context.Context, id string) ([]string, error)
	Version(ctx context.Context, id, version string) (*marathon.App, error)
	// Update has the apps that edit returns deployed, in one deployment.
	// Nothing changes between what edit sees and that. An error of edit comes
	// back as it is. made are the apps as they are wanted then.
	Update(ctx context.Context, edit Edit, force bool) (d deploy.Deployment, made []*marathon.App, err error)
	Remove(ctx context.Context, id string, force bool) (deploy.Deployment, error)
	Restart(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// Kill ends tasks, which are replaced. Those that have ended are no error.
	Kill(ctx context.Context, taskIDs []string) error
	// KillAndScale ends tasks and lowers their apps' instances by as many.
	KillAndScale(ctx context.Context, taskIDs []string, force bool) (deploy.Deployment, error)

	// Deployments are those under way.
	Deployments(ctx context.Context) ([]deploy.Deployment, error)
	// Cancel returns the deployment that leads back to what was, or, with
	// force, none: what was done stays.
	Cancel(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// Group is the group with all below it. The root is always there.
	Group(ctx context.Context, id string) (*marathon.Group, error)
	// PutGroup makes the group id what g says: its content, or where g is an
	// order (ScaleBy, Version), what that comes to. A list that is nil in g is
	// left as it is. A dry run only returns the deployment.
	PutGroup(ctx context.Context, id string, g *marathon.Group, o GroupOptions) (deploy.Deployment, error)
	RemoveGroup(ctx context.Context, id string, force bool) (deploy.Deployment, error)

	// Queue lists the apps that have instances to place.
	Queue(ctx context.Context) ([]deploy.Queued, error)
	// ResetDelay ends the pause that an app's failures have brought about.
	ResetDelay(ctx context.Context, id string) error

	// Leader is the base URL of the scheduler that leads, empty if none does.
	Leader(ctx context.Context) (string, error)
	// Abdicate has this scheduler stop leading.
	Abdicate(ctx context.Context) error
	Info(ctx context.Context) (Info, error)
}

// Edit makes apps out of those there are; stored returns nil for an app that
// is not there. It does not change what it sees, and calls no Service.
type Edit func(stored func(id string) *marathon.App) ([]*marathon.App, error)

// GroupOptions say how a group is changed.
type GroupOptions struct{ Force, DryRun bool }
