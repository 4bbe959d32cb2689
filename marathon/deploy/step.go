package deploy

import (
	"cmp"
	"slices"
	"time"
)

// Step evaluates the given apps, whose instances may have changed, and the apps that users have changed. It returns
// actions and events. It may be called at any time, also for apps without a change: it repeats actions whose effect
// it does not see. After the caller has executed actions of an app, it passes the app to the next Step.
func (s *DesiredState) Step(changed ...string) ([]Action, []BusEvent) {
	instances := map[string][]AppInstance{} // of the apps that this Step has read
	for _, id := range slices.Sorted(slices.Values(changed)) {
		instances[id] = s.instancesOf(id)
		s.events = append(s.events, s.ensureApp(id).updateHealth(instances[id])...)
		s.dirty[id] = true
	}
	do := map[string][]Action{}
	for {
		for id := range s.dirty {
			if _, read := instances[id]; !read {
				instances[id] = s.instancesOf(id)
			}
			do[id] = s.evaluateApp(s.apps[id], instances[id])
		}
		clear(s.dirty)
		if !s.advanceDeployments() {
			break
		}
	}
	var actions []Action
	for _, id := range sortedKeys(do) {
		actions = append(actions, do[id]...)
	}
	events := s.events
	s.events = nil
	return actions, events
}

// evaluateApp returns the actions of an app, and records whether the app has reached its
// desired state. Before the deployment has reached the app there are none.
func (s *DesiredState) evaluateApp(a *appRecord, instances []AppInstance) []Action {
	if a.deployment != nil && !a.deployment.hasReached(a.id) {
		return nil
	}
	l := newEvaluation(a, instances)
	if l.wanted != nil && l.ensureJob(l.wanted.VersionInfo.LastConfigChangeAt).isStuck() {
		s.renewVersion(a, instances)
		l = newEvaluation(a, instances)
	}
	done := l.decideActions()
	if d := a.deployment; d != nil && d.pending != nil {
		if d.stepOf[a.id] == d.Current && !done {
			d.pending[a.id] = true
		} else {
			delete(d.pending, a.id)
		}
	}
	if len(a.versions) == 0 && len(instances) == 0 {
		delete(s.apps, a.id)
	}
	return l.actions
}

// renewVersion gives an app a new version with the same definition, and with it a new job.
// A user has killed the job of the old version, whose name is in use until its last
// instances have ended. Those instances were given up with the job.
func (s *DesiredState) renewVersion(a *appRecord, instances []AppInstance) {
	v := s.nextVersion(s.lastVersion)
	a.versions = append(a.versions, newVersion(a.currentApp(), v, v))
	s.lastVersion, _ = time.Parse(versionLayout, v) // nextVersion has formatted it
	a.trimVersions(instances)
	s.changedDocuments[appKey+a.id] = struct{}{}
}

// advanceDeployments completes steps without pending apps. It reports whether apps must be
// evaluated again.
func (s *DesiredState) advanceDeployments() bool {
	for _, d := range slices.Clone(s.deployments) {
		for d.Current == 0 || len(d.pending) == 0 {
			if d.Current > 0 {
				s.completeStep(d)
			}
			if d.Current >= len(d.Steps) {
				s.completeDeployment(d)
				break
			}
			d.Current++
			s.changedDocuments[deploymentKey+d.ID] = struct{}{}
			s.enterStep(d)
			s.events = append(s.events, DeploymentInfo{Plan: s.eventPlanOf(d), Step: d.CurrentStep()})
		}
	}
	return len(s.dirty) > 0
}

// enterStep marks the apps of the current step for evaluation. StartApplication needs
// none.
func (s *DesiredState) enterStep(d *Deployment) {
	d.pending = map[string]bool{}
	for _, a := range d.CurrentStep().Actions {
		if a.Action != StartApplication {
			d.pending[a.App] = true
			s.dirty[a.App] = true
		}
	}
}

func (s *DesiredState) completeStep(d *Deployment) {
	step := d.CurrentStep()
	for _, a := range step.Actions {
		if a.Action == StopApplication {
			s.events = append(s.events, AppTerminated{AppID: a.App})
		}
	}
	s.events = append(s.events, DeploymentStepSuccess{Plan: s.eventPlanOf(d), Step: step})
}

func (s *DesiredState) completeDeployment(d *Deployment) {
	plan := s.eventPlanOf(d)
	s.endDeployment(d)
	s.events = append(s.events, DeploymentSuccess{ID: d.ID, Plan: plan})
}

func (s *DesiredState) failDeployment(d *Deployment, reason string) {
	plan := s.eventPlanOf(d)
	s.endDeployment(d)
	s.events = append(s.events, DeploymentFailed{ID: d.ID, Plan: plan, Reason: reason})
}

// endDeployment forgets a deployment and the apps that it removed. It ignores apps that
// another deployment has taken over.
func (s *DesiredState) endDeployment(d *Deployment) {
	s.deployments = slices.DeleteFunc(s.deployments, func(one *Deployment) bool { return one == d })
	s.changedDocuments[deploymentKey+d.ID] = struct{}{}
	for id := range d.From {
		a := s.apps[id]
		if a.deployment != d {
			continue
		}
		a.deployment = nil
		if a.removing {
			a.versions, a.removing = nil, false
			s.changedDocuments[appKey+id] = struct{}{}
		}
		s.dirty[id] = true
	}
}

func (s *DesiredState) deploymentByID(id string) *Deployment {
	for _, d := range s.deployments {
		if d.ID == id {
			return d
		}
	}
	return nil
}

func (s *DesiredState) orderDeployments() {
	slices.SortFunc(s.deployments, func(a, b *Deployment) int { return cmp.Compare(a.Version, b.Version) })
}
