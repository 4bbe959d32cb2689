package sched

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Role is a Mesos role the scheduler has jobs of.
type Role struct {
	Name string
	// Weight is its part of the GPUs where roles compete; 0 is 1.
	Weight float64
	// Quota bounds what its tasks hold.
	Quota Quota
	// Order is that of its jobs of equal priority; "" is OldestFirst.
	Order Order
	// Patience is how long a job lets shorter ones go before under
	// ShortestFirst; 0 is DefaultPatience.
	Patience time.Duration
	// Strict: nobody goes before a job that waits, whatever is free.
	Strict bool
	// Policy ranks the agents for its jobs; "" as for all.
	Policy string
}

// Quota bounds the GPUs a role may hold, by type; AllTypes bounds them
// together. A type without an entry has no bound of its own.
type Quota map[string]int

// AllTypes is the entry of a Quota that counts every GPU.
const AllTypes = "*"

// maxQuota is beyond what a cluster has.
const maxQuota = 10_000_000

// ParseQuota reads "V100=8, A100=4, *=16". Types are named as in a job.
func ParseQuota(text string) (Quota, error) {
	q := Quota{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, number, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if !ok || name == "" || err != nil || n < 0 || n > maxQuota {
			return nil, fmt.Errorf("quota %q: write TYPE=GPUS with commas between, for example V100=8, *=16", strings.TrimSpace(part))
		}
		for other := range q {
			if sameType(other, name) {
				return nil, fmt.Errorf("quota %q: %s stands twice", text, name)
			}
		}
		q[name] = n
	}
	return q, nil
}

// String reads as ParseQuota does, by type.
func (q Quota) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, q[name]))
	}
	return strings.Join(parts, ", ")
}

// sameType compares the names of two types as job wishes do.
func sameType(a, b string) bool {
	if a == AllTypes || b == AllTypes {
		return a == b
	}
	return gpu.Types{Include: []string{a}}.Match(b)
}

// validateRoles says what is wrong with a table of roles.
func validateRoles(roles []Role) error {
	var errs []error
	seen := map[string]bool{}
	for _, r := range roles {
		if err := job.ValidateRole(r.Name); err != nil && r.Name != "" {
			errs = append(errs, err)
		}
		if seen[r.Name] {
			errs = append(errs, fmt.Errorf("role %q stands twice", r.Name))
		}
		seen[r.Name] = true
		errs = append(errs, r.validateOrder())
		if !(r.Weight >= 0 && r.Weight <= 1e6) {
			errs = append(errs, fmt.Errorf("role %q: weight %g is not between 0 and 1000000", r.Name, r.Weight))
		}
	}
	return errors.Join(errs...)
}

// within reports whether a role is of another or below it: quotas of
// "research" hold for "research/vision" too.
func within(role, of string) bool { return role == of || strings.HasPrefix(role, of+"/") }

// wholeGPU is one GPU in the thousandths that roles are counted by.
const wholeGPU = 1000

// ledger counts the GPUs that roles hold, in thousandths, and knows their
// bounds.
type ledger struct {
	roles []Role
	// agents tell how much of a device a share is.
	agents []fit.Agent
	models map[string]modelFacts     // nil: not asked yet
	held   map[string]map[string]int // role → type → thousandths
	// closed are the bounds whose rest is for a job that goes first, by the
	// role it is of.
	closed map[string][]bound
	all    map[string]int // role → thousandths
}

// modelFacts are what agents tell of the GPUs of one model.
type modelFacts struct {
	least int64 // memory of the smallest
	alone bool  // some are MIG devices, of which a task gets no part but all
}

func newLedger(roles []Role, running []Running) *ledger {
	l := &ledger{roles: roles, held: map[string]map[string]int{}, all: map[string]int{}, closed: map[string][]bound{}}
	for i := range running {
		if r := &running[i]; !r.Left {
			l.add(r.Spec.Role, r.GPUTypes, r.Parts, 1)
		}
	}
	return l
}

// add counts whole GPUs by type, and parts of others.
func (l *ledger) add(role string, types map[string]int, parts []gpu.Part, sign int) {
	for t, n := range types {
		l.count(role, t, sign*n*wholeGPU)
	}
	for i := range parts {
		l.count(role, parts[i].Type, sign*parts[i].Milli)
	}
}

func (l *ledger) count(role, kind string, milli int) {
	if l.held[role] == nil {
		l.held[role] = map[string]int{}
	}
	l.held[role][kind] += milli
	l.all[role] += milli
}

