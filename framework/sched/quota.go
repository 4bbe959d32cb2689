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
	Order QueueOrder
	// Patience is how long a job lets shorter ones go before under
	// ShortestFirst; 0 is DefaultPatience.
	Patience time.Duration
	// Strict: nobody goes before a job that waits, whatever is free.
	Strict bool
	// FitPolicy ranks the agents for its jobs; "" as for all.
	FitPolicy string
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
			if isSameType(other, name) {
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

// isSameType compares the names of two types as job wishes do.
func isSameType(a, b string) bool {
	if a == AllTypes || b == AllTypes {
		return a == b
	}
	return gpu.TypeSelector{Include: []string{a}}.Match(b)
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

// isWithinRole reports whether a role is of another or below it: quotas of
// "research" hold for "research/vision" too.
func isWithinRole(role, of string) bool { return role == of || strings.HasPrefix(role, of+"/") }

// milliPerGPU is one GPU in the thousandths that roles are counted by.
const milliPerGPU = 1000

// quotaTracker counts the GPUs that roles hold, in thousandths, and knows their
// bounds.
type quotaTracker struct {
	roles []Role
	// agents tell how much of a device a share is.
	agents []fit.AgentResources
	models map[string]gpuModelInfo   // nil: not asked yet
	held   map[string]map[string]int // role → type → thousandths
	// reserved are the bounds whose rest is for a job that goes first, by the
	// role it is of.
	reserved map[string][]quotaLimit
	total    map[string]int // role → thousandths
}

// gpuModelInfo are what agents tell of the GPUs of one model.
type gpuModelInfo struct {
	minMemMiB   int64 // memory of the smallest
	indivisible bool  // some are MIG devices, of which a task gets no part but all
}

func newQuotaTracker(roles []Role, running []RunningTask) *quotaTracker {
	l := &quotaTracker{roles: roles, held: map[string]map[string]int{}, total: map[string]int{}, reserved: map[string][]quotaLimit{}}
	for i := range running {
		if r := &running[i]; !r.Ended {
			l.addUsage(r.Spec.Role, r.GPUTypes, r.Shares, 1)
		}
	}
	return l
}

// addUsage counts whole GPUs by type, and parts of others.
func (l *quotaTracker) addUsage(role string, types map[string]int, parts []gpu.DeviceShare, sign int) {
	for t, n := range types {
		l.addMilliGPUs(role, t, sign*n*milliPerGPU)
	}
	for i := range parts {
		l.addMilliGPUs(role, parts[i].Type, sign*parts[i].MilliDevices)
	}
}

func (l *quotaTracker) addMilliGPUs(role, kind string, milli int) {
	if l.held[role] == nil {
		l.held[role] = map[string]int{}
	}
	l.held[role][kind] += milli
	l.total[role] += milli
}

// milliGPUsPerTask is what one task counts for at most, in thousandths, where its
// devices are of that type: as much as on the smallest that there is.
func (l *quotaTracker) milliGPUsPerTask(r *gpu.Request, name string) int {
	if r.Share.IsWhole() || r.Share.IsExclusive() {
		return r.GPUs * milliPerGPU
	}
	least := int64(0)
	for model, f := range l.gpuModels() {
		if !r.Types.Match(model) || name != AllTypes && !isSameType(name, model) {
			continue
		}
		if f.indivisible {
			return r.GPUs * milliPerGPU
		}
		if f.minMemMiB > 0 && (least == 0 || f.minMemMiB < least) {
			least = f.minMemMiB
		}
	}
	milli := int64(r.Share.Cores) * milliPerGPU / gpu.AllCores
	switch {
	case r.Share.MemPercent > 0:
		milli = max(milli, int64(r.Share.MemPercent)*milliPerGPU/100)
	case least > 0:
		milli = max(milli, r.Share.MemOf(least)*milliPerGPU/least)
	case r.Share.MemMiB > 0:
		milli = milliPerGPU // nobody tells what there is of it
	}
	return r.GPUs * int(min(max(milli, 1), milliPerGPU))
}

// gpuModels is what agents tell, by model.
func (l *quotaTracker) gpuModels() map[string]gpuModelInfo {
	if l.models != nil {
		return l.models
	}
	l.models = map[string]gpuModelInfo{}
	for i := range l.agents {
		mig := fit.ShareLimitOf(l.agents[i].Attributes) == gpu.EnforcedByMIG
		for _, d := range l.agents[i].Inventory {
			f := l.models[d.Model]
			if d.MemMiB > 0 && (f.minMemMiB == 0 || d.MemMiB < f.minMemMiB) {
				f.minMemMiB = d.MemMiB
			}
			f.indivisible = f.indivisible || mig && d.MIG != nil
			l.models[d.Model] = f
		}
	}
	return l.models
}

// milliGPUsToStart is what the job needs of a bound before it can start, in thousandths.
func (l *quotaTracker) milliGPUsToStart(j *WaitingJob, b *quotaLimit) int {
	n := l.milliGPUsPerTask(&j.Spec.Request, b.name)
	if j.Spec.Gang {
		n *= len(j.Tasks)
	}
	return n
}

// reserveRest leaves what a bound still allows to a job of the role that goes
// first.
func (l *quotaTracker) reserveRest(role string, b *quotaLimit, job string) {
	c := *b
	c.reservedFor = job
	l.reserved[role] = append(l.reserved[role], c)
}

func (l *quotaTracker) reservedFor(role string, b *quotaLimit) string {
	for _, c := range l.reserved[role] {
		if c.role == b.role && c.name == b.name {
			return c.reservedFor
		}
	}
	return ""
}

// weightedShare is what fairness compares: GPUs held by weight.
func (l *quotaTracker) weightedShare(role string) float64 {
	weight := 1.0
	for _, r := range l.roles {
		if r.Name == role && r.Weight > 0 {
			weight = r.Weight
		}
	}
	return float64(l.total[role]) / weight
}

// quotaLimit is one entry of a quota, and what is held of it, in thousandths.
type quotaLimit struct {
	role, name  string
	limit       int
	held        int
	reservedFor string // the job that what is left is for, if any
	tooSmall    bool   // a task that was looked at would not fit if nothing were held
}

func (b quotaLimit) remaining() int { return max(b.limit-b.held, 0) }

// limitsFor are the bounds that hold for a role, its parents' included, without
// what is held of them.
func (l *quotaTracker) limitsFor(role string) []quotaLimit {
	var list []quotaLimit
	for _, r := range l.roles {
		if len(r.Quota) == 0 || !isWithinRole(role, r.Name) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(r.Quota)) {
			list = append(list, quotaLimit{role: r.Name, name: name, limit: r.Quota[name] * milliPerGPU})
		}
	}
	return list
}

// limitsWithUsage are the limits with what is held of them.
func (l *quotaTracker) limitsWithUsage(role string) []quotaLimit {
	list := l.limitsFor(role)
	for i := range list {
		b := &list[i]
		for other, types := range l.held {
			if !isWithinRole(other, b.role) {
				continue
			}
			for t, n := range types {
				if b.name == AllTypes || mayBeType(b.name, t) {
					b.held += n
				}
			}
		}
	}
	return list
}

// mayBeType reports whether a GPU that is one of the types "A|B" may be of that
// name: an agent that hands out GPUs of several types by count does not tell.
func mayBeType(name, types string) bool {
	for t := range strings.SplitSeq(types, "|") {
		if t != "" && isSameType(name, t) {
			return true
		}
	}
	return false
}

// restrictToQuota takes the types out of a request that the role may hold no more of,
// and says how many tasks may start before the next look. The bound is the
// one that is in the way where none may.
func (l *quotaTracker) restrictToQuota(role string, r gpu.Request) (narrowed gpu.Request, tasks int, why *quotaLimit) {
	if r.GPUs == 0 {
		return r, job.MaxTasks, nil
	}
	tasks = job.MaxTasks
	var typed *quotaLimit
	for _, b := range l.limitsWithUsage(role) {
		one := l.milliGPUsPerTask(&r, b.name)
		room := b.remaining() / one
		b.tooSmall = b.limit < one
		if b.reservedFor = l.reservedFor(role, &b); b.reservedFor != "" {
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
func (b *quotaLimit) String() string {
	if b.name == AllTypes {
		return fmt.Sprintf("%s %s", formatMilliGPUs(b.limit), gpu.Plural(b.limit/milliPerGPU, "GPU"))
	}
	return fmt.Sprintf("%s %s", formatMilliGPUs(b.limit), b.name)
}

// formatMilliGPUs writes thousandths as people do: 2300 is "2.3".
func formatMilliGPUs(milli int) string {
	return strconv.FormatFloat(float64(milli)/milliPerGPU, 'f', -1, 64)
}

// explainLimit says that the bound is in a job's way, or one that always is:
// never.
func (l *quotaTracker) explainLimit(j *WaitingJob, b *quotaLimit) (why pendingCause, never bool) {
	if small := l.impossibleLimit(j); small != nil {
		b, never = small, true
	}
	more := l.milliGPUsToStart(j, b)
	seen := fmt.Sprintf("it may hold %s and holds %s", b, formatMilliGPUs(b.held))
	turn := BlockedByQuota
	switch {
	case never:
		seen += ": it can never start"
	case b.reservedFor != "":
		seen += fmt.Sprintf(", and %s goes first", b.reservedFor)
		turn = BlockedByReservation
	}
	return pendingCause{blockedBy: turn, needs: fmt.Sprintf("room in the quota of role %s for %s more", b.role, formatMilliGPUs(more)), available: seen}, never
}

// impossibleLimit is the bound that a job could not start within if nobody held
// anything, nil if it could. Types that it does not name may come.
func (l *quotaTracker) impossibleLimit(j *WaitingJob) *quotaLimit {
	r, need := &j.Spec.Request, 1
	if r.GPUs == 0 {
		return nil
	}
	if j.Spec.Gang {
		need = len(j.Tasks)
	}
	limits, room := l.limitsFor(j.Spec.Role), 0
	for i := range limits {
		if b := &limits[i]; b.name == AllTypes && b.limit/l.milliGPUsPerTask(r, b.name) < need {
			return l.limitWithUsage(j.Spec.Role, b)
		}
	}
	var small *quotaLimit
	for _, name := range r.Types.Include {
		if !r.Types.Match(name) {
			continue
		}
		tasks := job.MaxTasks
		for i := range limits {
			b := &limits[i]
			if n := b.limit / l.milliGPUsPerTask(r, b.name); isSameType(b.name, name) && n < tasks {
				tasks, small = n, b
			}
		}
		room += tasks
	}
	if small == nil || room >= need {
		return nil
	}
	return l.limitWithUsage(j.Spec.Role, small)
}

// limitWithUsage is a limit of the role with what is held of it.
func (l *quotaTracker) limitWithUsage(role string, limit *quotaLimit) *quotaLimit {
	for _, b := range l.limitsWithUsage(role) {
		if b.role == limit.role && b.name == limit.name {
			return &b
		}
	}
	return limit
}

// appendTo adds to a shortage that some types are out of the question.
func (b *quotaLimit) appendTo(why pendingCause) pendingCause {
	if b != nil {
		why.available += fmt.Sprintf("; role %s may hold %s and holds %s", b.role, b, formatMilliGPUs(b.held))
		if b.tooSmall {
			why.available += ": it can never start on those"
		}
	}
	return why
}

// tightestLimit is the bound that leaves a gang least of those that leave it
// something, b where none does.
func (l *quotaTracker) tightestLimit(j *WaitingJob, b *quotaLimit) *quotaLimit {
	least := b
	left := job.MaxTasks
	for _, x := range l.limitsWithUsage(j.Spec.Role) {
		if n := x.remaining() / l.milliGPUsPerTask(&j.Spec.Request, x.name); n > 0 && n < left && (x.name == AllTypes || j.Spec.Request.Types.Match(x.name)) {
			least, left = &x, n
		}
	}
	return least
}

// nextRoleByShare merges the roles' queues: the role that holds least for its weight
// goes first, and what it gets counts at once.
func (l *quotaTracker) nextRoleByShare(queues map[string][]int) (role string, ok bool) {
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
		return cmp.Or(cmp.Compare(l.weightedShare(a), l.weightedShare(b)), cmp.Compare(a, b))
	}), true
}
