package deploy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"mesos-gpu/marathon"
)

// GroupInfo is the definition of a group without its apps. A group without a definition
// exists as long as it has apps.
type GroupInfo struct {
	Dependencies []string `json:"dependencies,omitempty"`
	EnforceRole  *bool    `json:"enforceRole,omitempty"`
	Version      string   `json:"version,omitempty"`
}

// setGroup sets the definition of a group. nil deletes it.
func (s *DesiredState) setGroup(id string, g *GroupInfo, v string) {
	s.changedDocuments[groupKey+id] = struct{}{}
	if g == nil {
		delete(s.groups, id)
		return
	}
	c := *g
	c.Version = v
	s.groups[id] = &c
}

// groupsBefore returns the current definitions of the groups that change.
func (s *DesiredState) groupsBefore(changed map[string]*GroupInfo) map[string]*GroupInfo {
	if len(changed) == 0 {
		return nil
	}
	before := map[string]*GroupInfo{}
	for id := range changed {
		before[id] = s.groups[id]
	}
	return before
}

// Group returns a group with its apps and subgroups. Its version is the time of
// its last change. The root always exists.
func (s *DesiredState) Group(id string) (*marathon.Group, bool) {
	return groupTree{s.groups, map[string]*marathon.Group{}}.buildGroup(id, s.Apps())
}

// EnforcesRole reports whether a group has a definition that enforces the group's role.
func (s *DesiredState) EnforcesRole(id string) bool {
	g := s.groups[id]
	return g != nil && g.EnforceRole != nil && *g.EnforceRole
}

// groupTree builds nested groups.
type groupTree struct {
	infos  map[string]*GroupInfo
	groups map[string]*marathon.Group
}

// buildGroup builds the group of an id from all apps.
func (t groupTree) buildGroup(id string, apps []*marathon.App) (*marathon.Group, bool) {
	if id == "/" {
		t.ensureGroup(id)
	}
	for _, g := range sortedKeys(t.infos) {
		if t.infos[g] != nil && isWithin(g, id) {
			t.ensureGroup(g)
		}
	}
	for _, a := range apps {
		if parent := marathon.ParentID(a.ID); isWithin(parent, id) {
			g := t.ensureGroup(parent)
			g.Apps = append(g.Apps, a)
		}
	}
	return t.nestGroups(id)
}

// ensureGroup returns a group without its members and creates it if necessary.
func (t groupTree) ensureGroup(id string) *marathon.Group {
	g, ok := t.groups[id]
	if !ok {
		g = &marathon.Group{ID: id, Apps: []*marathon.App{}, Groups: []*marathon.Group{}, Dependencies: []string{}}
		if info := t.infos[id]; info != nil {
			g.EnforceRole, g.Version = info.EnforceRole, info.Version
			g.Dependencies = append(g.Dependencies, info.Dependencies...)
		}
		t.groups[id] = g
	}
	return g
}