// weight is what one task counts for at most, in thousandths, where its
// devices are of that type: as much as on the smallest that there is.
func (l *ledger) weight(r *gpu.Request, name string) int {
	if r.Share.Whole() || r.Share.Exclusive() {
		return r.GPUs * wholeGPU
	}
	least := int64(0)
	for model, f := range l.known() {
		if !r.Types.Match(model) || name != AllTypes && !sameType(name, model) {
			continue
		}
		if f.alone {
			return r.GPUs * wholeGPU
		}
		if f.least > 0 && (least == 0 || f.least < least) {
			least = f.least
		}
	}
	milli := int64(r.Share.Cores) * wholeGPU / gpu.AllCores
	switch {
	case r.Share.MemPercent > 0:
		milli = max(milli, int64(r.Share.MemPercent)*wholeGPU/100)
	case least > 0:
		milli = max(milli, r.Share.MemOf(least)*wholeGPU/least)
	case r.Share.MemMiB > 0:
		milli = wholeGPU // nobody tells what there is of it
	}
	return r.GPUs * int(min(max(milli, 1), wholeGPU))
}

// known is what agents tell, by model.
func (l *ledger) known() map[string]modelFacts {
	if l.models != nil {
		return l.models
	}
	l.models = map[string]modelFacts{}
	for i := range l.agents {
		mig := fit.LimitOf(l.agents[i].Attributes) == gpu.HeldByMIG
		for _, d := range l.agents[i].Inventory {
			f := l.models[d.Model]
			if d.MemMiB > 0 && (f.least == 0 || d.MemMiB < f.least) {
				f.least = d.MemMiB
			}
			f.alone = f.alone || mig && d.MIG != nil
			l.models[d.Model] = f
		}
	}
	return l.models
}

// more is what the job needs of a bound before it can start, in thousandths.
func (l *ledger) more(j *Job, b *bound) int {
	n := l.weight(&j.Spec.Request, b.name)
	if j.Spec.Gang {
		n *= len(j.Tasks)
	}
	return n
}

// close leaves what a bound still allows to a job of the role that goes
// first.
func (l *ledger) close(role string, b *bound, job string) {
	c := *b
	c.first = job
	l.closed[role] = append(l.closed[role], c)
}

func (l *ledger) closedFor(role string, b *bound) string {
	for _, c := range l.closed[role] {
		if c.role == b.role && c.name == b.name {
			return c.first
		}
	}
	return ""
}

// share is what fairness compares: GPUs held by weight.
func (l *ledger) share(role string) float64 {
	weight := 1.0
	for _, r := range l.roles {
		if r.Name == role && r.Weight > 0 {
			weight = r.Weight
		}
	}
	return float64(l.all[role]) / weight
}

// bound is one entry of a quota, and what is held of it, in thousandths.
type bound struct {
	role, name string
	limit      int
	held       int
	first      string // the job that what is left is for, if any
	small      bool   // a task that was looked at would not fit if nothing were held
}

func (b bound) left() int { return max(b.limit-b.held, 0) }

// limits are the bounds that hold for a role, its parents' included, without
// what is held of them.
func (l *ledger) limits(role string) []bound {
	var list []bound
	for _, r := range l.roles {
		if len(r.Quota) == 0 || !within(role, r.Name) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Quota)) {
			list = append(list, bound{role: r.Name, name: name, limit: r.Quota[name] * wholeGPU})
		}
	}
	return list
}

// bounds are the limits with what is held of them.
func (l *ledger) bounds(role string) []bound {
	list := l.limits(role)
	for i := range list {
		b := &list[i]
		for other, types := range l.held {
			if !within(other, b.role) {
				continue
			}
			for t, n := range types {
				if b.name == AllTypes || anyType(b.name, t) {
					b.held += n
				}
			}
		}
	}
	return list
}

// anyType reports whether a GPU that is one of the types "A|B" may be of that
// name: an agent that hands out GPUs of several types by count does not tell.
func anyType(name, types string) bool {
	for t := range strings.SplitSeq(types, "|") {
		if t != "" && sameType(name, t) {
			return true
		}
	}
	return false
}

