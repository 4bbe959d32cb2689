package deploy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// State is what people want and how far it is done. One goroutine owns it.
// The apps and deployments that it returns are shared: nobody changes them.
type State struct {
	apps        map[string]*app
	groups      map[string]*GroupInfo
	deployments []*Deployment // oldest first

	last   time.Time           // of the youngest version
	dirty  map[string]bool     // apps that the next Step looks at
	drain  map[string]struct{} // keys of documents that have changed
	events []Event             // for the next Step
	met    bool                // Step was told what there is
}

// app is one app, or instances that nobody wants.
type app struct {
	id       string
	versions []version // oldest first; the last is wanted
	// gone apps are being removed; their versions may be wanted back.
	gone bool

	deployment *Deployment
	seen       []Instance
	// asked are the instances whose end was asked for and not yet seen.
	asked map[string]bool
}

// known reports whether there is such an app now.
func (a *app) known() bool { return len(a.versions) > 0 && !a.gone }

func (a *app) current() *marathon.App { return a.versions[len(a.versions)-1].app }

// version finds the app as it was at that version.
func (a *app) version(v string) *marathon.App {
	for i := range a.versions {
		if a.versions[i].app.Version == v {
			return a.versions[i].app
		}
	}
	return nil
}

// config is the youngest version of that configuration, nil where none is
// kept.
func (a *app) config(v string) *marathon.App {
	for _, one := range slices.Backward(a.versions) {
		if one.app.VersionInfo.LastConfigChangeAt == v {
			return one.app
		}
	}
	return nil
}

// Apps are all apps, sorted by id.
func (s *State) Apps() []*marathon.App {
	var list []*marathon.App
	for _, a := range s.apps {
		if a.known() {
			list = append(list, a.current())
		}
	}
	slices.SortFunc(list, func(a, b *marathon.App) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// App is one app.
func (s *State) App(id string) (*marathon.App, bool) {
	a, ok := s.apps[id]
	if !ok || !a.known() {
		return nil, false
	}
	return a.current(), true
}

// Versions are those that are kept of an app, the youngest first.
func (s *State) Versions(id string) []string {
	a, ok := s.apps[id]
	if !ok || a.gone {
		return nil
	}
	var list []string
	for _, v := range slices.Backward(a.versions) {
		list = append(list, v.app.Version)
	}
	return list
}

// Version is an app as it was.
func (s *State) Version(id, version string) (*marathon.App, bool) {
	a, ok := s.apps[id]
	if !ok || a.gone {
		return nil, false
	}
	if as, ok := ParseVersion(version); ok {
		version = as
	}
	old := a.version(version)
	return old, old != nil
}

// Config is an app as its instances of Instance.Version know it.
func (s *State) Config(id, version string) (*marathon.App, bool) {
	a, ok := s.apps[id]
	if !ok {
		return nil, false
	}
	old := a.config(version)
	return old, old != nil
}

// WantedAt is the version of an app that was wanted at that time, of those
// with the configuration: scaling makes versions without another one. It is
// the configuration's own where no such version is kept.
func (s *State) WantedAt(id, config string, at time.Time) string {
	if a, ok := s.apps[id]; ok {
		when := at.UTC().Format(stampFormat)
		for _, v := range slices.Backward(a.versions) {
			if v.app.VersionInfo.LastConfigChangeAt == config && v.app.Version <= when {
				return v.app.Version
			}
		}
	}
	return config
}

// Instances are those of an app as Step was last told.
func (s *State) Instances(id string) []Instance {
	if a, ok := s.apps[id]; ok {
		return slices.Clone(a.seen)
	}
	return nil
}

// Healthy reports whether an instance of the app counts as healthy.
func (s *State) Healthy(id string, i Instance) bool {
	config, _ := s.Config(id, i.Version)
	return i.healthy(config)
}

// Deployments are those under way, the oldest first.
func (s *State) Deployments() []Deployment {
	list := make([]Deployment, 0, len(s.deployments))
	for _, d := range s.deployments {
		list = append(list, *d)
	}
	return list
}

// Deployment is the one under way that changes the app.
func (s *State) Deployment(app string) (Deployment, bool) {
	if a, ok := s.apps[app]; ok && a.deployment != nil {
		return *a.deployment, true
	}
	return Deployment{}, false
}

// Queued is an app of which instances wait to be started.
type Queued struct {
	App *marathon.App
	// Count is how many wait, Since when the first of them began to, and
	// NotBefore when the first of them may start; zero is at once.
	Count     int
	Since     time.Time
	NotBefore time.Time
	// Message says what is in the way, for those who know: what Step asks for
	// is not always done.
	Message string
}

// Queue lists the apps of which instances wait, sorted by id.
func (s *State) Queue() []Queued {
	var list []Queued
	for _, a := range s.Apps() {
		q := Queued{App: a}
		for _, i := range s.apps[a.ID].seen {
			if i.State != job.Waiting || i.leaving() {
				continue
			}
			q.Count++
			if q.Count == 1 || i.Changed.Before(q.Since) {
				q.Since = i.Changed
			}
			if q.Count == 1 || i.NotBefore.Before(q.NotBefore) {
				q.NotBefore = i.NotBefore
			}
		}
		if q.Count > 0 {
			list = append(list, q)
		}
	}
	return list
}

// Missing counts the instances of an app that are wanted and not there, not
// even waiting.
func (s *State) Missing(id string) int {
	a, ok := s.App(id)
	if !ok {
		return 0
	}
	n := a.Instances
	for _, i := range s.apps[id].seen {
		if !i.leaving() {
			n--
		}
	}
	return max(0, n)
}

// app finds or makes the record of an id.
func (s *State) app(id string) *app {
	a, ok := s.apps[id]
	if !ok {
		a = &app{id: id}
		s.apps[id] = a
	}
	return a
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// within reports whether an id is the group's, or below it.
func within(id, group string) bool {
	rest, ok := strings.CutPrefix(id, group)
	return ok && (rest == "" || group == "/" || rest[0] == '/')
}
