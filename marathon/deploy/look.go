package deploy

import (
	"slices"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// look is one sight of an app: what is wanted, what is there, what to do.
type look struct {
	app  *app
	want *marathon.App // nil: nothing
	// roll says that instances of other configurations are to be replaced.
	roll bool

	fleets  map[string]*fleet
	actions []Action
	// grown is the version of which more are started.
	grown string
}

// fleet are the instances of one job.
type fleet struct {
	version string
	app     *marathon.App // nil where its version is not kept
	// active instances are wanted still, leaving counts those that are not
	// and have not ended, but for those that are out of reach.
	active  []*Instance
	leaving int
	// there says that the job has not ended, ending that it is about to; away
	// counts those that end with it and are out of reach.
	there, ending bool
	away          int
}

func newLook(a *app) *look {
	l := &look{app: a, fleets: map[string]*fleet{}}
	switch d := a.deployment; {
	case len(a.versions) == 0:
	case d == nil:
		l.want = a.current()
	case a.gone:
	default:
		l.want, l.roll = a.current(), true
	}
	l.count()
	return l
}

// count sorts the instances into fleets. What was asked to end leaves.
func (l *look) count() {
	a := l.app
	present := map[string]bool{}
	for i := range a.seen {
		one := &a.seen[i]
		f := l.fleet(one.Version)
		f.there = f.there || one.State.Live() || one.KillReason == job.ByScale
		f.ending = f.ending || one.condemned()
		if one.condemned() && one.State == job.Unreachable {
			f.away++
		}
		switch {
		case !one.leaving() && a.asked[one.TaskID]:
			present[one.TaskID] = true
			f.leaving++
		case !one.leaving():
			f.active = append(f.active, one)
		case one.State.Live() && one.State != job.Unreachable:
			f.leaving++
		}
	}
	for id := range a.asked {
		if !present[id] {
			delete(a.asked, id)
		}
	}
}

func (l *look) fleet(version string) *fleet {
	f, ok := l.fleets[version]
	if !ok {
		f = &fleet{version: version, app: l.app.config(version)}
		l.fleets[version] = f
	}
	return f
}

// stuck reports whether the fleet's job was ended, and all that keeps it from
// having ended is instances whose agents are away, which may be for ever.
func (f *fleet) stuck() bool { return f.ending && f.away > 0 && len(f.active) == 0 && f.leaving == 0 }

// run decides, and reports whether nothing is left to do or to wait for.
func (l *look) run() bool {
	if l.want == nil {
		return l.clear()
	}
	n := l.fleet(l.want.VersionInfo.LastConfigChangeAt)
	var old []*fleet
	for _, v := range sorted(l.fleets) {
		if f := l.fleets[v]; f != n {
			old = append(old, f)
		}
	}
	if l.roll {
		l.replace(n, old)
	} else {
		l.hold(n, old)
	}
	l.sayStops()
	return l.settled(n, old)
}

// clear ends whatever there is.
func (l *look) clear() bool {
	done := true
	for _, v := range sorted(l.fleets) {
		f := l.fleets[v]
		if f.there && !f.ending {
			l.actions = append(l.actions, Kill{l.app.id, v})
		}
		done = done && len(f.active) == 0 && f.leaving == 0
	}
	return done
}

// settled reports whether all that is wanted serves, and nothing else runs.
// It ends the jobs of which nothing will be wanted again.
func (l *look) settled(n *fleet, old []*fleet) bool {
	done := l.roll && n.leaving == 0 && len(n.active) == l.want.Instances
	for _, i := range n.active {
		done = done && i.ready(n.app)
	}
	for _, f := range old {
		done = done && len(f.active) == 0 && f.leaving == 0
		if l.app.deployment == nil && f.there && !f.ending && len(f.active) == 0 {
			l.actions = append(l.actions, Kill{l.app.id, f.version})
		}
	}
	return done
}

// grow brings a fleet to so many instances, if it has fewer and may have.
func (l *look) grow(f *fleet, instances int) {
	if instances <= len(f.active) || f.ending {
		return
	}
	l.grown = f.version
	if f.there {
		l.actions = append(l.actions, Scale{l.app.id, f.version, instances})
		return
	}
	first := *l.want
	first.Instances = instances
	l.actions = append(l.actions, Submit{&first})
}

// stop takes instances out of their fleets.
func (l *look) stop(list []*Instance) {
	for _, i := range list {
		f := l.fleets[i.Version]
		f.active = slices.DeleteFunc(f.active, func(one *Instance) bool { return one == i })
		f.leaving++
		if l.app.asked == nil {
			l.app.asked = map[string]bool{}
		}
		l.app.asked[i.TaskID] = true
	}
}

// sayStops asks for the ends that were asked for and are not yet seen, before
// anything is started. Of a job that starts some, those may be the same again,
// and are not to be stopped then.
func (l *look) sayStops() {
	if len(l.app.asked) == 0 {
		return
	}
	l.actions = append([]Action{Stop{l.app.id, sorted(l.app.asked)}}, l.actions...)
	for _, i := range l.app.seen {
		if i.Version == l.grown {
			delete(l.app.asked, i.TaskID)
		}
	}
}