// narrow takes the types out of a request that the role may hold no more of,
// and says how many tasks may start before the next look. The bound is the
// one that is in the way where none may.
func (l *ledger) narrow(role string, r gpu.Request) (narrowed gpu.Request, tasks int, why *bound) {
	if r.GPUs == 0 {
		return r, job.MaxTasks, nil
	}
	tasks = job.MaxTasks
	var typed *bound
	for _, b := range l.bounds(role) {
		one := l.weight(&r, b.name)
		room := b.left() / one
		b.small = b.limit < one
		if b.first = l.closedFor(role, &b); b.first != "" {
			room = 0
		}
		switch {
		case b.name == AllTypes && room == 0:
			return r, 0, &b
		case b.name == AllTypes:
			tasks = min(tasks, room)
		case !r.Types.Match(b.name):
		case room == 0:
			r.Types.Exclude = append(slices.Clone(r.Types.Exclude), b.name)
			typed = &b
		default:
			tasks = min(tasks, room) // all may turn out to be of that type
		}
	}
	if typed != nil && len(r.Types.Include) > 0 && !slices.ContainsFunc(r.Types.Include, r.Types.Match) {
		return r, 0, typed
	}
	return r, tasks, typed
}

// String reads "8 V100".
func (b *bound) String() string {
	if b.name == AllTypes {
		return fmt.Sprintf("%s %s", gpus(b.limit), gpu.Plural(b.limit/wholeGPU, "GPU"))
	}
	return fmt.Sprintf("%s %s", gpus(b.limit), b.name)
}

// gpus writes thousandths as people do: 2300 is "2.3".
func gpus(milli int) string { return strconv.FormatFloat(float64(milli)/wholeGPU, 'f', -1, 64) }

// shortage says that the bound is in a job's way, or one that always is:
// never.
func (l *ledger) shortage(j *Job, b *bound) (why shortage, never bool) {
	if small := l.tooSmall(j); small != nil {
		b, never = small, true
	}
	more := l.more(j, b)
	seen := fmt.Sprintf("it may hold %s and holds %s", b, gpus(b.held))
	turn := BehindQuota
	switch {
	case never:
		seen += ": it can never start"
	case b.first != "":
		seen += fmt.Sprintf(", and %s goes first", b.first)
		turn = BehindHead
	}
	return shortage{turn: turn, lack: fmt.Sprintf("room in the quota of role %s for %s more", b.role, gpus(more)), seen: seen}, never
}

// tooSmall is the bound that a job could not start within if nobody held
// anything, nil if it could. Types that it does not name may come.
func (l *ledger) tooSmall(j *Job) *bound {
	r, need := &j.Spec.Request, 1
	if r.GPUs == 0 {
		return nil
	}
	if j.Spec.Gang {
		need = len(j.Tasks)
	}
	limits, room := l.limits(j.Spec.Role), 0
	for i := range limits {
		if b := &limits[i]; b.name == AllTypes && b.limit/l.weight(r, b.name) < need {
			return l.counted(j.Spec.Role, b)
		}
	}
	var small *bound
	for _, name := range r.Types.Include {
		if !r.Types.Match(name) {
			continue
		}
		tasks := job.MaxTasks
		for i := range limits {
			b := &limits[i]
			if n := b.limit / l.weight(r, b.name); sameType(b.name, name) && n < tasks {
				tasks, small = n, b
			}
		}
		room += tasks
	}
	if small == nil || room >= need {
		return nil
	}
	return l.counted(j.Spec.Role, small)
}

// counted is a limit of the role with what is held of it.
func (l *ledger) counted(role string, limit *bound) *bound {
	for _, b := range l.bounds(role) {
		if b.role == limit.role && b.name == limit.name {
			return &b
		}
	}
	return limit
}

// beside adds to a shortage that some types are out of the question.
func (b *bound) beside(why shortage) shortage {
	if b != nil {
		why.seen += fmt.Sprintf("; role %s may hold %s and holds %s", b.role, b, gpus(b.held))
		if b.small {
			why.seen += ": it can never start on those"
		}
	}
	return why
}

// tightest is the bound that leaves a gang least of those that leave it
// something, b where none does.
func (l *ledger) tightest(j *Job, b *bound) *bound {
	least := b
	left := job.MaxTasks
	for _, x := range l.bounds(j.Spec.Role) {
		if n := x.left() / l.weight(&j.Spec.Request, x.name); n > 0 && n < left && (x.name == AllTypes || j.Spec.Request.Types.Match(x.name)) {
			least, left = &x, n
		}
	}
	return least
}

// byShare merges the roles' queues: the role that holds least for its weight
// goes first, and what it gets counts at once.
func (l *ledger) byShare(queues map[string][]int) (role string, ok bool) {
	names := make([]string, 0, len(queues))
	for name, q := range queues {
		if len(q) > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return slices.MinFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.share(a), l.share(b)), cmp.Compare(a, b))
	}), true
}
