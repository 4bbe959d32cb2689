package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// May says what is in the way of who asks, by the context of the request: of
// seeing the apps of a role or, with change, of changing them. The role "/" is
// all roles.
type May func(ctx context.Context, change bool, role string) error

// allRoles is above each role.
const allRoles = "/"

// Guarded is the service for those who may. It leaves out of lists what they
// may not see; all else that they may not do is a *Problem of status 403.
func Guarded(s Service, may May) Service { return &guarded{s, may} }

type guarded struct {
	Service
	may May
}

// permit makes a Problem of what may not be.
func (g *guarded) permit(ctx context.Context, change bool, role string) error {
	if err := g.may(ctx, change, role); err != nil {
		return problemf(http.StatusForbidden, "%v", err)
	}
	return nil
}

func (g *guarded) sees(ctx context.Context, a *marathon.App) bool {
	return g.may(ctx, false, a.Role) == nil
}

// inTurn does what is permitted: the app, the tasks or whatever permits asks
// about are of the same roles when do is done.
func (g *guarded) inTurn(ctx context.Context, permits func(*guarded) error, do func(Service) error) error {
	return g.Service.Turn(ctx, func(s Service) error {
		if err := permits(&guarded{s, g.may}); err != nil {
			return err
		}
		return do(s)
	})
}

// deploys is inTurn for what comes to a deployment.
func (g *guarded) deploys(ctx context.Context, permits func(*guarded) error, do func(Service) (deploy.Deployment, error)) (d deploy.Deployment, err error) {
	err = g.inTurn(ctx, permits, func(s Service) (err error) {
		d, err = do(s)
		return err
	})
	return d, err
}

// onApp permits what is done to one app. Who does it finds out again whether
// it is there.
func onApp(ctx context.Context, change bool, id string) func(*guarded) error {
	return func(g *guarded) error {
		a, err := g.Service.App(ctx, id)
		if err != nil {
			return err
		}
		return g.permit(ctx, change, a.App.Role)
	}
}

func (g *guarded) Apps(ctx context.Context) ([]App, error) {
	all, err := g.Service.Apps(ctx)
	return slices.DeleteFunc(all, func(a App) bool { return !g.sees(ctx, a.App) }), err
}

func (g *guarded) App(ctx context.Context, id string) (App, error) {
	a, err := g.Service.App(ctx, id)
	if err == nil {
		err = g.permit(ctx, false, a.App.Role)
	}
	if err != nil {
		return App{}, err
	}
	return a, nil
}

func (g *guarded) Versions(ctx context.Context, id string) (list []string, err error) {
	err = g.inTurn(ctx, onApp(ctx, false, id), func(s Service) (err error) {
		list, err = s.Versions(ctx, id)
		return err
	})
	return list, err
}

