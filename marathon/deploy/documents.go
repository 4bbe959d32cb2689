package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"mesos-gpu/marathon"
)

// Keys of documents: a prefix for the kind, and the id.
const (
	appKey        = "marathon/app"
	groupKey      = "marathon/group"
	deploymentKey = "marathon/deployment/"
)

const (
	// keptVersions is the number of versions kept of an app, as in Marathon.
	keptVersions = 25
	// maxDocument bounds a document. maxApp bounds one version of an app, so that all versions that are needed fit
	// into a document.
	maxDocument = 1 << 20
	maxApp      = maxDocument / 4
)

// appVersion is a version of an app and its JSON text.
type appVersion struct {
	app  *marathon.App
	text json.RawMessage
}

type appDocument struct {
	Gone     bool              `json:"gone,omitempty"`
	Versions []json.RawMessage `json:"versions"`
}

// LoadState restores the state from its documents. instancesOf returns the current instances
// of an app. The first Step must get every app that has instances.
func LoadState(documents map[string][]byte, instancesOf func(app string) []AppInstance) (*DesiredState, error) {
	s := &DesiredState{
		ServicePorts: marathon.DefaultServicePorts,
		instancesOf:  instancesOf, apps: map[string]*appRecord{}, groups: map[string]*GroupInfo{},
		dirty: map[string]bool{}, changedDocuments: map[string]struct{}{},
	}
	for _, key := range sortedKeys(documents) {
		if err := s.readDocument(key, documents[key]); err != nil {
			return nil, fmt.Errorf("read document %s: %w", key, err)
		}
	}
	for _, d := range s.deployments {
		if err := s.linkDeployment(d); err != nil {
			return nil, fmt.Errorf("read deployment %s: %w", d.ID, err)
		}
	}
	s.orderDeployments()
	return s, nil
}

func (s *DesiredState) readDocument(key string, value []byte) error {
	if id, ok := strings.CutPrefix(key, deploymentKey); ok {
		return s.readDeployment(id, value)
	}
	if id, ok := strings.CutPrefix(key, groupKey); ok {
		return s.readGroup(id, value)
	}
	if id, ok := strings.CutPrefix(key, appKey); ok {
		return s.readApp(id, value)
	}
	return nil // a document of another package
}

func (s *DesiredState) readApp(id string, value []byte) error {
	var doc appDocument
	if err := json.Unmarshal(value, &doc); err != nil {
		return err
	}
	if len(doc.Versions) == 0 || id == "/" || marathon.AbsoluteID(id, "/") != id {
		return fmt.Errorf("%q with %d versions is no app", id, len(doc.Versions))
	}
	a := &appRecord{id: id, removing: doc.Gone}
	for _, text := range doc.Versions {
		one := new(marathon.App)
		if err := json.Unmarshal(text, one); err != nil {
			return err
		}
		if err := s.checkVersion(id, one); err != nil {
			return err
		}
		a.versions = append(a.versions, appVersion{one, text})
	}
	s.apps[id] = a
	s.dirty[id] = true
	return nil
}

func (s *DesiredState) checkVersion(id string, a *marathon.App) error {
	switch {
	case a.ID != id:
		return fmt.Errorf("it holds the app %q", a.ID)
	case a.VersionInfo == nil || a.UpgradeStrategy == nil:
		return errors.New("versionInfo or upgradeStrategy is missing")
	case a.Instances < 0:
		return fmt.Errorf("instances is %d", a.Instances)
	}
	return s.advanceClock(a.Version, a.VersionInfo.LastConfigChangeAt)
}

// advanceClock makes the next versions younger than the given ones.
func (s *DesiredState) advanceClock(versions ...string) error {
	for _, v := range versions {
		t, err := time.Parse(versionLayout, v)
		if err != nil {
			return fmt.Errorf("%q is no version: %w", v, err)
		}
		if t.After(s.lastVersion) {
			s.lastVersion = t
		}
	}
	return nil
}

func (s *DesiredState) readGroup(id string, value []byte) error {
	g := new(GroupInfo)
	if err := json.Unmarshal(value, g); err != nil {
		return err
	}
	if marathon.AbsoluteID(id, "/") != id {
		return fmt.Errorf("%q is no group", id)
	}
	s.groups[id] = g
	return s.advanceClock(g.Version)
}

func (s *DesiredState) readDeployment(id string, value []byte) error {
	d := new(Deployment)
	if err := json.Unmarshal(value, d); err != nil {
		return err
	}
	if d.ID != id || d.Current < 0 || d.Current > len(d.Steps) {
		return fmt.Errorf("it holds deployment %q at step %d of %d", d.ID, d.Current, len(d.Steps))
	}
	s.deployments = append(s.deployments, d)
	return s.advanceClock(d.Version)
}

// linkDeployment links a deployment with its apps. No two deployments share an app.
func (s *DesiredState) linkDeployment(d *Deployment) error {
	d.indexSteps()
	for id := range d.stepOf {
		if _, ok := d.From[id]; !ok {
			return fmt.Errorf("from has no entry for %s", id)
		}
	}
	for id, from := range d.From {
		a := s.apps[id]
		switch {
		case d.stepOf[id] == 0:
			return fmt.Errorf("it does nothing to %s", id)
		case a == nil:
			return fmt.Errorf("there is no app %s", id)
		case a.deployment != nil:
			return fmt.Errorf("%s is changed by %s too", id, a.deployment.ID)
		case from != "" && a.appAtVersion(from) == nil:
			return fmt.Errorf("there is no version %s of %s", from, id)
		}
		a.deployment = d
	}
	s.enterStep(d)
	return nil
}

// TakeChangedDocuments returns the documents that have changed since the last call. A
// deleted one is nil. The caller records them before it executes the actions of Step.
func (s *DesiredState) TakeChangedDocuments() map[string][]byte {
	documents := make(map[string][]byte, len(s.changedDocuments))
	for key := range s.changedDocuments {
		documents[key] = s.encodeDocument(key)
	}
	clear(s.changedDocuments)
	return documents
}

func (s *DesiredState) encodeDocument(key string) []byte {
	if id, ok := strings.CutPrefix(key, deploymentKey); ok {
		if d := s.deploymentByID(id); d != nil {
			return mustMarshal(d)
		}
		return nil
	}
	if id, ok := strings.CutPrefix(key, groupKey); ok {
		if g := s.groups[id]; g != nil {
			return mustMarshal(g)
		}
		return nil
	}
	a := s.apps[strings.TrimPrefix(key, appKey)]
	if a == nil || len(a.versions) == 0 {
		return nil
	}
	doc := appDocument{Gone: a.removing}
	for _, v := range a.versions {
		doc.Versions = append(doc.Versions, v.text)
	}
	return mustMarshal(doc)
}

// mustMarshal encodes values for which encoding cannot fail.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("write a document: " + err.Error())
	}
	return b
}
