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

// InstanceBounds returns how many instances of an app must serve, and how many may run,
// during a rolling update. If both are equal, one more may run.
func InstanceBounds(a *marathon.App) (least, most int) {
	const rounding = 1e-9 // for decimal fractions that a float64 cannot represent
	n, u := float64(a.Instances), a.UpgradeStrategy
	least = int(math.Ceil(n*u.MinimumHealthCapacity - rounding))
	most = a.Instances + int(n*u.MaximumOverCapacity+rounding)
	return least, most
}

// replaceInstances scales the new job up and the old ones down, within InstanceBounds.
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

// dismissInstances stops up to most of the instances: those that do not serve, and up to
// spare of those that do. It returns how much of spare is left.
func (l *appEvaluation) dismissInstances(list []*AppInstance, most, spare int) int {
	var out []*AppInstance
	for i := range l.evictionOrder(list) {
		if len(out) >= most {
			break
		}
		if l.isServing(i) {
			if spare <= 0 && !l.isNamed(i) {
				break // all that follow serve
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

// isServing reports whether the instance counts as serving. An instance of the new
// configuration must also be ready.
func (l *appEvaluation) isServing(i *AppInstance) bool {
	f := l.jobs[i.Version]
	if l.rolling && i.Version == l.wanted.VersionInfo.LastConfigChangeAt {
		return i.isReady(f.app)
	}
	return i.isHealthy(f.app)
}

// countLeaving returns the number of instances that are ending and may still run.
func (l *appEvaluation) countLeaving() int {
	count := 0
	for i := range l.instances {
		one := &l.instances[i]
		if one.State.IsPlaced() && (one.isLeaving() || l.app.stopRequested[one.ID]) {
			count++
		}
	}
	return count
}

// holdCount keeps the number of instances, whatever their configurations. It replaces none.
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

// evictionOrder yields the instances in the order in which they are stopped: those that a
// request named, those that do not run, the unhealthy, those of other configurations, those
// in the places with most tasks by the constraints, then by the app's KillSelection.
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
		return cmp.Or(age, strings.Compare(a.ID, b.ID))
	}
	return job.EvictionOrder(l.spreadCounter(), list, (*AppInstance).constraintValue, first, last)
}

// spreadCounter counts the instances that stay, by the constraints of the new
// configuration.
func (l *appEvaluation) spreadCounter() job.SpreadCounter {
	var constraints []job.Constraint
	for _, words := range l.wanted.Constraints {
		if c, err := job.NewConstraint(words...); err == nil { // ParseApp has checked it
			constraints = append(constraints, c)
		}
	}
	all := job.NewSpreadCounter(constraints)
	for i := range l.instances {
		one := &l.instances[i]
		if len(all) > 0 && one.State.IsPlaced() && one.KillRequested.IsZero() && !l.app.stopRequested[one.ID] {
			all.AddTask(one.constraintValue)
		}
	}
	return all
}

// isNamed reports whether a request named the instance to be stopped.
func (l *appEvaluation) isNamed(i *AppInstance) bool {
	d := l.app.deployment
	return d != nil && slices.Contains(d.Kill[l.app.id], i.ID)
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

// evictionRank is higher for instances that are more costly to stop.
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
