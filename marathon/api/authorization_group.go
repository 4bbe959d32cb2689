package api

import (
	"context"
	"errors"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// GetGroup returns a copy without the apps that the user may not see, and with the fields of the others that the user may read.
func (svc *authorizedService) GetGroup(ctx context.Context, id string) (*marathon.Group, error) {
	found, err := svc.AppService.GetGroup(ctx, id)
	if err != nil {
		return nil, err
	}
	return svc.visibleGroup(ctx, found), nil
}

func (svc *authorizedService) visibleGroup(ctx context.Context, group *marathon.Group) *marathon.Group {
	c := *group
	c.Apps, c.Groups = nil, nil
	for _, a := range group.Apps {
		if svc.canSee(ctx, a) {
			c.Apps = append(c.Apps, svc.readableApp(ctx, a))
		}
	}
	for _, inner := range group.Groups {
		c.Groups = append(c.Groups, svc.visibleGroup(ctx, inner))
	}
	return &c
}

// PutGroup checks the permissions for the group's current and new apps.
func (svc *authorizedService) PutGroup(ctx context.Context, id string, group *marathon.Group, o GroupOptions) (deploy.Deployment, error) {
	return svc.deployAuthorized(ctx, authorizeGroup(ctx, id, group), func(s AppService) (deploy.Deployment, error) { return s.PutGroup(ctx, id, group, o) })
}

func (svc *authorizedService) RemoveGroup(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return svc.deployAuthorized(ctx, authorizeGroup(ctx, id, nil), func(s AppService) (deploy.Deployment, error) { return s.RemoveGroup(ctx, id, force) })
}

// authorizeGroup checks the permissions to change a group. A group without apps, and a
// rollback to a version, may lead to apps of any role and need all roles.
func authorizeGroup(ctx context.Context, id string, given *marathon.Group) func(*authorizedService) error {
	return func(g *authorizedService) error {
		there, err := g.AppService.GetGroup(ctx, id)
		if err != nil && !errors.As(err, new(*deploy.NotFoundError)) {
			return err
		}
		roles := map[string]bool{}
		for _, group := range []*marathon.Group{there, given} {
			if group == nil {
				continue
			}
			for _, a := range group.OrderedApps() {
				roles[a.Role] = true
			}
		}
		if len(roles) == 0 || given != nil && given.Version != "" {
			return g.authorizeRole(ctx, Change, allRoles)
		}
		for role := range roles {
			if err := g.authorizeRole(ctx, Change, role); err != nil {
				return err
			}
		}
		return nil
	}
}

// AuthorizeEvents requires all roles: the stream contains the events of all apps.
func (svc *authorizedService) AuthorizeEvents(ctx context.Context) error {
	return svc.authorizeRole(ctx, See, allRoles)
}

// ReadsPublicEvents reports whether the user's stream has only the public fields of events.
func (svc *authorizedService) ReadsPublicEvents(ctx context.Context) bool {
	return svc.authorize(ctx, ReadOutput, allRoles) != nil
}
