package deploy

import (
	"cmp"
	"maps"
	"slices"

	"mesos-gpu/marathon"
)

// eventPlanOf is a deployment's plan with all groups before and after it. What it
// changed it remembers by versions; the rest is as it is when the first event
// tells of it, which a failover may make later.
func (s *DesiredState) eventPlanOf(d *Deployment) EventPlan {
	if d.eventPlan == nil {
		target, _ := s.Group("/")
		d.eventPlan = &EventPlan{Plan: d.Plan, Original: s.groupsBeforeDeployment(d), Target: target}
	}
	return *d.eventPlan
}

// groupsBeforeDeployment is the root group as a deployment has found it.
func (s *DesiredState) groupsBeforeDeployment(d *Deployment) *marathon.Group {
	apps := slices.DeleteFunc(s.Apps(), func(a *marathon.App) bool {
		_, changed := d.From[a.ID]
		return changed
	})
	for id, from := range d.From {
		if a := s.apps[id]; from != "" && a != nil && a.appAtVersion(from) != nil {
			apps = append(apps, a.appAtVersion(from))
		}
	}
	slices.SortFunc(apps, func(a, b *marathon.App) int { return cmp.Compare(a.ID, b.ID) })
	infos := maps.Clone(s.groups)
	maps.Copy(infos, d.Groups)
	root, _ := groupTree{infos, map[string]*marathon.Group{}}.buildGroup("/", apps)
	return root
}