// Version checks the role that the app had then, too.
func (g *guarded) Version(ctx context.Context, id, version string) (*marathon.App, error) {
	a, err := g.Service.Version(ctx, id, version)
	if err == nil {
		err = g.permit(ctx, false, a.Role)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Update permits both what an app is and what it is to become.
func (g *guarded) Update(ctx context.Context, edit Edit, force bool) (deploy.Deployment, []*marathon.App, error) {
	return g.Service.Update(ctx, func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		apps, err := edit(stored)
		for _, a := range apps {
			if err != nil {
				break
			}
			if old := stored(a.ID); old != nil {
				err = g.permit(ctx, true, old.Role)
			}
			if err == nil {
				err = g.permit(ctx, true, a.Role)
			}
		}
		return apps, err
	}, force)
}

func (g *guarded) Remove(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return g.deploys(ctx, onApp(ctx, true, id), func(s Service) (deploy.Deployment, error) { return s.Remove(ctx, id, force) })
}

func (g *guarded) Restart(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return g.deploys(ctx, onApp(ctx, true, id), func(s Service) (deploy.Deployment, error) { return s.Restart(ctx, id, force) })
}

// onTasks permits the end of tasks. Of those that are no app's nobody knows
// the role.
func onTasks(ctx context.Context, ids []string) func(*guarded) error {
	return func(g *guarded) error {
		apps, err := g.Service.Apps(ctx)
		if err != nil {
			return err
		}
		roles := map[string]string{}
		for _, a := range apps {
			for _, t := range a.Tasks {
				roles[t.ID] = a.App.Role
			}
		}
		return g.permitAll(ctx, true, ids, roles)
	}
}

// permitAll permits what concerns things of those roles; of one without
// nobody knows it.
func (g *guarded) permitAll(ctx context.Context, change bool, ids []string, roles map[string]string) error {
	for _, id := range ids {
		role, known := roles[id]
		if !known {
			role = allRoles
		}
		if err := g.permit(ctx, change, role); err != nil {
			return err
		}
	}
	return nil
}

func (g *guarded) Kill(ctx context.Context, ids []string) error {
	return g.inTurn(ctx, onTasks(ctx, ids), func(s Service) error { return s.Kill(ctx, ids) })
}

func (g *guarded) KillAndScale(ctx context.Context, ids []string, force bool) (deploy.Deployment, error) {
	return g.deploys(ctx, onTasks(ctx, ids), func(s Service) (deploy.Deployment, error) { return s.KillAndScale(ctx, ids, force) })
}

// roles are those of all apps, by their ids.
func (g *guarded) roles(ctx context.Context) (map[string]string, error) {
	apps, err := g.Service.Apps(ctx)
	roles := make(map[string]string, len(apps))
	for _, a := range apps {
		roles[a.App.ID] = a.App.Role
	}
	return roles, err
}

// Deployments are those of which all apps may be seen.
func (g *guarded) Deployments(ctx context.Context) ([]deploy.Deployment, error) {
	roles, err := g.roles(ctx)
	if err != nil {
		return nil, err
	}
	all, err := g.Service.Deployments(ctx)
	return slices.DeleteFunc(all, func(d deploy.Deployment) bool { return g.permitAll(ctx, false, d.Affected(), roles) != nil }), err
}

func (g *guarded) Cancel(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return g.deploys(ctx, onDeployment(ctx, id), func(s Service) (deploy.Deployment, error) { return s.Cancel(ctx, id, force) })
}

// onDeployment permits the end of one, which concerns all of the apps that it
// changes. Of one that is gone nobody knows the role.
func onDeployment(ctx context.Context, id string) func(*guarded) error {
	return func(g *guarded) error {
		roles, err := g.roles(ctx)
		if err != nil {
			return err
		}
		all, err := g.Service.Deployments(ctx)
		if err != nil {
			return err
		}
		for i := range all {
			if all[i].ID == id {
				if err := g.permitAll(ctx, true, all[i].Affected(), roles); err != nil {
					return err
				}
				return g.permitBack(ctx, all[i].From)
			}
		}
		return nil
	}
}

// permitBack permits what a rollback makes of apps: their versions from before
// may be of other roles.
func (g *guarded) permitBack(ctx context.Context, from map[string]string) error {
	for _, id := range slices.Sorted(maps.Keys(from)) {
		if from[id] == "" {
			continue // a new app goes
		}
		role := allRoles
		if app, err := g.Service.Version(ctx, id, from[id]); err == nil {
			role = app.Role
		}
		if err := g.permit(ctx, true, role); err != nil {
			return err
		}
	}
	return nil
}

func (g *guarded) Queue(ctx context.Context) ([]deploy.Queued, error) {
	all, err := g.Service.Queue(ctx)
	return slices.DeleteFunc(all, func(q deploy.Queued) bool { return !g.sees(ctx, q.App) }), err
}

func (g *guarded) ResetDelay(ctx context.Context, id string) error {
	return g.inTurn(ctx, onApp(ctx, true, id), func(s Service) error { return s.ResetDelay(ctx, id) })
}

// Abdicate concerns all.
func (g *guarded) Abdicate(ctx context.Context) error {
	if err := g.permit(ctx, true, allRoles); err != nil {
		return err
	}
	return g.Service.Abdicate(ctx)
}
