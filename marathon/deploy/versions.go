package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/marathon"
)

// versionLayout is the format of versions: RFC 3339 with milliseconds.
const versionLayout = "2006-01-02T15:04:05.000Z"

// ParseVersion parses a version in any form of RFC 3339 and returns it in versionLayout.
func ParseVersion(text string) (version string, ok bool) {
	t, err := time.Parse(time.RFC3339, text)
	return t.UTC().Format(versionLayout), err == nil
}

// nextVersion returns a version that is later than all others.
func (s *DesiredState) nextVersion(now time.Time) string {
	t := now.UTC().Truncate(time.Millisecond)
	if !t.After(s.lastVersion) {
		t = s.lastVersion.Add(time.Millisecond)
	}
	return t.Format(versionLayout)
}

// changeKind is how an app's definition changes.
type changeKind int

const (
	unchanged changeKind = iota
	created
	scaled
	reconfigured
)

// classifyChange compares a new definition with the current one.
func classifyChange(old *appRecord, wanted *marathon.App) (changeKind, error) {
	text, err := definitionText(wanted)
	if err != nil {
		return unchanged, err
	}
	if old == nil || !old.isKnown() {
		return created, nil
	}
	before, err := definitionText(old.currentApp())
	switch {
	case err != nil:
		return unchanged, err
	case !bytes.Equal(before, text):
		return reconfigured, nil
	case old.currentApp().Instances != wanted.Instances:
		return scaled, nil
	default:
		return unchanged, nil
	}
}

// definitionText returns the part of a definition that requires new instances if it changes.
func definitionText(a *marathon.App) ([]byte, error) {
	c := *a
	c.Instances, c.Version, c.VersionInfo = 0, "", nil
	text, err := json.Marshal(&c)
	if err != nil {
		return nil, fmt.Errorf("write app %s: %w", a.ID, err)
	}
	if len(text) > maxApp {
		return nil, invalidAt("/", "app %s has %d bytes, more than %d: make it smaller", a.ID, len(text), maxApp)
	}
	return text, nil
}

// newVersion returns the definition with its version. config is the version that its job is
// created from.
func newVersion(a *marathon.App, v, config string) appVersion {
	c := *a
	c.Version = v
	c.VersionInfo = &marathon.VersionInfo{LastScalingAt: v, LastConfigChangeAt: config}
	return appVersion{&c, mustMarshal(&c)}
}

// trimVersions removes the oldest versions that are not needed.
func (a *appRecord) trimVersions(instances []AppInstance) {
	for i := 0; i < len(a.versions)-1 && (len(a.versions) > keptVersions || a.versionsSize() > maxDocument-maxApp); {
		if a.isNeeded(a.versions[i].app, instances) {
			i++
			continue
		}
		a.versions = append(a.versions[:i:i], a.versions[i+1:]...)
	}
}

func (a *appRecord) versionsSize() int {
	n := 0
	for _, v := range a.versions {
		n += len(v.text)
	}
	return n
}

// isNeeded reports whether a rollback may need the version, or whether it has instances.
func (a *appRecord) isNeeded(old *marathon.App, instances []AppInstance) bool {
	return a.deployment != nil && a.deployment.From[a.id] == old.Version || a.hasInstances(old, instances)
}

// hasInstances reports whether the version has instances that are not leaving.
func (a *appRecord) hasInstances(old *marathon.App, instances []AppInstance) bool {
	v := old.VersionInfo.LastConfigChangeAt
	return a.appAtConfig(v) == old && slices.ContainsFunc(instances, func(i AppInstance) bool { return i.Version == v && !i.isLeaving() })
}
