package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// Permission is the permission that a request needs on a role. Each one includes the previous ones.
type Permission int

const (
	// See permits reading the public fields of the role's apps, ReadOutput all fields and the messages of their tasks, Change
	// changing them.
	See Permission = iota
	ReadOutput
	Change
	// Administer permits changes of the scheduler itself.
	Administer
)

// AuthorizeFunc returns an error if the user of the request in ctx lacks the permission on the
// role. The role "/" means all roles.
type AuthorizeFunc func(ctx context.Context, p Permission, role string) error

// allRoles means all roles.
const allRoles = "/"

// JobRoleFunc returns the role of a job, false for one that is not known.
type JobRoleFunc func(name string) (role string, known bool)

// WithAuthorization restricts a service to what the user of each request may do. Lists leave
// out what the user may not see, and messages name no other roles' jobs to a user who may not see them.
// Anything else is an *ErrorResponse with status 403.
func WithAuthorization(s AppService, may AuthorizeFunc, roleOf JobRoleFunc) AppService {
	return &authorizedService{s, may, roleOf}
}

type authorizedService struct {
	AppService
	authorize AuthorizeFunc
	roleOf    JobRoleFunc
}

// authorizeRole returns an *ErrorResponse if the user has no permission.
func (svc *authorizedService) authorizeRole(ctx context.Context, p Permission, role string) error {
	if err := svc.authorize(ctx, p, role); err != nil {
		return newProblem(http.StatusForbidden, "%v", err)
	}
	return nil
}

func (svc *authorizedService) canSee(ctx context.Context, a *marathon.App) bool {
	return svc.authorize(ctx, See, a.Role) == nil
}

// runAuthorized checks permits and runs do without a change in between, so that apps and
// tasks have the same roles for both.
func (svc *authorizedService) runAuthorized(ctx context.Context, permits func(*authorizedService) error, do func(AppService) error) error {
	return svc.AppService.RunExclusive(ctx, func(s AppService) error {
		if err := permits(&authorizedService{s, svc.authorize, svc.roleOf}); err != nil {
			return err
		}
		return do(s)
	})
}

// deployAuthorized is runAuthorized for changes that return a deployment.
func (svc *authorizedService) deployAuthorized(
	ctx context.Context, permits func(*authorizedService) error, do func(AppService) (deploy.Deployment, error),
) (d deploy.Deployment, err error) {
	err = svc.runAuthorized(ctx, permits, func(s AppService) (err error) {
		d, err = do(s)
		return err
	})
	return d, err
}

// authorizeApp checks the permission for one app, which must exist.
func authorizeApp(ctx context.Context, p Permission, id string) func(*authorizedService) error {
	return func(g *authorizedService) error {
		a, err := g.AppService.GetApp(ctx, id)
		if err != nil {
			return err
		}
		return g.authorizeRole(ctx, p, a.App.Role)
	}
}

func (svc *authorizedService) ListApps(ctx context.Context) ([]AppStatus, error) {
	all, err := svc.AppService.ListApps(ctx)
	all = slices.DeleteFunc(all, func(a AppStatus) bool { return !svc.canSee(ctx, a.App) })
	for i := range all {
		all[i] = svc.readableStatus(ctx, all[i])
	}
	return all, err
}

func (svc *authorizedService) GetApp(ctx context.Context, id string) (AppStatus, error) {
	a, err := svc.AppService.GetApp(ctx, id)
	if err == nil {
		err = svc.authorizeRole(ctx, See, a.App.Role)
	}
	if err != nil {
		return AppStatus{}, err
	}
	return svc.readableStatus(ctx, a), nil
}

func (svc *authorizedService) ListVersions(ctx context.Context, id string) (list []string, err error) {
	err = svc.runAuthorized(ctx, authorizeApp(ctx, See, id), func(s AppService) (err error) {
		list, err = s.ListVersions(ctx, id)
		return err
	})
	return list, err
}

// GetVersion also checks the role that the app had at that version.
func (svc *authorizedService) GetVersion(ctx context.Context, id, version string) (*marathon.App, error) {
	a, err := svc.AppService.GetVersion(ctx, id, version)
	if err == nil {
		err = svc.authorizeRole(ctx, See, a.Role)
	}
	if err != nil {
		return nil, err
	}
	return svc.readableApp(ctx, a), nil
}

// UpdateApps checks the permissions for the old and the new role of each app.
func (svc *authorizedService) UpdateApps(ctx context.Context, edit EditFunc, force bool) (deploy.Deployment, []*marathon.App, error) {
	return svc.AppService.UpdateApps(ctx, func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		apps, err := edit(stored)
		for _, a := range apps {
			if err != nil {
				break
			}
			if old := stored(a.ID); old != nil {
				err = svc.authorizeRole(ctx, Change, old.Role)
			}
			if err == nil {
				err = svc.authorizeRole(ctx, Change, a.Role)
			}
		}
		return apps, err
	}, force)
}

func (svc *authorizedService) RemoveApp(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return svc.deployAuthorized(ctx, authorizeApp(ctx, Change, id), func(s AppService) (deploy.Deployment, error) { return s.RemoveApp(ctx, id, force) })
}

