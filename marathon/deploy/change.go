package deploy

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/marathon"
)

// Options of a change.
type Options struct {
	// Force cancels the deployments that change the same apps.
	Force bool
}

// Put creates or changes apps, which Parse has completed, by one deployment.
// It returns *Locked, or *marathon.Invalid where the apps do not go together
// with the others.
func (s *State) Put(now time.Time, apps []*marathon.App, o Options) (Deployment, error) {
	d := draft{group: "/"}
	for _, a := range apps {
		d.put(a)
	}
	if len(apps) == 1 {
		d.group = marathon.Parent(apps[0].ID)
	}
	return s.change(now, d, o)
}

// Remove removes apps. It returns *Unknown, or *Locked.
func (s *State) Remove(now time.Time, ids []string, o Options) (Deployment, error) {
	d := draft{group: "/"}
	for _, id := range ids {
		if _, ok := s.App(id); !ok {
			return Deployment{}, &Unknown{"app", id}
		}
		d.drop(id)
	}
	if len(ids) == 1 {
		d.group = marathon.Parent(ids[0])
	}
	return s.change(now, d, o)
}

// Restart replaces all instances of apps as a change of their definition
// would. It returns *Unknown, or *Locked.
func (s *State) Restart(now time.Time, ids []string, o Options) (Deployment, error) {
	d := draft{group: "/", restart: true}
	for _, id := range ids {
		a, ok := s.App(id)
		if !ok {
			return Deployment{}, &Unknown{"app", id}
		}
		d.put(a)
	}
	return s.change(now, d, o)
}

// Retire ends instances, which Step was told of, and makes their apps that
// much smaller. It returns *Unknown, or *Locked.
func (s *State) Retire(now time.Time, taskIDs []string, o Options) (Deployment, error) {
	owner := map[string]string{}
	for id, a := range s.apps {
		for i := range a.seen {
			if !a.seen[i].leaving() && a.known() {
				owner[a.seen[i].TaskID] = id
			}
		}
	}
	d := draft{group: "/", kill: map[string][]string{}}
	for _, task := range taskIDs {
		id, ok := owner[task]
		if !ok {
			return Deployment{}, &Unknown{"instance", task}
		}
		if !slices.Contains(d.kill[id], task) {
			d.kill[id] = append(d.kill[id], task)
		}
	}
	for _, id := range sorted(d.kill) {
		smaller := *s.apps[id].current()
		smaller.Instances = max(0, smaller.Instances-len(d.kill[id]))
		d.put(&smaller)
	}
	return s.change(now, d, o)
}

// Cancel ends a deployment and takes back what it changed by another, which
// it returns; with force it leaves everything as it is just then. It returns
// *Unknown.
func (s *State) Cancel(now time.Time, id string, force bool) (Deployment, error) {
	old := s.byID(id)
	if old == nil {
		return Deployment{}, &Unknown{"deployment", id}
	}
	back := draft{group: "/", groups: old.Groups, as: map[string]string{}}
	for _, id := range old.Affected() {
		from := old.From[id]
		if from == "" {
			back.drop(id)
			continue
		}
		a := s.apps[id].version(from)
		back.as[id] = a.VersionInfo.LastConfigChangeAt
		back.put(a)
	}
	if force {
		s.fail(old, "it was cancelled")
		return Deployment{}, nil
	}
	return s.change(now, back, Options{Force: true})
}

// draft is a change that was not checked yet.
type draft struct {
	// apps are the wanted definitions, nil of apps to be removed, in order.
	apps []wanted
	// groups are those to be changed, nil to be removed.
	groups map[string]*GroupInfo
	// group is the one that the change is told of.
	group   string
	restart bool
	kill    map[string][]string
	// as are the configurations that apps go back to.
	as map[string]string
}

type wanted struct {
	id  string
	app *marathon.App
}

func (d *draft) put(a *marathon.App) { d.apps = append(d.apps, wanted{a.ID, a}) }
func (d *draft) drop(id string)      { d.apps = append(d.apps, wanted{id, nil}) }

// change checks a draft and begins its deployment.
func (s *State) change(now time.Time, d draft, o Options) (Deployment, error) {
	v := s.stamp(now)
	for id := range d.groups {
		if err := fits(id); err != nil {
			return Deployment{}, err
		}
	}
	next, err := s.resolve(d, v)
	if err != nil {
		return Deployment{}, err
	}
	world := s.world(next, d.groups)
	if err := world.check(); err != nil {
		return Deployment{}, err
	}
	if err := s.roomy(d, next); err != nil {
		return Deployment{}, err
	}
	conflicts := s.conflicts(next)
	if len(conflicts) > 0 && !o.Force {
		return Deployment{}, &Locked{conflicts}
	}
	dep := &Deployment{Plan: Plan{ID: deploymentID(v), Version: v, Steps: world.steps(next)}, From: map[string]string{}, Kill: d.kill}
	for _, n := range next {
		dep.From[n.id] = n.from
	}
	dep.Groups = s.groupsBefore(d.groups)
	if n := len(text(dep)); n > maxDocument {
		return Deployment{}, invalid("/", "a deployment of %d apps has %d bytes, more than %d: change fewer at once", len(next), n, maxDocument)
	}
	s.commit(dep, next, d)
	for _, id := range conflicts {
		s.fail(s.byID(id), "it was cancelled for "+dep.ID)
	}
	return *dep, nil
}

