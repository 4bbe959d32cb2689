package deploy

import (
	"slices"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// appEvaluation compares the desired state of one app with its instances and collects the
// actions.
type appEvaluation struct {
	app       *appRecord
	instances []AppInstance // as they are now
	wanted    *marathon.App // nil if the app is removed
	// rolling is true if instances of other configurations are replaced.
	rolling bool

	jobs    map[string]*jobInstances
	actions []Action
	// grownVersion is the version of the job that gets more instances.
	grownVersion string
}

// jobInstances are the instances of one job.
type jobInstances struct {
	version string
	app     *marathon.App // nil if its version is not kept
	// active instances are to be kept. leaving counts instances that are ending
	// and reachable.
	active  []*AppInstance
	leaving int
	// exists is true if the job has not ended, ending if it was killed.
	// unreachable counts instances that end with it and are out of reach.
	exists, ending bool
	unreachable    int
}

func newEvaluation(a *appRecord, instances []AppInstance) *appEvaluation {
	l := &appEvaluation{app: a, instances: instances, jobs: map[string]*jobInstances{}}
	switch d := a.deployment; {
	case len(a.versions) == 0:
	case d == nil:
		l.wanted = a.currentApp()
	case a.removing:
	default:
		l.wanted, l.rolling = a.currentApp(), true
	}
	l.countInstances()
	return l
}

// countInstances assigns the instances to their jobs. Those that were requested to end are leaving.
func (l *appEvaluation) countInstances() {
	a := l.app
	present := map[string]bool{}
	for i := range l.instances {
		one := &l.instances[i]
		f := l.ensureJob(one.Version)
		f.exists = f.exists || one.State.IsLive() || one.KillReason == job.KillByScaling
		f.ending = f.ending || one.isCondemned()
		if one.isCondemned() && one.State == job.Unreachable {
			f.unreachable++
		}
		switch {
		case !one.isLeaving() && a.stopRequested[one.ID]:
			present[one.ID] = true
			f.leaving++
		case !one.isLeaving():
			f.active = append(f.active, one)
		case one.State.IsLive() && one.State != job.Unreachable:
			f.leaving++
		}
	}
	for id := range a.stopRequested {
		if !present[id] {
			delete(a.stopRequested, id)
		}
	}
}

func (l *appEvaluation) ensureJob(version string) *jobInstances {
	f, ok := l.jobs[version]
	if !ok {
		f = &jobInstances{version: version, app: l.app.appAtConfig(version)}
		l.jobs[version] = f
	}
	return f
}

// isStuck reports whether the job was killed and has not ended only because agents are
// unreachable, possibly forever.
func (i *jobInstances) isStuck() bool {
	return i.ending && i.unreachable > 0 && len(i.active) == 0 && i.leaving == 0
}

// requester returns the user whose deployment changes the app, "" without one.
func (l *appEvaluation) requester() string {
	if l.app.deployment == nil {
		return ""
	}
	return l.app.deployment.By
}

// decideActions collects the actions. It reports whether the app is in its desired state.
func (l *appEvaluation) decideActions() bool {
	if l.wanted == nil {
		return l.killJobs()
	}
	n := l.ensureJob(l.wanted.VersionInfo.LastConfigChangeAt)
	var old []*jobInstances
	for _, v := range sortedKeys(l.jobs) {
		if f := l.jobs[v]; f != n {
			old = append(old, f)
		}
	}
	if l.rolling {
		l.replaceInstances(n, old)
	} else {
		l.holdCount(n, old)
	}
	l.requestStops()
	return l.isSettled(n, old)
}

// killJobs ends all jobs of the app.
func (l *appEvaluation) killJobs() bool {
	done := true
	for _, v := range sortedKeys(l.jobs) {
		f := l.jobs[v]
		if f.exists && !f.ending {
			l.actions = append(l.actions, KillJob{l.app.id, v, l.requester()})
		}
		done = done && len(f.active) == 0 && f.leaving == 0
	}
	return done
}

// isSettled reports whether all desired instances serve and no others run. It also kills
// jobs that are not needed any more.
func (l *appEvaluation) isSettled(n *jobInstances, old []*jobInstances) bool {
	done := l.rolling && n.leaving == 0 && len(n.active) == l.wanted.Instances
	for _, i := range n.active {
		done = done && i.isReady(n.app)
	}
	for _, f := range old {
		done = done && len(f.active) == 0 && f.leaving == 0
		if l.app.deployment == nil && f.exists && !f.ending && len(f.active) == 0 {
			l.actions = append(l.actions, KillJob{l.app.id, f.version, l.requester()})
		}
	}
	return done
}

// scaleUp brings a job to a number of instances, unless it has as many or is ending.
func (l *appEvaluation) scaleUp(f *jobInstances, instances int) {
	if instances <= len(f.active) || f.ending {
		return
	}
	l.grownVersion = f.version
	if f.exists {
		l.actions = append(l.actions, ScaleJob{l.app.id, f.version, instances, l.requester()})
		return
	}
	first := *l.wanted
	first.Instances = instances
	l.actions = append(l.actions, SubmitJob{&first})
}

// markStopping removes instances from the active ones of their jobs.
func (l *appEvaluation) markStopping(list []*AppInstance) {
	for _, i := range list {
		f := l.jobs[i.Version]
		f.active = slices.DeleteFunc(f.active, func(one *AppInstance) bool { return one == i })
		f.leaving++
		if l.app.stopRequested == nil {
			l.app.stopRequested = map[string]bool{}
		}
		l.app.stopRequested[i.ID] = true
	}
}

// requestStops adds an action that stops the instances that were requested to end, before those that start instances. It
// forgets instances of the job that is scaled up: the job may use them again.
func (l *appEvaluation) requestStops() {
	if len(l.app.stopRequested) == 0 {
		return
	}
	l.actions = append([]Action{StopInstances{l.app.id, sortedKeys(l.app.stopRequested), l.requester()}}, l.actions...)
	for _, i := range l.instances {
		if i.Version == l.grownVersion {
			delete(l.app.stopRequested, i.ID)
		}
	}
}