func (svc *authorizedService) RestartApp(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return svc.deployAuthorized(ctx, authorizeApp(ctx, Change, id), func(s AppService) (deploy.Deployment, error) { return s.RestartApp(ctx, id, force) })
}

// authorizeTasks checks the permissions to end tasks. Tasks of no app need all roles.
func authorizeTasks(ctx context.Context, ids []string) func(*authorizedService) error {
	return func(g *authorizedService) error {
		apps, err := g.AppService.ListApps(ctx)
		if err != nil {
			return err
		}
		roles := map[string]string{}
		for _, a := range apps {
			for _, t := range a.Tasks {
				roles[t.ID] = a.App.Role
			}
		}
		return g.authorizeRoles(ctx, Change, ids, roles)
	}
}

// authorizeRoles checks the permissions for the roles of ids. An id without a known role
// needs all roles.
func (svc *authorizedService) authorizeRoles(ctx context.Context, p Permission, ids []string, roles map[string]string) error {
	for _, id := range ids {
		role, known := roles[id]
		if !known {
			role = allRoles
		}
		if err := svc.authorizeRole(ctx, p, role); err != nil {
			return err
		}
	}
	return nil
}

func (svc *authorizedService) KillTasks(ctx context.Context, ids []string) error {
	return svc.runAuthorized(ctx, authorizeTasks(ctx, ids), func(s AppService) error { return s.KillTasks(ctx, ids) })
}

func (svc *authorizedService) KillAndScale(ctx context.Context, ids []string, force bool) (deploy.Deployment, error) {
	return svc.deployAuthorized(ctx, authorizeTasks(ctx, ids), func(s AppService) (deploy.Deployment, error) { return s.KillAndScale(ctx, ids, force) })
}

// appRoles returns the roles of all apps by id.
func (svc *authorizedService) appRoles(ctx context.Context) (map[string]string, error) {
	apps, err := svc.AppService.ListApps(ctx)
	roles := make(map[string]string, len(apps))
	for _, a := range apps {
		roles[a.App.ID] = a.App.Role
	}
	return roles, err
}

// ListDeployments returns the deployments all of whose apps the user may see.
func (svc *authorizedService) ListDeployments(ctx context.Context) ([]deploy.Deployment, error) {
	roles, err := svc.appRoles(ctx)
	if err != nil {
		return nil, err
	}
	all, err := svc.AppService.ListDeployments(ctx)
	return slices.DeleteFunc(all, func(d deploy.Deployment) bool { return svc.authorizeRoles(ctx, See, d.AffectedApps(), roles) != nil }), err
}

func (svc *authorizedService) CancelDeployment(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return svc.deployAuthorized(ctx, authorizeDeployment(ctx, id), func(s AppService) (deploy.Deployment, error) { return s.CancelDeployment(ctx, id, force) })
}

// authorizeDeployment checks the permissions for all apps that a deployment changes. It
// permits a deployment that does not exist, which the service then reports.
func authorizeDeployment(ctx context.Context, id string) func(*authorizedService) error {
	return func(g *authorizedService) error {
		roles, err := g.appRoles(ctx)
		if err != nil {
			return err
		}
		all, err := g.AppService.ListDeployments(ctx)
		if err != nil {
			return err
		}
		for i := range all {
			if all[i].ID == id {
				if err := g.authorizeRoles(ctx, Change, all[i].AffectedApps(), roles); err != nil {
					return err
				}
				return g.authorizeRollback(ctx, all[i].From)
			}
		}
		return nil
	}
}

// authorizeRollback checks the permissions for the earlier versions of apps, which may have
// other roles.
func (svc *authorizedService) authorizeRollback(ctx context.Context, from map[string]string) error {
	for _, id := range slices.Sorted(maps.Keys(from)) {
		if from[id] == "" {
			continue // the rollback removes a new app
		}
		role := allRoles
		if app, err := svc.AppService.GetVersion(ctx, id, from[id]); err == nil {
			role = app.Role
		}
		if err := svc.authorizeRole(ctx, Change, role); err != nil {
			return err
		}
	}
	return nil
}

func (svc *authorizedService) ListQueue(ctx context.Context) ([]deploy.QueuedApp, error) {
	all, err := svc.AppService.ListQueue(ctx)
	all = slices.DeleteFunc(all, func(q deploy.QueuedApp) bool { return !svc.canSee(ctx, q.App) })
	for i := range all {
		all[i].Message = svc.nameMask(ctx, all[i].App).MaskText(all[i].Message)
		all[i].App = svc.readableApp(ctx, all[i].App)
	}
	return all, err
}

func (svc *authorizedService) ResetDelay(ctx context.Context, id string) error {
	return svc.runAuthorized(ctx, authorizeApp(ctx, Change, id), func(s AppService) error { return s.ResetDelay(ctx, id) })
}

// AbdicateLeadership needs an administrator of all roles.
func (svc *authorizedService) AbdicateLeadership(ctx context.Context) error {
	if err := svc.authorizeRole(ctx, Administer, allRoles); err != nil {
		return err
	}
	return svc.AppService.AbdicateLeadership(ctx)
}
