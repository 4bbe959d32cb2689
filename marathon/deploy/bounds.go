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

// Bounds are how many instances of an app serve at least, and run at most,
// while others take their places. Where the two are the same, one more may
// run for a while.
func Bounds(a *marathon.App) (least, most int) {
	const rounding = 1e-9 // of decimal fractions that float64 cannot hold
	n, u := float64(a.Instances), a.UpgradeStrategy
	least = int(math.Ceil(n*u.MinimumHealthCapacity - rounding))
	most = a.Instances + int(n*u.MaximumOverCapacity+rounding)
	return least, most
}

// replace brings the wanted fleet up and the old ones down, within Bounds.
func (l *look) replace(n *fleet, old []*fleet) {
	least, most := Bounds(l.want)
	serving := 0
	for _, i := range n.active {
		if i.ready(n.app) {
			serving++
		}
	}
	var others []*Instance
	for _, f := range old {
		for _, i := range f.active {
			if i.healthy(f.app) {
				serving++
			}
		}
		others = append(others, f.active...)
	}
	if least == most && serving >= most {
		most++
	}
	if len(others) == 0 {
		l.hold(n, nil)
		return
	}
	spare := l.dismiss(others, len(others), serving-least)
	l.dismiss(n.active, len(n.active)-l.want.Instances, spare)

	room := most - len(n.active)
	for _, f := range old {
		room -= len(f.active)
	}
	if l.want.SingleInstance() {
		room -= l.remaining()
	}
	l.grow(n, min(l.want.Instances, len(n.active)+max(0, room)))
}

// dismiss stops up to so many of the instances: those that do not serve, and
// as many more as can be spared. It returns how many still can.
func (l *look) dismiss(list []*Instance, most, spare int) int {
	var out []*Instance
	for i := range l.leaving(list) {
		if len(out) >= most {
			break
		}
		if l.serves(i) {
			if spare <= 0 && !l.named(i) {
				break // from here on all serve
			}
			if spare <= 0 {
				continue
			}
			spare--
		}
		out = append(out, i)
	}
	l.stop(out)
	return spare
}

// serves reports whether the instance counts for what must serve: new ones
// have to be ready too.
func (l *look) serves(i *Instance) bool {
	f := l.fleets[i.Version]
	if l.roll && i.Version == l.want.VersionInfo.LastConfigChangeAt {
		return i.ready(f.app)
	}
	return i.healthy(f.app)
}

// remaining counts instances that leave and may still run, wherever they are.
func (l *look) remaining() int {
	count := 0
	for i := range l.app.seen {
		one := &l.app.seen[i]
		if one.State.Placed() && (one.leaving() || l.app.asked[one.TaskID]) {
			count++
		}
	}
	return count
}

// hold keeps the number of instances, whatever their configurations: it is
// not for it to replace any.
func (l *look) hold(n *fleet, old []*fleet) {
	all := slices.Clone(n.active)
	for _, f := range old {
		all = append(all, f.active...)
	}
	if extra := len(all) - l.want.Instances; extra > 0 {
		l.dismiss(all, extra, extra)
		return
	}
	missing := l.want.Instances - len(all)
	if l.want.SingleInstance() {
		missing = max(0, missing-l.remaining())
	}
	l.grow(n, len(n.active)+missing)
}

// leaving yields instances by who goes first: those named, those that do not
// run, the unhealthy, those of other configurations, those whose places the
// constraints find fullest, then as the app says.
func (l *look) leaving(list []*Instance) iter.Seq[*Instance] {
	config, oldest := l.want.VersionInfo.LastConfigChangeAt, l.want.KillSelection == "OLDEST_FIRST"
	first := func(a, b *Instance) int {
		return cmp.Or(
			-boolCompare(l.named(a), l.named(b)),
			cmp.Compare(l.rank(a), l.rank(b)),
			-boolCompare(a.Version != config, b.Version != config),
		)
	}
	last := func(a, b *Instance) int {
		age := b.Started.Compare(a.Started)
		if oldest {
			age = -age
		}
		return cmp.Or(age, strings.Compare(a.TaskID, b.TaskID))
	}
	return job.Leaving(l.crowds(), list, (*Instance).value, first, last)
}

// crowds are the instances that stay, whatever their configurations, as the
// wanted one counts them.
func (l *look) crowds() job.Crowds {
	var constraints []job.Constraint
	for _, words := range l.want.Constraints {
		if c, err := job.NewConstraint(words...); err == nil { // Parse looked at it
			constraints = append(constraints, c)
		}
	}
	all := job.CrowdsOf(constraints)
	for i := range l.app.seen {
		one := &l.app.seen[i]
		if len(all) > 0 && one.State.Placed() && one.KillWanted.IsZero() && !l.app.asked[one.TaskID] {
			all.Add(one.value)
		}
	}
	return all
}

// named reports whether a request named the instance to go.
func (l *look) named(i *Instance) bool {
	d := l.app.deployment
	return d != nil && slices.Contains(d.Kill[l.app.id], i.TaskID)
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// rank is how much is lost with an instance.
func (l *look) rank(i *Instance) int {
	switch {
	case i.State == job.Waiting:
		return 0
	case i.State == job.Unreachable:
		return 1
	case i.State != job.Running:
		return 2
	case !l.serves(i):
		return 3
	}
	return 4
}
