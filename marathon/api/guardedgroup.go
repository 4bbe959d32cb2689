package api

import (
	"context"
	"errors"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// Group is a copy without the apps that the requester may not see.
func (g *guarded) Group(ctx context.Context, id string) (*marathon.Group, error) {
	found, err := g.Service.Group(ctx, id)
	if err != nil {
		return nil, err
	}
	return g.seen(ctx, found), nil
}

func (g *guarded) seen(ctx context.Context, group *marathon.Group) *marathon.Group {
	c := *group
	c.Apps, c.Groups = nil, nil
	for _, a := range group.Apps {
		if g.sees(ctx, a) {
			c.Apps = append(c.Apps, a)
		}
	}
	for _, inner := range group.Groups {
		c.Groups = append(c.Groups, g.seen(ctx, inner))
	}
	return &c
}

// PutGroup permits what the apps of the group are and what those it is given
// are to be.
func (g *guarded) PutGroup(ctx context.Context, id string, group *marathon.Group, o GroupOptions) (deploy.Deployment, error) {
	return g.deploys(ctx, onGroup(ctx, id, group), func(s Service) (deploy.Deployment, error) { return s.PutGroup(ctx, id, group, o) })
}

func (g *guarded) RemoveGroup(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return g.deploys(ctx, onGroup(ctx, id, nil), func(s Service) (deploy.Deployment, error) { return s.RemoveGroup(ctx, id, force) })
}

// onGroup permits the change of a group. One without apps may become of any
// role, and so may one that is to be as it was: both need all roles.
func onGroup(ctx context.Context, id string, given *marathon.Group) func(*guarded) error {
	return func(g *guarded) error {
		there, err := g.Service.Group(ctx, id)
		if err != nil && !errors.As(err, new(*deploy.Unknown)) {
			return err
		}
		roles := map[string]bool{}
		for _, group := range []*marathon.Group{there, given} {
			if group == nil {
				continue
			}
			for _, a := range group.Order() {
				roles[a.Role] = true
			}
		}
		if len(roles) == 0 || given != nil && given.Version != "" {
			return g.permit(ctx, true, allRoles)
		}
		for role := range roles {
			if err := g.permit(ctx, true, role); err != nil {
				return err
			}
		}
		return nil
	}
}

// Hear permits the stream of what happens to all apps.
func (g *guarded) Hear(ctx context.Context) error { return g.permit(ctx, false, allRoles) }