// nestGroups adds groups to their parents, up to the group id.
func (t groupTree) nestGroups(id string) (*marathon.Group, bool) {
	made := t.groups
	for _, g := range sortedKeys(made) {
		for at := g; at != id; at = marathon.ParentID(at) {
			t.ensureGroup(marathon.ParentID(at))
		}
	}
	list := sortedKeys(made)
	slices.SortStableFunc(list, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	if i := slices.Index(list, "/"); i >= 0 {
		list = append(slices.Delete(list, i, i+1), "/") // its path has as many slashes as those of its members
	}
	for _, one := range list {
		g := made[one]
		for _, a := range g.Apps {
			g.Version = max(g.Version, a.Version)
		}
		for _, inner := range g.Groups {
			g.Version = max(g.Version, inner.Version)
		}
		if one != id {
			parent := made[marathon.ParentID(one)]
			parent.Groups = append(parent.Groups, g)
		}
	}
	g, ok := made[id]
	return g, ok
}

// PutGroup changes the group id to g, which marathon.ParseGroup has completed. Lists that
// are nil in g do not change. Unless g is a command, its ID must be id. It returns
// *LockedError, *NotFoundError or *marathon.ValidationError.
func (s *DesiredState) PutGroup(now time.Time, id string, g *marathon.Group, o ChangeOptions) (Deployment, error) {
	d := changeDraft{group: id, groups: map[string]*GroupInfo{}}
	switch {
	case g.ScaleBy != nil:
		if err := s.draftScaling(&d, id, *g.ScaleBy); err != nil {
			return Deployment{}, err
		}
	case g.Version != "":
		if err := s.draftRollback(&d, id, g.Version); err != nil {
			return Deployment{}, err
		}
	case g.ID != id:
		return Deployment{}, invalidAt("/id", "it is %s, and the group to change is %s", g.ID, id)
	default:
		if err := s.checkEnforceRole("", id, g, changesApps(g)); err != nil {
			return Deployment{}, err
		}
		s.draftGroup(&d, id, g)
	}
	return s.startDeployment(now, d, o)
}

// changesApps reports whether a change of the group contains a list of apps.
func changesApps(g *marathon.Group) bool {
	return g.Apps != nil || slices.ContainsFunc(g.Groups, changesApps)
}

// checkEnforceRole rejects a change of enforceRole together with apps, as Marathon does: the
// roles of the apps depend on it. path is the path of the group in the change.
func (s *DesiredState) checkEnforceRole(path, id string, g *marathon.Group, changesApps bool) error {
	if g.EnforceRole != nil && changesApps && *g.EnforceRole != s.EnforcesRole(id) {
		if _, ok := s.Group(id); ok {
			return invalidAt(path+"/enforceRole", "it cannot change together with apps, whose roles depend on it: change it by a request of its own")
		}
	}
	for i, inner := range g.Groups {
		if err := s.checkEnforceRole(fmt.Sprintf("%s/groups(%d)", path, i), inner.ID, inner, changesApps); err != nil {
			return err
		}
	}
	return nil
}

// RemoveGroup removes a group with its apps and subgroups. It returns *NotFoundError or
// *LockedError.
func (s *DesiredState) RemoveGroup(now time.Time, id string, o ChangeOptions) (Deployment, error) {
	if _, ok := s.Group(id); !ok {
		return Deployment{}, &NotFoundError{"group", id}
	}
	d := changeDraft{group: id, groups: map[string]*GroupInfo{}}
	s.draftRemoval(&d, id)
	return s.startDeployment(now, d, o)
}

func (s *DesiredState) draftGroup(d *changeDraft, id string, g *marathon.Group) {
	info := &GroupInfo{Dependencies: g.Dependencies, EnforceRole: g.EnforceRole}
	if old := s.groups[id]; old != nil {
		if g.Dependencies == nil {
			info.Dependencies = old.Dependencies
		}
		if g.EnforceRole == nil {
			info.EnforceRole = old.EnforceRole
		}
	}
	d.groups[id] = info
	keep := map[string]bool{}
	for _, a := range g.Apps {
		keep[a.ID] = true
		d.putApp(a)
	}
	for _, inner := range g.Groups {
		keep[inner.ID] = true
		s.draftGroup(d, inner.ID, inner)
	}
	for one := range s.apps {
		if child, direct := childOf(one, id); child != "" && !keep[child] && (direct && g.Apps != nil || !direct && g.Groups != nil) {
			d.removeApp(one)
		}
	}
	for one := range s.groups {
		if child, _ := childOf(one, id); child != "" && !keep[child] && g.Groups != nil {
			d.groups[one] = nil
		}
	}
}

// childOf returns the direct member of the group that is the id or contains it.
func childOf(id, group string) (child string, direct bool) {
	if !isWithin(id, group) || id == group {
		return "", false
	}
	prefix := strings.TrimSuffix(group, "/") + "/"
	first, _, deeper := strings.Cut(strings.TrimPrefix(id, prefix), "/")
	return prefix + first, !deeper
}

func (s *DesiredState) draftRemoval(d *changeDraft, id string) {
	for _, a := range s.Apps() {
		if isWithin(a.ID, id) {
			d.removeApp(a.ID)
		}
	}
	for g := range s.groups {
		if isWithin(g, id) {
			d.groups[g] = nil
		}
	}
}

// draftScaling multiplies the instances of a group's apps.
func (s *DesiredState) draftScaling(d *changeDraft, id string, factor float64) error {
	if _, ok := s.Group(id); !ok {
		return &NotFoundError{"group", id}
	}
	for _, a := range s.Apps() {
		if isWithin(a.ID, id) {
			c := *a
			n := math.Ceil(float64(a.Instances) * factor)
			if !(n <= math.MaxInt32) {
				return invalidAt("/scaleBy", "%g times the %d instances of %s are too many", factor, a.Instances, a.ID)
			}
			c.Instances = int(n)
			d.putApp(&c)
		}
	}
	return nil
}

// draftRollback drafts the apps of a group as they were at a version. Apps that are newer
// are removed. Apps that were removed since then are not restored.
func (s *DesiredState) draftRollback(d *changeDraft, id, v string) error {
	text := v
	v, ok := ParseVersion(text)
	if !ok {
		return invalidAt("/version", "%q is no version: write it as /v2/groups/ID/versions does", text)
	}
	if _, ok := s.Group(id); !ok {
		return &NotFoundError{"group", id}
	}
	found := false
	for _, a := range s.Apps() {
		if !isWithin(a.ID, id) {
			continue
		}
		old := s.apps[a.ID].versionAsOf(v)
		if old == nil {
			d.removeApp(a.ID)
			continue
		}
		found = true
		d.putApp(old)
	}
	if !found {
		return &NotFoundError{"version of group " + id, v}
	}
	return nil
}

func (a *appRecord) versionAsOf(v string) *marathon.App {
	for _, one := range slices.Backward(a.versions) {
		if one.app.Version <= v {
			return one.app
		}
	}
	return nil
}
