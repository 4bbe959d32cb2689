package deploy

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/marathon"
)

// ChangeOptions are options of a change.
type ChangeOptions struct {
	// Force cancels the deployments that change the same apps.
	Force bool
	// By is the user who requests the change, "" if it is unknown.
	By string
}

// PutApps creates or changes apps, which marathon.ParseApp has completed, in one
// deployment. It returns *LockedError, or *marathon.ValidationError if the apps contradict
// other apps or groups.
func (s *DesiredState) PutApps(now time.Time, apps []*marathon.App, o ChangeOptions) (Deployment, error) {
	d := changeDraft{group: "/"}
	for _, a := range apps {
		d.putApp(a)
	}
	if len(apps) == 1 {
		d.group = marathon.ParentID(apps[0].ID)
	}
	return s.startDeployment(now, d, o)
}

// RemoveApps removes apps. It returns *NotFoundError or *LockedError.
func (s *DesiredState) RemoveApps(now time.Time, ids []string, o ChangeOptions) (Deployment, error) {
	d := changeDraft{group: "/"}
	for _, id := range ids {
		if _, ok := s.App(id); !ok {
			return Deployment{}, &NotFoundError{"app", id}
		}
		d.removeApp(id)
	}
	if len(ids) == 1 {
		d.group = marathon.ParentID(ids[0])
	}
	return s.startDeployment(now, d, o)
}

// RestartApps replaces all instances of apps, as a change of their definition would. It
// returns *NotFoundError or *LockedError.
func (s *DesiredState) RestartApps(now time.Time, ids []string, o ChangeOptions) (Deployment, error) {
	d := changeDraft{group: "/", restart: true}
	for _, id := range ids {
		a, ok := s.App(id)
		if !ok {
			return Deployment{}, &NotFoundError{"app", id}
		}
		d.putApp(a)
	}
	return s.startDeployment(now, d, o)
}

// RetireInstances ends instances and scales their apps down by as many. It returns *NotFoundError or *LockedError.
func (s *DesiredState) RetireInstances(now time.Time, taskIDs []string, o ChangeOptions) (Deployment, error) {
	owner := map[string]string{}
	for _, a := range s.Apps() {
		for _, i := range s.instancesOf(a.ID) {
			if !i.isLeaving() {
				owner[i.ID] = a.ID
			}
		}
	}
	d := changeDraft{group: "/", kill: map[string][]string{}}
	for _, task := range taskIDs {
		id, ok := owner[task]
		if !ok {
			return Deployment{}, &NotFoundError{"instance", task}
		}
		if !slices.Contains(d.kill[id], task) {
			d.kill[id] = append(d.kill[id], task)
		}
	}
	for _, id := range sortedKeys(d.kill) {
		smaller := *s.apps[id].currentApp()
		smaller.Instances = max(0, smaller.Instances-len(d.kill[id]))
		d.putApp(&smaller)
	}
	return s.startDeployment(now, d, o)
}

// CancelDeployment ends a deployment and rolls its changes back by another deployment,
// which it returns. With force it leaves everything as it is. It returns *NotFoundError.
func (s *DesiredState) CancelDeployment(now time.Time, id string, o ChangeOptions) (Deployment, error) {
	old := s.deploymentByID(id)
	if old == nil {
		return Deployment{}, &NotFoundError{"deployment", id}
	}
	back := changeDraft{group: "/", groups: old.Groups, configs: map[string]string{}}
	for _, id := range old.AffectedApps() {
		from := old.From[id]
		if from == "" {
			back.removeApp(id)
			continue
		}
		a := s.apps[id].appAtVersion(from)
		back.configs[id] = a.VersionInfo.LastConfigChangeAt
		back.putApp(a)
	}
	if o.Force {
		s.failDeployment(old, "it was cancelled")
		return Deployment{}, nil
	}
	return s.startDeployment(now, back, ChangeOptions{Force: true, By: o.By})
}

