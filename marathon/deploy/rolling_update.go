package deploy

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// InstanceBounds are how many instances of an app serve at least, and run at most,
// while others take their places. Where the two are the same, one more may
// run for a while.
func InstanceBounds(a *marathon.App) (least, most int) {
	const rounding = 1e-9 // of decimal fractions that float64 cannot hold
	n, u := float64(a.Instances), a.UpgradeStrategy
	least = int(math.Ceil(n*u.MinimumHealthCapacity - rounding))
	most = a.Instances + int(n*u.MaximumOverCapacity+rounding)
	return least, most
}

// replaceInstances brings the wanted fleet up and the old ones down, within Bounds.
func (l *appEvaluation) replaceInstances(n *jobInstances, old []*jobInstances) {
	least, most := InstanceBounds(l.wanted)
	serving := 0
	for _, i := range n.active {
		if i.isReady(n.app) {
			serving++
		}
	}
	var others []*AppInstance
	for _, f := range old {
		for _, i := range f.active {
			if i.isHealthy(f.app) {
				serving++
			}
		}
		others = append(others, f.active...)
	}
	if least == most && serving >= most {
		most++
	}
	if len(others) == 0 {
		l.holdCount(n, nil)
		return
	}
	spare := l.dismissInstances(others, len(others), serving-least)
	l.dismissInstances(n.active, len(n.active)-l.wanted.Instances, spare)

	room := most - len(n.active)
	for _, f := range old {
		room -= len(f.active)
	}
	if l.wanted.IsSingleInstance() {
		room -= l.countLeaving()
	}
	l.scaleUp(n, min(l.wanted.Instances, len(n.active)+max(0, room)))
}

// dismissInstances stops up to so many of the instances: those that do not serve, and
// as many more as can be spared. It returns how many still can.
func (l *appEvaluation) dismissInstances(list []*AppInstance, most, spare int) int {
	var out []*AppInstance
	for i := range l.evictionOrder(list) {
		if len(out) >= most {
			break
		}
		if l.isServing(i) {
			if spare <= 0 && !l.isNamed(i) {
				break // from here on all serve
			}
			if spare <= 0 {
				continue
			}
			spare--
		}
		out = append(out, i)
	}
	l.markStopping(out)
	return spare
}

// isServing reports whether the instance counts for what must serve: new ones
// have to be ready too.
func (l *appEvaluation) isServing(i *AppInstance) bool {
	f := l.jobs[i.Version]
	if l.rolling && i.Version == l.wanted.VersionInfo.LastConfigChangeAt {
		return i.isReady(f.app)
	}
	return i.isHealthy(f.app)
}

// countLeaving counts instances that leave and may still run, wherever they are.
func (l *appEvaluation) countLeaving() int {
	count := 0
	for i := range l.app.instances {
		one := &l.app.instances[i]
		if one.State.IsPlaced() && (one.isLeaving() || l.app.stopRequested[one.TaskID]) {
			count++
		}
	}
	return count
}

// holdCount keeps the number of instances, whatever their configurations: it is
// not for it to replace any.
func (l *appEvaluation) holdCount(n *jobInstances, old []*jobInstances) {
	all := slices.Clone(n.active)
	for _, f := range old {
		all = append(all, f.active...)
	}
	if extra := len(all) - l.wanted.Instances; extra > 0 {
		l.dismissInstances(all, extra, extra)
		return
	}
	missing := l.wanted.Instances - len(all)
	if l.wanted.IsSingleInstance() {
		missing = max(0, missing-l.countLeaving())
	}
	l.scaleUp(n, len(n.active)+missing)
}

// evictionOrder yields instances by who goes first: those named, those that do not
// run, the unhealthy, those of other configurations, those whose places the
// constraints find fullest, then as the app says.
func (l *appEvaluation) evictionOrder(list []*AppInstance) iter.Seq[*AppInstance] {
	config, oldest := l.wanted.VersionInfo.LastConfigChangeAt, l.wanted.KillSelection == "OLDEST_FIRST"
	first := func(a, b *AppInstance) int {
		return cmp.Or(
			-compareBools(l.isNamed(a), l.isNamed(b)),
			cmp.Compare(l.evictionRank(a), l.evictionRank(b)),
			-compareBools(a.Version != config, b.Version != config),
		)
	}
	last := func(a, b *AppInstance) int {
		age := b.Started.Compare(a.Started)
		if oldest {
			age = -age
		}
		return cmp.Or(age, strings.Compare(a.TaskID, b.TaskID))
	}
	return job.EvictionOrder(l.spreadCounter(), list, (*AppInstance).constraintValue, first, last)
}

// spreadCounter are the instances that stay, whatever their configurations, as the
// wanted one counts them.
func (l *appEvaluation) spreadCounter() job.SpreadCounter {
	var constraints []job.Constraint
	for _, words := range l.wanted.Constraints {
		if c, err := job.NewConstraint(words...); err == nil { // Parse looked at it
			constraints = append(constraints, c)
		}
	}
	all := job.NewSpreadCounter(constraints)
	for i := range l.app.instances {
		one := &l.app.instances[i]
		if len(all) > 0 && one.State.IsPlaced() && one.KillRequested.IsZero() && !l.app.stopRequested[one.TaskID] {
			all.AddTask(one.constraintValue)
		}
	}
	return all
}

// isNamed reports whether a request named the instance to go.
func (l *appEvaluation) isNamed(i *AppInstance) bool {
	d := l.app.deployment
	return d != nil && slices.Contains(d.Kill[l.app.id], i.TaskID)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// evictionRank is how much is lost with an instance.
func (l *appEvaluation) evictionRank(i *AppInstance) int {
	switch {
	case i.State == job.Waiting:
		return 0
	case i.State == job.Unreachable:
		return 1
	case i.State != job.Running:
		return 2
	case !l.isServing(i):
		return 3
	}
	return 4
}
