package deploy

import (
	"fmt"
	"strings"
)

// Plan is the sequence of steps of a deployment.
type Plan struct {
	ID      string     `json:"id"`
	Version string     `json:"version"`
	Steps   []PlanStep `json:"steps"`
}

// PlanStep is a set of concurrent actions.
type PlanStep struct {
	Actions []PlanAction `json:"actions"`
}

// PlanAction is a change to one app, by Marathon's names.
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

// Deployment is a change in progress.
type Deployment struct {
	Plan
	// Current is the number of the current step, from 1. It is 0 before the first.
	Current int `json:"current"`
	// From is the version of each app before the change, "" for a new app.
	From map[string]string `json:"from"`
	// Groups are the changed groups as they were before, nil for a new group.
	Groups map[string]*GroupInfo `json:"groups,omitempty"`
	// Kill lists the instances of each app that are ended first.
	Kill map[string][]string `json:"kill,omitempty"`
	// By is the user who requested the change, "" if it is unknown.
	By string `json:"by,omitempty"`

	// eventPlan is the plan in the deployment's events. The first event sets it.
	eventPlan *EventPlan
	stepOf    map[string]int
	// pending are the apps of the current step that have not reached their
	// desired state.
	pending map[string]bool
}

// AffectedApps lists the apps that the deployment changes, sorted.
func (d *Deployment) AffectedApps() []string { return sortedKeys(d.From) }

// CurrentStep returns the current step. It is empty before the first.
func (d *Deployment) CurrentStep() PlanStep {
	if d.Current < 1 || d.Current > len(d.Steps) {
		return PlanStep{}
	}
	return d.Steps[d.Current-1]
}

// hasReached reports whether the deployment has reached the app's step. That is the last
// step that names the app, because StartApplication starts no instances.
func (d *Deployment) hasReached(app string) bool { return d.Current >= d.stepOf[app] }

// indexSteps records the step of each app.
func (d *Deployment) indexSteps() {
	d.stepOf = make(map[string]int, len(d.From))
	for i, s := range d.Steps {
		for _, a := range s.Actions {
			d.stepOf[a.App] = i + 1
		}
	}
}

// LockedError is returned if other deployments change the same apps. Marathon answers with
// status 409.
type LockedError struct{ Deployments []string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("the same apps are changed by %s already: wait, or force it", strings.Join(e.Deployments, ", "))
}

// NotFoundError names an app, version, group, instance or deployment that does not exist.
// Marathon answers with status 404.
type NotFoundError struct{ Kind, ID string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no %s %q", e.Kind, e.ID) }