// changeDraft is a change that has not been checked.
type changeDraft struct {
	// apps are the new definitions in order. A removed app has a nil definition.
	apps []draftApp
	// groups are the new groups. A removed group is nil.
	groups map[string]*GroupInfo
	// group is the group that the event of the change names.
	group   string
	restart bool
	kill    map[string][]string
	// configs are the configurations that a rollback returns to, by app.
	configs map[string]string
}

type draftApp struct {
	id  string
	app *marathon.App
}

func (d *changeDraft) putApp(a *marathon.App) { d.apps = append(d.apps, draftApp{a.ID, a}) }
func (d *changeDraft) removeApp(id string)    { d.apps = append(d.apps, draftApp{id, nil}) }

// startDeployment checks a draft and starts its deployment.
func (s *DesiredState) startDeployment(now time.Time, d changeDraft, o ChangeOptions) (Deployment, error) {
	v := s.nextVersion(now)
	for id := range d.groups {
		if err := checkIDLength(id); err != nil {
			return Deployment{}, err
		}
	}
	next, err := s.resolveDraft(d, v)
	if err != nil {
		return Deployment{}, err
	}
	world := s.buildTarget(next, d.groups)
	if err := world.checkTarget(); err != nil {
		return Deployment{}, err
	}
	if err := s.checkDocumentSizes(d, next); err != nil {
		return Deployment{}, err
	}
	conflicts := s.conflictingDeployments(next)
	if len(conflicts) > 0 && !o.Force {
		return Deployment{}, &LockedError{conflicts}
	}
	dep := &Deployment{Plan: Plan{ID: deploymentID(v), Version: v, Steps: world.planSteps(next)}, From: map[string]string{}, Kill: d.kill, By: o.By}
	for _, n := range next {
		dep.From[n.id] = n.from
	}
	dep.Groups = s.groupsBefore(d.groups)
	if n := len(mustMarshal(dep)); n > maxDocument {
		return Deployment{}, invalidAt("/", "a deployment of %d apps has %d bytes, more than %d: change fewer at once", len(next), n, maxDocument)
	}
	s.commitDraft(dep, next, d)
	for _, id := range conflicts {
		s.failDeployment(s.deploymentByID(id), "it was cancelled for "+dep.ID)
	}
	return *dep, nil
}

// documentMargin is the space of a document for more than the definitions.
const documentMargin = 64 << 10

// checkDocumentSizes rejects changes whose documents would be too large.
func (s *DesiredState) checkDocumentSizes(d changeDraft, next []appTransition) error {
	for _, id := range sortedKeys(d.groups) {
		if n := len(mustMarshal(d.groups[id])); n > maxApp {
			return invalidAt("/", "group %s has %d bytes, more than %d: make it smaller", id, n, maxApp)
		}
	}
	for _, t := range next {
		a := s.apps[t.id]
		if a == nil || t.removed {
			continue
		}
		kept, instances := len(t.to.text), s.instancesOf(t.id)
		for i, v := range a.versions {
			if i == len(a.versions)-1 || a.hasInstances(v.app, instances) { // the last one may be needed for a rollback
				kept += len(v.text)
			}
		}
		if kept > maxDocument-documentMargin {
			return invalidAt("/",
				"app %s has instances of so many versions that %d bytes are to be kept, more than %d: wait for its deployment",
				t.id, kept, maxDocument-documentMargin)
		}
	}
	return nil
}

// appTransition is the change of one app.
type appTransition struct {
	id, from string // from is the version before, "" for a new app
	change   changeKind
	to       appVersion // unset if the app is removed
	removed  bool
}

// resolveDraft returns the changes of a draft, sorted by id.
func (s *DesiredState) resolveDraft(d changeDraft, v string) ([]appTransition, error) {
	var list []appTransition
	seen := map[string]bool{}
	ports := portAllotment{state: s, draft: d.apps}
	for _, w := range d.apps {
		if seen[w.id] {
			return nil, invalidAt("/", "%s is given twice", w.id)
		}
		seen[w.id] = true
		t, err := s.planTransition(w, d, v, &ports)
		if err != nil {
			return nil, err
		}
		if t.change != unchanged || t.removed {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b appTransition) int { return strings.Compare(a.id, b.id) })
	return list, nil
}

