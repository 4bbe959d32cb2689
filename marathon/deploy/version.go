package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"mesos-gpu/marathon"
)

// stampFormat is a version: RFC 3339 with milliseconds.
const stampFormat = "2006-01-02T15:04:05.000Z"

// ParseVersion reads a version however its time is written, and returns it as
// it is written here.
func ParseVersion(text string) (version string, ok bool) {
	t, err := time.Parse(time.RFC3339, text)
	return t.UTC().Format(stampFormat), err == nil
}

// stamp is a version later than every other.
func (s *State) stamp(now time.Time) string {
	t := now.UTC().Truncate(time.Millisecond)
	if !t.After(s.last) {
		t = s.last.Add(time.Millisecond)
	}
	return t.Format(stampFormat)
}

// change is what becomes of an app's definition.
type change int

const (
	same change = iota
	created
	scaled
	reconfigured
)

// compare says what a wanted definition changes.
func compare(old *app, wanted *marathon.App) (change, error) {
	text, err := content(wanted)
	if err != nil {
		return same, err
	}
	if old == nil || !old.known() {
		return created, nil
	}
	before, err := content(old.current())
	switch {
	case err != nil:
		return same, err
	case !bytes.Equal(before, text):
		return reconfigured, nil
	case old.current().Instances != wanted.Instances:
		return scaled, nil
	default:
		return same, nil
	}
}

// content is what makes an app's instances what they are.
func content(a *marathon.App) ([]byte, error) {
	c := *a
	c.Instances, c.Version, c.VersionInfo = 0, "", nil
	text, err := json.Marshal(&c)
	if err != nil {
		return nil, fmt.Errorf("write app %s: %w", a.ID, err)
	}
	if len(text) > maxApp {
		return nil, invalid("/", "app %s has %d bytes, more than %d: leave something out", a.ID, len(text), maxApp)
	}
	return text, nil
}

// versioned is the definition under its version. config is the version that
// its job was made from.
func versioned(a *marathon.App, v, config string) version {
	c := *a
	c.Version = v
	c.VersionInfo = &marathon.VersionInfo{LastScalingAt: v, LastConfigChangeAt: config}
	return version{&c, text(&c)}
}

// trim forgets the oldest versions that nobody needs.
func (a *app) trim() {
	for i := 0; i < len(a.versions)-1 && (len(a.versions) > keptVersions || a.size() > maxDocument-maxApp); {
		if a.needs(a.versions[i].app) {
			i++
			continue
		}
		a.versions = append(a.versions[:i:i], a.versions[i+1:]...)
	}
}

func (a *app) size() int {
	n := 0
	for _, v := range a.versions {
		n += len(v.text)
	}
	return n
}

// needs reports whether a version may be wanted back, or has instances.
func (a *app) needs(old *marathon.App) bool {
	return a.deployment != nil && a.deployment.From[a.id] == old.Version || a.runs(old)
}

// runs reports whether a version has instances that stay.
func (a *app) runs(old *marathon.App) bool {
	for i := range a.seen {
		if v := a.seen[i].Version; v == old.VersionInfo.LastConfigChangeAt && !a.seen[i].leaving() && a.config(v) == old {
			return true
		}
	}
	return false
}
