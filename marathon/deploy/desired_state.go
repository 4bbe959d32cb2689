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

// DesiredState is what people want and how far it is done. One goroutine owns it.
// The apps and deployments that it returns are shared: nobody changes them.
type DesiredState struct {
	apps        map[string]*appRecord
	groups      map[string]*GroupInfo
	deployments []*Deployment // oldest first

	lastVersion      time.Time           // of the youngest version
	dirty            map[string]bool     // apps that the next Step looks at
	changedDocuments map[string]struct{} // keys of documents that have changed
	events           []BusEvent          // for the next Step
	observed         bool                // Step was told what there is
}

// appRecord is one app, or instances that nobody wants.
type appRecord struct {
	id       string
	versions []appVersion // oldest first; the last is wanted
	// removing apps are being removed; their versions may be wanted back.
	removing bool

	deployment *Deployment
	instances  []AppInstance
	// stopRequested are the instances whose end was asked for and not yet seen.
	stopRequested map[string]bool
}

// isKnown reports whether there is such an app now.
func (a *appRecord) isKnown() bool { return len(a.versions) > 0 && !a.removing }

func (a *appRecord) currentApp() *marathon.App { return a.versions[len(a.versions)-1].app }

// appAtVersion finds the app as it was at that version.
func (a *appRecord) appAtVersion(v string) *marathon.App {
	for i := range a.versions {
		if a.versions[i].app.Version == v {
			return a.versions[i].app
		}
	}
	return nil
}

// appAtConfig is the youngest version of that configuration, nil where none is
// kept.
func (a *appRecord) appAtConfig(v string) *marathon.App {
	for _, one := range slices.Backward(a.versions) {
		if one.app.VersionInfo.LastConfigChangeAt == v {
			return one.app
		}
	}
	return nil
}

// Apps are all apps, sorted by id.
func (s *DesiredState) Apps() []*marathon.App {
	var list []*marathon.App
	for _, a := range s.apps {
		if a.isKnown() {
			list = append(list, a.currentApp())
		}
	}
	slices.SortFunc(list, func(a, b *marathon.App) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// App is one app.
func (s *DesiredState) App(id string) (*marathon.App, bool) {
	a, ok := s.apps[id]
	if !ok || !a.isKnown() {
		return nil, false
	}
	return a.currentApp(), true
}

// Versions are those that are kept of an app, the youngest first.
func (s *DesiredState) Versions(id string) []string {
	a, ok := s.apps[id]
	if !ok || a.removing {
		return nil
	}
	var list []string
	for _, v := range slices.Backward(a.versions) {
		list = append(list, v.app.Version)
	}
	return list
}

// Version is an app as it was.
func (s *DesiredState) Version(id, version string) (*marathon.App, bool) {
	a, ok := s.apps[id]
	if !ok || a.removing {
		return nil, false
	}
	if as, ok := ParseVersion(version); ok {
		version = as
	}
	old := a.appAtVersion(version)
	return old, old != nil
}

// AppAtConfig is an app as its instances of Instance.Version know it.
func (s *DesiredState) AppAtConfig(id, version string) (*marathon.App, bool) {
	a, ok := s.apps[id]
	if !ok {
		return nil, false
	}
	old := a.appAtConfig(version)
	return old, old != nil
}

// WantedAt is the version of an app that was wanted at that time, of those
// with the configuration: scaling makes versions without another one. It is
// the configuration's own where no such version is kept.
func (s *DesiredState) WantedAt(id, config string, at time.Time) string {
	if a, ok := s.apps[id]; ok {
		when := at.UTC().Format(versionLayout)
		for _, v := range slices.Backward(a.versions) {
			if v.app.VersionInfo.LastConfigChangeAt == config && v.app.Version <= when {
				return v.app.Version
			}
		}
	}
	return config
}

// Instances are those of an app as Step was last told.
func (s *DesiredState) Instances(id string) []AppInstance {
	if a, ok := s.apps[id]; ok {
		return slices.Clone(a.instances)
	}
	return nil
}

// IsHealthy reports whether an instance of the app counts as healthy.
func (s *DesiredState) IsHealthy(id string, i AppInstance) bool {
	config, _ := s.AppAtConfig(id, i.Version)
	return i.isHealthy(config)
}

// Deployments are those under way, the oldest first.
func (s *DesiredState) Deployments() []Deployment {
	list := make([]Deployment, 0, len(s.deployments))
	for _, d := range s.deployments {
		list = append(list, *d)
	}
	return list
}

// Deployment is the one under way that changes the app.
func (s *DesiredState) Deployment(app string) (Deployment, bool) {
	if a, ok := s.apps[app]; ok && a.deployment != nil {
		return *a.deployment, true
	}
	return Deployment{}, false
}

// QueuedApp is an app of which instances wait to be started.
type QueuedApp struct {
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

// QueuedApps lists the apps of which instances wait, sorted by id.
func (s *DesiredState) QueuedApps() []QueuedApp {
	var list []QueuedApp
	for _, a := range s.Apps() {
		q := QueuedApp{App: a}
		for _, i := range s.apps[a.ID].instances {
			if i.State != job.Waiting || i.isLeaving() {
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

// CountMissing counts the instances of an app that are wanted and not there, not
// even waiting.
func (s *DesiredState) CountMissing(id string) int {
	a, ok := s.App(id)
	if !ok {
		return 0
	}
	n := a.Instances
	for _, i := range s.apps[id].instances {
		if !i.isLeaving() {
			n--
		}
	}
	return max(0, n)
}

// ensureApp finds or makes the record of an id.
func (s *DesiredState) ensureApp(id string) *appRecord {
	a, ok := s.apps[id]
	if !ok {
		a = &appRecord{id: id}
		s.apps[id] = a
	}
	return a
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// isWithin reports whether an id is the group's, or below it.
func isWithin(id, group string) bool {
	rest, ok := strings.CutPrefix(id, group)
	return ok && (rest == "" || group == "/" || rest[0] == '/')
}
