package api

import (
	"context"
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

// onApp permits what is done to one app. Who does it finds out again whether
// it is there.
func (g *guarded) onApp(ctx context.Context, change bool, id string) error {
	a, err := g.Service.App(ctx, id)
	if err != nil {
		return err
	}
	return g.permit(ctx, change, a.App.Role)
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

func (g *guarded) Versions(ctx context.Context, id string) ([]string, error) {
	if err := g.onApp(ctx, false, id); err != nil {
		return nil, err
	}
	return g.Service.Versions(ctx, id)
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
	if err := g.onApp(ctx, true, id); err != nil {
		return deploy.Deployment{}, err
	}
	return g.Service.Remove(ctx, id, force)
}

func (g *guarded) Restart(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	if err := g.onApp(ctx, true, id); err != nil {
		return deploy.Deployment{}, err
	}
	return g.Service.Restart(ctx, id, force)
}

// onTasks permits the end of tasks. Of those that are no app's nobody knows
// the role.
func (g *guarded) onTasks(ctx context.Context, ids []string) error {
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
	for _, id := range ids {
		role, known := roles[id]
		if !known {
			role = allRoles
		}
		if err := g.permit(ctx, true, role); err != nil {
			return err
		}
	}
	return nil
}

func (g *guarded) Kill(ctx context.Context, ids []string) error {
	if err := g.onTasks(ctx, ids); err != nil {
		return err
	}
	return g.Service.Kill(ctx, ids)
}

func (g *guarded) KillAndScale(ctx context.Context, ids []string, force bool) (deploy.Deployment, error) {
	if err := g.onTasks(ctx, ids); err != nil {
		return deploy.Deployment{}, err
	}
	return g.Service.KillAndScale(ctx, ids, force)
}

// onDeployment permits what concerns all of the apps that it changes. Of one
// that is gone nobody knows the role.
func (g *guarded) onDeployment(ctx context.Context, change bool, d *deploy.Deployment, roles map[string]string) error {
	for _, id := range d.Affected() {
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

// roles are those of all apps, by their ids.
func (g *guarded) roles(ctx context.Context) (map[string]string, error) {
	apps, err := g.Service.Apps(ctx)
	roles := make(map[string]string, len(apps))
	for _, a := range apps {
		roles[a.App.ID] = a.App.Role
	}
	return roles, err
}

func (g *guarded) Deployments(ctx context.Context) ([]deploy.Deployment, error) {
	roles, err := g.roles(ctx)
	if err != nil {
		return nil, err
	}
	all, err := g.Service.Deployments(ctx)
	return slices.DeleteFunc(all, func(d deploy.Deployment) bool { return g.onDeployment(ctx, false, &d, roles) != nil }), err
}

func (g *guarded) Cancel(ctx context.Context, id string, force bool) (d deploy.Deployment, err error) {
	roles, err := g.roles(ctx)
	if err != nil {
		return d, err
	}
	all, err := g.Service.Deployments(ctx)
	if err != nil {
		return d, err
	}
	for i := range all {
		if all[i].ID != id {
			continue
		}
		if err := g.onDeployment(ctx, true, &all[i], roles); err != nil {
			return d, err
		}
	}
	return g.Service.Cancel(ctx, id, force)
}

func (g *guarded) Queue(ctx context.Context) ([]deploy.Queued, error) {
	all, err := g.Service.Queue(ctx)
	return slices.DeleteFunc(all, func(q deploy.Queued) bool { return !g.sees(ctx, q.App) }), err
}

func (g *guarded) ResetDelay(ctx context.Context, id string) error {
	if err := g.onApp(ctx, true, id); err != nil {
		return err
	}
	return g.Service.ResetDelay(ctx, id)
}

// Abdicate concerns all.
func (g *guarded) Abdicate(ctx context.Context) error {
	if err := g.permit(ctx, true, allRoles); err != nil {
		return err
	}
	return g.Service.Abdicate(ctx)
}