// planTransition compares the app with its current definition after keepPorts. An app that
// does not change otherwise, for example one of an earlier release that is scaled, gets no new
// service ports, because that would replace its instances.
func (s *DesiredState) planTransition(w draftApp, d changeDraft, v string, ports *portAllotment) (appTransition, error) {
	t := appTransition{id: w.id}
	old := s.apps[w.id]
	if old != nil && old.isKnown() {
		t.from = old.currentApp().Version
	}
	if w.app == nil {
		t.removed = t.from != ""
		return t, nil
	}
	if err := checkIDLength(w.id); err != nil {
		return t, err
	}
	back, isRollback := d.configs[w.id]
	if !isRollback {
		w.app = ports.keepPorts(w.app, old)
	}
	var err error
	if t.change, err = classifyChange(old, w.app); err != nil {
		return t, err
	}
	config := v
	switch {
	case isRollback:
		config = back
		if t.from != "" && old.currentApp().VersionInfo.LastConfigChangeAt != back {
			t.change = reconfigured
		}
	case t.change == created:
	case d.restart:
		t.change = reconfigured
	case t.change != reconfigured:
		config = old.currentApp().VersionInfo.LastConfigChangeAt
	}
	if t.change == unchanged && len(d.kill[w.id]) > 0 {
		t.change = scaled
	}
	if !isRollback && config == v {
		if w.app, err = ports.fillPorts(w.app); err != nil {
			return t, err
		}
	}
	t.to = newVersion(w.app, v, config)
	return t, nil
}

// maxKey bounds the length of document keys.
const maxKey = 512

func checkIDLength(id string) error {
	if most := maxKey - len(groupKey); len(id) > most {
		return invalidAt("/id", "%s has %d characters, more than %d", id, len(id), most)
	}
	return nil
}

// conflictingDeployments returns the current deployments that change the same apps, the
// oldest first.
func (s *DesiredState) conflictingDeployments(next []appTransition) []string {
	hit := map[*Deployment]bool{}
	for _, t := range next {
		if a := s.apps[t.id]; a != nil && a.deployment != nil {
			hit[a.deployment] = true
		}
	}
	var ids []string
	for _, d := range s.deployments {
		if hit[d] {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// commitDraft makes a checked change the desired state.
func (s *DesiredState) commitDraft(dep *Deployment, next []appTransition, d changeDraft) {
	for _, t := range next {
		a := s.ensureApp(t.id)
		a.removing = t.removed
		if !t.removed {
			a.versions = append(a.versions, t.to)
		}
		a.deployment = dep
		a.trimVersions(s.instancesOf(t.id))
		s.markChanged(t.id)
	}
	for id, g := range d.groups {
		s.setGroup(id, g, dep.Version)
	}
	dep.indexSteps()
	s.deployments = append(s.deployments, dep)
	s.changedDocuments[deploymentKey+dep.ID] = struct{}{}
	s.advanceClock(dep.Version)
	s.enterStep(dep)
	s.events = append(s.events, GroupChangeSuccess{GroupID: d.group, Version: dep.Version})
}

// markChanged marks the app's document as changed, and the app for evaluation.
func (s *DesiredState) markChanged(id string) {
	s.changedDocuments[appKey+id] = struct{}{}
	s.dirty[id] = true
}

// deploymentID returns a UUID that is derived from a version and unique like it.
func deploymentID(v string) string {
	sum := sha256.Sum256([]byte(v))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// invalidAt returns a *marathon.ValidationError about one path.
func invalidAt(path, format string, args ...any) error {
	return &marathon.ValidationError{Message: "Object is not valid", Details: []marathon.ErrorDetail{{Path: path, Errors: []string{fmt.Sprintf(format, args...)}}}}
}
