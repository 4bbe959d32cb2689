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

// DesiredState contains the apps that users have defined, and the progress of their deployments. One goroutine owns
// it. The apps and deployments that it returns are shared and must not be changed.
type DesiredState struct {
	// ServicePorts is where service ports of 0 are allotted. LoadState sets it to the default.
	ServicePorts marathon.PortRange

	// instancesOf returns the current instances of an app. The state keeps no copy of them.
	instancesOf func(app string) []AppInstance
	// apps are all apps by id. A removed app stays until its last instance has ended.
	apps map[string]*appRecord
	// groups are the definitions of groups by id. Groups without a definition exist through their apps.
	groups map[string]*GroupInfo
	// deployments lists the deployments that have not ended, the oldest first.
	deployments []*Deployment

	// lastVersion is the time of the youngest version. The next version is younger, whatever the clock says.
	lastVersion time.Time
	// dirty are the apps that the next Step evaluates; Step clears it.
	dirty map[string]bool
	// changedDocuments are the keys of the documents that have changed since TakeChangedDocuments, which clears it.
	changedDocuments map[string]struct{}
	// events are returned, and removed, by the next Step.
	events []BusEvent
}

// appRecord is an app, or the instances that remain of a removed one.
type appRecord struct {
	id       string
	versions []appVersion // oldest first; the last one is desired
	// removing is true while a deployment removes the app. A rollback may need
	// its versions.
	removing bool

	// deployment changes the app; nil if none does.
	deployment *Deployment
	// health are the results of health checks by instance, as of the last Step with a change of the app. The next
	// one returns events for those that differ.
	health map[string]*bool
	// stopRequested are the instances that were requested to end and have not ended.
	stopRequested map[string]bool
}

// isKnown reports whether the app exists and is not being removed.
func (a *appRecord) isKnown() bool { return len(a.versions) > 0 && !a.removing }

func (a *appRecord) currentApp() *marathon.App { return a.versions[len(a.versions)-1].app }

// appAtVersion returns the app of a version, or nil.
func (a *appRecord) appAtVersion(v string) *marathon.App {
	for i := range a.versions {
		if a.versions[i].app.Version == v {
			return a.versions[i].app
		}
	}
	return nil
}

// appAtConfig returns the youngest version of a configuration, or nil if none is kept.
func (a *appRecord) appAtConfig(v string) *marathon.App {
	for _, one := range slices.Backward(a.versions) {
		if one.app.VersionInfo.LastConfigChangeAt == v {
			return one.app
		}
	}
	return nil
}

// Apps returns all apps, sorted by id.
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

// App returns the app of an id.
func (s *DesiredState) App(id string) (*marathon.App, bool) {
	a, ok := s.apps[id]
	if !ok || !a.isKnown() {
		return nil, false
	}
	return a.currentApp(), true
}

// Versions returns the versions that are kept of an app, the youngest first.
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

// Version returns an app as it was at a version.
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

// AppAtConfig returns an app as of the configuration AppInstance.Version.
func (s *DesiredState) AppAtConfig(id, version string) (*marathon.App, bool) {
	a, ok := s.apps[id]
	if !ok {
		return nil, false
	}
	old := a.appAtConfig(version)
	return old, old != nil
}

// WantedAt returns the version that was desired at a time, among those with a
// configuration: scaling adds versions without changing the configuration. It returns the
// version of the configuration itself if no such version is kept.
func (s *DesiredState) WantedAt(id, config string, at time.Time) string {
	if a, ok := s.apps[id]; ok {
		when := "" // at as a version: formatted only if a younger version than the configuration's own could apply
		for _, v := range slices.Backward(a.versions) {
			if v.app.VersionInfo.LastConfigChangeAt != config {
				continue
			}
			if v.app.Version == config {
				break
			}
			if when == "" {
				when = at.UTC().Format(versionLayout)
			}
			if v.app.Version <= when {
				return v.app.Version
			}
		}
	}
	return config
}

// HasReadinessChecks reports whether a kept version of the app has readiness checks.
func (s *DesiredState) HasReadinessChecks(id string) bool {
	a, ok := s.apps[id]
	return ok && slices.ContainsFunc(a.versions, func(v appVersion) bool { return len(v.app.ReadinessChecks) > 0 })
}

// Deployments returns the current deployments, the oldest first.
func (s *DesiredState) Deployments() []Deployment {
	list := make([]Deployment, 0, len(s.deployments))
	for _, d := range s.deployments {
		list = append(list, *d)
	}
	return list
}

// Deployment returns the current deployment that changes the app.
func (s *DesiredState) Deployment(app string) (Deployment, bool) {
	if a, ok := s.apps[app]; ok && a.deployment != nil {
		return *a.deployment, true
	}
	return Deployment{}, false
}

// QueuedApp is an app with instances that wait to be started.
type QueuedApp struct {
	App *marathon.App
	// Count is the number of waiting instances. Since is when the first of them
	// began to wait. NotBefore is when the first of them may start, zero for now.
	Count     int
	Since     time.Time
	NotBefore time.Time
	// Message is why the instances wait, or could not be queued. The caller sets it.
	Message string
	// Exclusions count the agents that the requirements of an instance exclude. The
	// caller sets them.
	Exclusions []job.ExclusionCount
}

// QueuedApps returns the apps with waiting instances, sorted by id.
func (s *DesiredState) QueuedApps() []QueuedApp {
	var list []QueuedApp
	for _, a := range s.Apps() {
		q := QueuedApp{App: a}
		for _, i := range s.instancesOf(a.ID) {
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

// CountMissing returns how many desired instances of an app do not exist, not even as
// waiting tasks.
func (s *DesiredState) CountMissing(id string) int {
	a, ok := s.App(id)
	if !ok {
		return 0
	}
	n := a.Instances
	for _, i := range s.instancesOf(id) {
		if !i.isLeaving() {
			n--
		}
	}
	return max(0, n)
}

// ensureApp returns the record of an id and creates it if necessary.
func (s *DesiredState) ensureApp(id string) *appRecord {
	a, ok := s.apps[id]
	if !ok {
		a = &appRecord{id: id}
		s.apps[id] = a
	}
	return a
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// isWithin reports whether an id is the group's or below it.
func isWithin(id, group string) bool {
	rest, ok := strings.CutPrefix(id, group)
	return ok && (rest == "" || group == "/" || rest[0] == '/')
}
