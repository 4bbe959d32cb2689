package deploy

import (
	"cmp"
	"slices"
	"time"
)

// Step is told what instances there are of those apps where that has changed,
// of an app all or none, and says what to do next, and what happened. It may
// be called at any time, also for apps where nothing has changed: it asks
// again for what it does not see done. Whoever has done actions of an app
// tells the next Step of that app, with what they have led to.
func (s *State) Step(seen map[string][]Instance) ([]Action, []Event) {
	for _, id := range sorted(seen) {
		a := s.app(id)
		if s.met {
			s.events = append(s.events, healthChanges(id, a.seen, seen[id])...)
		}
		a.seen = slices.Clone(seen[id])
		s.dirty[id] = true
	}
	s.met = true
	do := map[string][]Action{}
	for {
		for id := range s.dirty {
			do[id] = s.look(s.apps[id])
		}
		clear(s.dirty)
		if !s.advance() {
			break
		}
	}
	var actions []Action
	for _, id := range sorted(do) {
		actions = append(actions, do[id]...)
	}
	events := s.events
	s.events = nil
	return actions, events
}

// look says what is to be done to an app, and notes whether all is. Before
// its turn in a deployment nothing is: its jobs keep what they have.
func (s *State) look(a *app) []Action {
	if a.deployment != nil && !a.deployment.begun(a.id) {
		return nil
	}
	l := newLook(a)
	if l.want != nil && l.fleet(l.want.VersionInfo.LastConfigChangeAt).stuck() {
		s.renew(a)
		l = newLook(a)
	}
	done := l.run()
	if d := a.deployment; d != nil && d.undone != nil {
		if d.turn[a.id] == d.Current && !done {
			d.undone[a.id] = true
		} else {
			delete(d.undone, a.id)
		}
	}
	if len(a.versions) == 0 && len(a.seen) == 0 {
		delete(s.apps, a.id)
	}
	return l.actions
}

// renew wants the same of an app under another version, whose job is another
// one too: somebody has ended that of this version, and it cannot be started
// again before its last instances have ended. Those were given up by whoever
// ended it, so that none of them is one that the app still has.
func (s *State) renew(a *app) {
	v := s.stamp(s.last)
	a.versions = append(a.versions, versioned(a.current(), v, v))
	s.last, _ = time.Parse(stampFormat, v) // its own writing
	a.trim()
	s.drain[appKey+a.id] = struct{}{}
}

// advance ends the steps of which nothing is left to do, and reports whether
// there are apps to look at again.
func (s *State) advance() bool {
	for _, d := range slices.Clone(s.deployments) {
		for d.Current == 0 || len(d.undone) == 0 {
			if d.Current > 0 {
				s.stepDone(d)
			}
			if d.Current >= len(d.Steps) {
				s.succeed(d)
				break
			}
			d.Current++
			s.drain[deploymentKey+d.ID] = struct{}{}
			s.enter(d)
			s.events = append(s.events, DeploymentInfo{Plan: s.planOf(d), Step: d.Step()})
		}
	}
	return len(s.dirty) > 0
}

// enter has the apps of the step under way looked at. Apps that only start in
// it are done.
func (s *State) enter(d *Deployment) {
	d.undone = map[string]bool{}
	for _, a := range d.Step().Actions {
		if a.Action != StartApplication {
			d.undone[a.App] = true
			s.dirty[a.App] = true
		}
	}
}

func (s *State) stepDone(d *Deployment) {
	step := d.Step()
	for _, a := range step.Actions {
		if a.Action == StopApplication {
			s.events = append(s.events, AppTerminated{AppID: a.App})
		}
	}
	s.events = append(s.events, DeploymentStepSuccess{Plan: s.planOf(d), Step: step})
}

func (s *State) succeed(d *Deployment) {
	plan := s.planOf(d)
	s.end(d)
	s.events = append(s.events, DeploymentSuccess{ID: d.ID, Plan: plan})
}

func (s *State) fail(d *Deployment, reason string) {
	plan := s.planOf(d)
	s.end(d)
	s.events = append(s.events, DeploymentFailed{ID: d.ID, Plan: plan, Reason: reason})
}

// end forgets a deployment, and for good the apps that it removed. Apps that
// another has taken over are not its own any more.
func (s *State) end(d *Deployment) {
	s.deployments = slices.DeleteFunc(s.deployments, func(one *Deployment) bool { return one == d })
	s.drain[deploymentKey+d.ID] = struct{}{}
	for id := range d.From {
		a := s.apps[id]
		if a.deployment != d {
			continue
		}
		a.deployment = nil
		if a.gone {
			a.versions, a.gone = nil, false
			s.drain[appKey+id] = struct{}{}
		}
		s.dirty[id] = true
	}
}

func (s *State) byID(id string) *Deployment {
	for _, d := range s.deployments {
		if d.ID == id {
			return d
		}
	}
	return nil
}

func (s *State) orderDeployments() {
	slices.SortFunc(s.deployments, func(a, b *Deployment) int { return cmp.Compare(a.Version, b.Version) })
}
