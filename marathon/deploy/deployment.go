package deploy

import (
	"fmt"
	"strings"
)

// Plan is what a deployment does, step after step.
type Plan struct {
	ID      string     `json:"id"`
	Version string     `json:"version"`
	Steps   []PlanStep `json:"steps"`
}

// PlanStep is what is done at the same time.
type PlanStep struct {
	Actions []PlanAction `json:"actions"`
}

// PlanAction is what happens to one app, in Marathon's words.
type PlanAction struct {
	Action string `json:"action"`
	App    string `json:"app"`
}

// Names of a PlanAction.
const (
	StartApplication   = "StartApplication"
	StopApplication    = "StopApplication"
	ScaleApplication   = "ScaleApplication"
	RestartApplication = "RestartApplication"
)

// Deployment is a change under way.
type Deployment struct {
	Plan
	// Current is the step under way, from 1; 0 before the first.
	Current int `json:"current"`
	// From is the version of each app before, "" of new ones.
	From map[string]string `json:"from"`
	// Groups are those that it changed as they were, nil where there was none.
	Groups map[string]*GroupInfo `json:"groups,omitempty"`
	// Kill names the instances of each app that go first.
	Kill map[string][]string `json:"kill,omitempty"`

	// eventPlan is the plan as its events tell it, once there was one.
	eventPlan *EventPlan
	stepOf    map[string]int
	// pending are the apps of the step under way that are not yet as they
	// should be.
	pending map[string]bool
}

// AffectedApps lists the apps that the deployment changes, sorted.
func (d *Deployment) AffectedApps() []string { return sortedKeys(d.From) }

// CurrentStep is the step under way, empty before the first.
func (d *Deployment) CurrentStep() PlanStep {
	if d.Current < 1 || d.Current > len(d.Steps) {
		return PlanStep{}
	}
	return d.Steps[d.Current-1]
}

// hasReached reports whether the app's turn has come. Marathon's StartApplication
// starts nothing yet, so the last step that names the app counts.
func (d *Deployment) hasReached(app string) bool { return d.Current >= d.stepOf[app] }

// indexSteps notes each app's turn.
func (d *Deployment) indexSteps() {
	d.stepOf = make(map[string]int, len(d.From))
	for i, s := range d.Steps {
		for _, a := range s.Actions {
			d.stepOf[a.App] = i + 1
		}
	}
}

// LockedError says that deployments under way change the same apps, which Marathon
// answers with status 409.
type LockedError struct{ Deployments []string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("the same apps are changed by %s already: wait, or force it", strings.Join(e.Deployments, ", "))
}

// NotFoundError names an app, version, group, instance or deployment that is not
// there, which Marathon answers with status 404.
type NotFoundError struct{ Kind, ID string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no %s %q", e.Kind, e.ID) }