// spare is what a document has beside the definitions in it.
const spare = 64 << 10

// roomy refuses what would not fit into documents.
func (s *State) roomy(d draft, next []transition) error {
	for _, id := range sorted(d.groups) {
		if n := len(text(d.groups[id])); n > maxApp {
			return invalid("/", "group %s has %d bytes, more than %d: leave something out", id, n, maxApp)
		}
	}
	for _, t := range next {
		a := s.apps[t.id]
		if a == nil || t.removed {
			continue
		}
		kept := len(t.to.text)
		for i, v := range a.versions {
			if i == len(a.versions)-1 || a.runs(v.app) { // it goes back to the last
				kept += len(v.text)
			}
		}
		if kept > maxDocument-spare {
			return invalid("/", "app %s has instances of so many versions that %d bytes are to be kept, more than %d: wait for its deployment", t.id, kept, maxDocument-spare)
		}
	}
	return nil
}

// transition is an app that a draft changes.
type transition struct {
	id, from string // the version before, "" of a new app
	change   change
	to       version // unset of an app to be removed
	removed  bool
}

// resolve finds what a draft changes, sorted by id.
func (s *State) resolve(d draft, v string) ([]transition, error) {
	var list []transition
	seen := map[string]bool{}
	for _, w := range d.apps {
		if seen[w.id] {
			return nil, invalid("/", "%s stands twice", w.id)
		}
		seen[w.id] = true
		t, err := s.transition(w, d, v)
		if err != nil {
			return nil, err
		}
		if t.change != same || t.removed {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b transition) int { return strings.Compare(a.id, b.id) })
	return list, nil
}

func (s *State) transition(w wanted, d draft, v string) (transition, error) {
	t := transition{id: w.id}
	old := s.apps[w.id]
	if old != nil && old.known() {
		t.from = old.current().Version
	}
	if w.app == nil {
		t.removed = t.from != ""
		return t, nil
	}
	if err := fits(w.id); err != nil {
		return t, err
	}
	var err error
	if t.change, err = compare(old, w.app); err != nil {
		return t, err
	}
	config := v
	switch back, ok := d.as[w.id]; {
	case ok:
		config = back
		if t.from != "" && old.current().VersionInfo.LastConfigChangeAt != back {
			t.change = reconfigured
		}
	case t.change == created:
	case d.restart:
		t.change = reconfigured
	case t.change != reconfigured:
		config = old.current().VersionInfo.LastConfigChangeAt
	}
	if t.change == same && len(d.kill[w.id]) > 0 {
		t.change = scaled
	}
	t.to = versioned(w.app, v, config)
	return t, nil
}

// maxKey bounds the keys of documents.
const maxKey = 512

func fits(id string) error {
	if most := maxKey - len(groupKey); len(id) > most {
		return invalid("/id", "%s has %d characters, more than %d", id, len(id), most)
	}
	return nil
}

// conflicts are the deployments under way that change the same apps, the
// oldest first.
func (s *State) conflicts(next []transition) []string {
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

// commit makes a checked change what is wanted.
func (s *State) commit(dep *Deployment, next []transition, d draft) {
	for _, t := range next {
		a := s.app(t.id)
		a.gone = t.removed
		if !t.removed {
			a.versions = append(a.versions, t.to)
		}
		a.deployment = dep
		a.trim()
		s.touch(t.id)
	}
	for id, g := range d.groups {
		s.setGroup(id, g, dep.Version)
	}
	dep.index()
	s.deployments = append(s.deployments, dep)
	s.drain[deploymentKey+dep.ID] = struct{}{}
	s.clock(dep.Version)
	s.enter(dep)
	s.events = append(s.events, GroupChangeSuccess{GroupID: d.group, Version: dep.Version})
}

// touch has an app's document kept, and the app looked at.
func (s *State) touch(id string) {
	s.drain[appKey+id] = struct{}{}
	s.dirty[id] = true
}

// deploymentID is a UUID of a version, which no other deployment has.
func deploymentID(v string) string {
	sum := sha256.Sum256([]byte(v))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// invalid is what is wrong at one place of a definition.
func invalid(path, format string, args ...any) error {
	return &marathon.Invalid{Message: "Object is not valid", Details: []marathon.Detail{{Path: path, Errors: []string{fmt.Sprintf(format, args...)}}}}
}
