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

	// told is the plan as its events tell it, once there was one.
	told *EventPlan
	turn map[string]int
	// undone are the apps of the step under way that are not yet as they
	// should be.
	undone map[string]bool
}

// Affected lists the apps that the deployment changes, sorted.
func (d *Deployment) Affected() []string { return sorted(d.From) }

// Step is the step under way, empty before the first.
func (d *Deployment) Step() PlanStep {
	if d.Current < 1 || d.Current > len(d.Steps) {
		return PlanStep{}
	}
	return d.Steps[d.Current-1]
}

// begun reports whether the app's turn has come. Marathon's StartApplication
// starts nothing yet, so the last step that names the app counts.
func (d *Deployment) begun(app string) bool { return d.Current >= d.turn[app] }

// index notes each app's turn.
func (d *Deployment) index() {
	d.turn = make(map[string]int, len(d.From))
	for i, s := range d.Steps {
		for _, a := range s.Actions {
			d.turn[a.App] = i + 1
		}
	}
}

// Locked says that deployments under way change the same apps, which Marathon
// answers with status 409.
type Locked struct{ Deployments []string }

func (e *Locked) Error() string {
	return fmt.Sprintf("the same apps are changed by %s already: wait, or force it", strings.Join(e.Deployments, ", "))
}

// Unknown names an app, version, group, instance or deployment that is not
// there, which Marathon answers with status 404.
type Unknown struct{ Kind, ID string }

func (e *Unknown) Error() string { return fmt.Sprintf("there is no %s %q", e.Kind, e.ID) }
