package deploy

import (
	"cmp"
	"maps"
	"slices"

	"mesos-gpu/marathon"
)

// eventPlanOf returns a deployment's plan with all groups before and after it. The versions
// in the deployment define what it changes. The rest is as it is at the first event, which
// may follow a failover.
func (s *DesiredState) eventPlanOf(d *Deployment) EventPlan {
	if d.eventPlan == nil {
		target, _ := s.Group("/")
		d.eventPlan = &EventPlan{Plan: d.Plan, Original: s.groupsBeforeDeployment(d), Target: target}
	}
	return *d.eventPlan
}

// groupsBeforeDeployment returns the root group as it was before a deployment.
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
