package quota

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// RoleEntitlement contains the operator's settings for a role: its weight in fair share, its quota and what it deserves.
type RoleEntitlement struct {
	Role string
	// Weight is the role's part of the GPUs where roles compete. 0 means 1.
	Weight float64
	// Quota is the most that the role may hold, Deserved what it gets while it demands it.
	Quota, Deserved Quota
	// DeservedHost has the CPUs and memory that the role gets while it demands them.
	DeservedHost HostQuota
	// EachUser limits each user of the role and of the roles below it, except those who have an entry in NamedUsers.
	EachUser   UserLimits
	NamedUsers map[string]UserLimits
}

// Tracker counts the GPUs that roles hold and compares them with their quotas. All amounts are thousandths of GPUs. A
// Tracker belongs to one goroutine.
type Tracker struct {
	// entitlements are the weights and quotas of roles. Roles without an entry have weight 1 and no quota of their own.
	entitlements []RoleEntitlement
	// agents report the GPU models of the cluster, which determine how much of a device a share is.
	agents []fit.AgentResources
	// products are those of the agents' GPUs. One is true if some of its GPUs are MIG devices, which a task takes whole. It is computed
	// at the first use, because most requests are for whole devices.
	products map[gpu.Product]bool
	// held counts the GPUs that roles hold themselves, without the roles below them, by role and product. The product is "" where
	// it is unknown, and "A|B" where an agent hands out GPUs of several types by count.
	held map[string]map[string]int
	// total is the sum of held over all types, by role.
	total map[string]int
	// ending is the part of held of tasks that are about to end, reserved what the present plan reserves for waiting tasks,
	// by role and type.
	ending, reserved map[string]map[string]int
	// demand counts the GPUs that waiting tasks request, by role and type. AddDemand adds to it.
	demand map[string]map[string]int
	// types are the known GPU types, capacity the GPUs of agents by product. GPUTypes computes both.
	types    []string
	capacity map[string]int
	// shares is the part of total that is shares of devices, by role. mesosQuotas limit what is left.
	shares      map[string]int
	mesosQuotas []MesosQuota
	// usedUpBudgets limit roles and users too.
	usedUpBudgets []UsedUpBudget
	// deserved counts what roles hold of what they deserve; nil if no role deserves GPUs.
	deserved *deservedTree
	// pursued is what reclaim gives roles: deserved or, if entitled is set, a tree of what roles are entitled to.
	pursued  *deservedTree
	entitled bool
	// host counts the CPUs and memory that roles deserve; nil if no role deserves any. heldHost and demandHost are thousandths
	// of what roles themselves hold and wait for, by role and resource. They are only counted with host.
	host                 *deservedTree
	heldHost, demandHost map[string]map[string]int
	// heldByUser counts the GPUs that users hold in a role itself, of all types.
	heldByUser map[User]*int
	// lastUser and lastHeld are the user that was counted last, with its entry of heldByUser: many tasks of one user follow each
	// other.
	lastUser User
	lastHeld *int
	// users counts what users hold by type; nil if no entry limits users.
	users *userUsage
	// kept are the limits whose rest is kept for an earlier job, by the role of that job. KeepRest adds to it.
	kept map[string][]Limit
	// recent is the decayed usage of users, nil if only present usage counts. recentByRole has its sums by role.
	recent       *RecentUsage
	recentByRole map[string]float64
}

// NewTracker returns a tracker in which no role holds anything.
func NewTracker(entitlements []RoleEntitlement, agents []fit.AgentResources) *Tracker {
	deserved := newDeservedTree(entitlements, agents)
	return &Tracker{
		entitlements: entitlements,
		agents:       agents,
		deserved:     deserved,
		pursued:      deserved,
		host:         newHostTree(entitlements),
		heldHost:     map[string]map[string]int{},
		demandHost:   map[string]map[string]int{},
		users:        newUserUsage(entitlements),
		heldByUser:   map[User]*int{},
		held:         map[string]map[string]int{},
		ending:       map[string]map[string]int{},
		reserved:     map[string]map[string]int{},
		total:        map[string]int{},
		shares:       map[string]int{},
		kept:         map[string][]Limit{},
	}
}

// AddUsage adds whole GPUs by type and shares of other devices to what a role holds; sign -1 removes them.
func (t *Tracker) AddUsage(role string, types map[string]int, shares []gpu.DeviceShare, sign int) {
	for gpuType, milli := range milliByType(types, shares) {
		t.AddMilliGPUs(role, gpuType, sign*milli)
	}
	for i := range shares {
		t.shares[role] += sign * shares[i].MilliDevices
	}
}

// milliByType yields what a task holds, in thousandths of GPUs: whole GPUs by product, then each share of a device. A
// product may come several times.
func milliByType(types map[string]int, shares []gpu.DeviceShare) iter.Seq2[string, int] {
	return func(yield func(gpuType string, milli int) bool) {
		for name, n := range types {
			if !yield(name, n*MilliPerGPU) {
				return
			}
		}
		for i := range shares {
			if !yield(shares[i].ProductName(), shares[i].MilliDevices) {
				return
			}
		}
	}
}

// AddMilliGPUs adds thousandths of GPUs of one type to what a role holds. The type is "" where it is unknown.
func (t *Tracker) AddMilliGPUs(role, gpuType string, milli int) {
	if t.held[role] == nil {
		t.held[role] = map[string]int{}
	}
	t.held[role][gpuType] += milli
	t.total[role] += milli
	if t.deserved != nil {
		t.deserved.addHeld(role, gpuType, milli)
	}
	if t.entitled && t.pursued != nil {
		t.pursued.addHeld(role, gpuType, milli)
	}
}

// TotalHeld returns what the role itself holds of all types.
func (t *Tracker) TotalHeld(role string) int { return t.total[role] }

// WeightedShare returns what the role holds, or what it holds beyond what it deserves if roles deserve GPUs, divided by its
// weight. With a recent usage, the share is of that. Fair share serves the role with the least first.
func (t *Tracker) WeightedShare(role string) float64 {
	weight := 1.0
	for _, e := range t.entitlements {
		if e.Role == role && e.Weight > 0 {
			weight = e.Weight
		}
	}
	held := t.total[role]
	if t.pursued != nil {
		held = t.BorrowedOf(role)
	}
	if t.recent != nil {
		return t.recentShare(role, held) / weight
	}
	return float64(held) / weight
}

// UsageByType returns what a role and the roles below it hold, by short type, and by the names of
// the role's entries that are more precise. GPUs of unknown type count in AllTypes only.
func (t *Tracker) UsageByType(role string) map[string]int {
	held := map[string]int{}
	for name, types := range t.held {
		if !IsWithinRole(name, role) {
			continue
		}
		for gpuType, milli := range types {
			held[AllTypes] += milli
			if gpuType != "" {
				held[gpu.TypesOf(gpuType)] += milli
			}
		}
	}
	for i := range t.entitlements {
		if e := &t.entitlements[i]; e.Role == role {
			for name := range t.entriesBeside(held, e.Quota, e.Deserved) {
				held[name] = sumOfRoles(t.held, &Limit{Role: role, Type: name})
			}
		}
	}
	return held
}

// entriesBeside yields the names of entries that are not short types, unless counts have them.
func (t *Tracker) entriesBeside(counts map[string]int, quotas ...Quota) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, q := range quotas {
			for name := range q {
				if _, ok := counts[name]; !ok && name != AllTypes && gpu.IsPreciseTypeName(name) && !yield(name) {
					return
				}
			}
		}
	}
}

// MilliPerTask returns what one task of the request counts for at most, if its devices are of the given type. A share
// counts as much as it is on the smallest device that the request accepts.
func (t *Tracker) MilliPerTask(r *gpu.Request, gpuType string) int {
	if r.Share.IsWhole() || r.Share.IsExclusive() {
		return r.GPUs * MilliPerGPU
	}
	least := int64(0)
	for p, indivisible := range t.gpuProducts() {
		if !r.AcceptsProduct(p) || !CountsProduct(gpuType, p.String()) {
			continue
		}
		if indivisible {
			return r.GPUs * MilliPerGPU
		}
		if p.MemMiB > 0 && (least == 0 || p.MemMiB < least) {
			least = p.MemMiB
		}
	}
	milli := int64(r.Share.Cores) * MilliPerGPU / gpu.AllCores
	switch {
	case r.Share.MemPercent > 0:
		milli = max(milli, int64(r.Share.MemPercent)*MilliPerGPU/100)
	case least > 0:
		milli = max(milli, r.Share.MemOf(least)*MilliPerGPU/least)
	case r.Share.MemMiB > 0:
		milli = MilliPerGPU // no agent reports the memory of such a device
	}
	return r.GPUs * int(min(max(milli, 1), MilliPerGPU))
}

func (t *Tracker) gpuProducts() map[gpu.Product]bool {
	if t.products != nil {
		return t.products
	}
	t.products = map[gpu.Product]bool{}
	for i := range t.agents {
		mig := fit.ShareLimitOf(t.agents[i].Attributes) == gpu.EnforcedByMIG
		for d := range t.agents[i].Inventory {
			p := t.agents[i].Inventory[d].Product()
			t.products[p] = t.products[p] || mig && p.IsMIG()
		}
		if !mig {
			continue
		}
		for _, gpuType := range t.agents[i].Types { // the inventory lacks the MIG devices of a GPU that is partitioned at run time
			t.products[gpu.Product{Model: gpuType}] = true
		}
	}
	return t.products
}

// mayUse reports whether a request may accept GPUs that an entry counts: by their names or, since patterns of constraints
// are about products, by the products of the agents.
func (t *Tracker) mayUse(r *gpu.Request, entry string) bool {
	if entry == AllTypes || r.MayUse(entry) {
		return true
	}
	if len(r.Types.Rules) == 0 {
		return false
	}
	for p := range t.gpuProducts() {
		if CountsProduct(entry, p.String()) && r.AcceptsProduct(p) {
			return true
		}
	}
	return false
}

// limitsFor returns the limits that apply to a user of a role, those of the roles above it included, without their usage.
func (t *Tracker) limitsFor(u User) []Limit {
	list := slices.Concat(t.budgetLimitsFor(u), t.userLimitsFor(u), t.mesosLimitsFor(u.Role))
	for _, e := range t.entitlements {
		if len(e.Quota) == 0 || !IsWithinRole(u.Role, e.Role) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(e.Quota)) {
			list = append(list, Limit{Role: e.Role, Type: name, Max: e.Quota[name] * MilliPerGPU})
		}
	}
	return list
}

// limitsWithUsage returns the limits that apply to a user of a role with what is held of each.
func (t *Tracker) limitsWithUsage(u User) []Limit {
	list := t.limitsFor(u)
	for i := range list {
		l := &list[i]
		if l.Budget != nil {
			continue
		}
		if l.User != "" {
			l.Held, l.Reserved = sumWithin(t.users.gpus, l.User, l.Role, l.Type), sumWithin(t.users.reserved, l.User, l.Role, l.Type)
			continue
		}
		if l.OfMesos {
			t.addMesosUsage(l)
			continue
		}
		l.Held, l.Ending, l.Reserved = sumOfRoles(t.held, l), sumOfRoles(t.ending, l), sumOfRoles(t.reserved, l)
	}
	return list
}

// milliOf returns what one task of the request counts for in a limit at most. Quotas of Mesos do not count shares.
func (t *Tracker) milliOf(r *gpu.Request, l *Limit) int {
	if l.OfMesos && !r.Share.IsWhole() {
		return 0
	}
	return t.MilliPerTask(r, l.Type)
}

// sumOfRoles returns what the role of a limit and the roles below it have of the type that it limits.
func sumOfRoles(all map[string]map[string]int, l *Limit) (sum int) {
	for role, types := range all {
		if !IsWithinRole(role, l.Role) {
			continue
		}
		for gpuType, n := range types {
			if CountsProduct(l.Type, gpuType) {
				sum += n
			}
		}
	}
	return sum
}

// refreshUsage returns a limit with its current usage.
func (t *Tracker) refreshUsage(u User, limit *Limit) *Limit {
	for _, l := range t.limitsWithUsage(u) {
		if l.isSame(limit) {
			return &l
		}
	}
	return limit
}

// Restrict returns the request without the types of which the role or the user may hold no more, and how many tasks of it may start
// before the next call. The limit is the one that excludes types or, where tasks is 0, the one that blocks the request.
func (t *Tracker) Restrict(u User, r gpu.Request) (restricted gpu.Request, tasks int, limit *Limit) {
	return t.restrict(u, r, (*Limit).Remaining)
}

// restrict is Restrict with what remaining returns of each limit.
func (t *Tracker) restrict(u User, r gpu.Request, remaining func(*Limit) int) (restricted gpu.Request, tasks int, limit *Limit) {
	if r.GPUs == 0 {
		return r, job.MaxTasks, nil
	}
	tasks = job.MaxTasks
	var typed *Limit
	for _, l := range t.limitsWithUsage(u) {
		one := t.milliOf(&r, &l)
		if one == 0 {
			continue
		}
		room := remaining(&l) / one
		l.TooSmall = l.Max < one
		if t.findKept(u.Role, &l) {
			room = 0
		}
		switch {
		case l.Type == AllTypes && room == 0:
			return r, 0, &l
		case l.Type == AllTypes:
			tasks = min(tasks, room)
		case !t.mayUse(&r, l.Type):
		case room == 0:
			r.Types.Exclude = append(slices.Clone(r.Types.Exclude), l.Type)
			typed = &l
		default:
			tasks = min(tasks, room) // all devices may turn out to be of that type
		}
	}
	if named := r.Types.Named(); typed != nil && len(named) > 0 && !slices.ContainsFunc(named, r.MayUse) {
		return r, 0, typed
	}
	return r, tasks, typed
}

// ExcludesPresentGPUs reports whether a limit is why no GPU of the agents serves a request: they have GPUs that the request
// accepts, and none that it accepts within its limits, as Restrict returns both.
func (t *Tracker) ExcludesPresentGPUs(limit *Limit, request, restricted *gpu.Request) bool {
	if limit == nil || limit.TooSmall {
		return false
	}
	accepted := false
	for i := range t.agents {
		products := 0
		for p := range t.agents[i].Products() {
			products++
			if restricted.AcceptsProduct(p) {
				return false
			}
			accepted = accepted || request.AcceptsProduct(p)
		}
		if products == 0 && t.agents[i].HasGPUs() {
			return false // they may be of any type
		}
	}
	return accepted
}

// findKept reports whether the rest of a limit is kept for an earlier job of the role, whose name it sets.
func (t *Tracker) findKept(role string, limit *Limit) bool {
	for i := range t.kept[role] {
		if k := &t.kept[role][i]; k.isSame(limit) {
			limit.KeptFor = k.KeptFor
		}
	}
	return limit.KeptFor != ""
}

// RestrictTogether is Restrict for n tasks that start together on GPUs of one type: types of which not all of them may be held
// are excluded. It returns false if no type is left.
func (t *Tracker) RestrictTogether(u User, r gpu.Request, n int) (restricted gpu.Request, ok bool, limit *Limit) {
	return t.restrictTogether(u, r, n, (*Limit).Remaining)
}

// restrictTogether is RestrictTogether with what remaining returns of each limit.
func (t *Tracker) restrictTogether(u User, r gpu.Request, n int, remaining func(*Limit) int) (restricted gpu.Request, ok bool, limit *Limit) {
	for _, l := range t.limitsWithUsage(u) {
		one := t.milliOf(&r, &l)
		if one == 0 {
			continue
		}
		room := remaining(&l) / one
		l.TooSmall = l.Max < n*one
		if t.findKept(u.Role, &l) {
			room = 0
		}
		switch {
		case room >= n || !t.mayUse(&r, l.Type):
		case l.Type == AllTypes:
			return r, false, &l
		default:
			r.Types.Exclude = append(slices.Clone(r.Types.Exclude), l.Type)
			limit = &l
		}
	}
	named := r.Types.Named()
	return r, limit == nil || len(named) == 0 || slices.ContainsFunc(named, r.MayUse), limit
}

// RestrictJob restricts the request of n tasks of a job, by RestrictTogether if their GPUs must be of one type. tasks is
// then n or 0.
func (t *Tracker) RestrictJob(spec *job.Spec, r gpu.Request, n int) (restricted gpu.Request, tasks int, limit *Limit) {
	return t.restrictJob(spec, r, n, (*Limit).Remaining)
}

// restrictJob is RestrictJob with what remaining returns of each limit.
func (t *Tracker) restrictJob(spec *job.Spec, r gpu.Request, n int, remaining func(*Limit) int) (restricted gpu.Request, tasks int, limit *Limit) {
	if !r.NeedsSameType() {
		return t.restrict(UserOf(spec), r, remaining)
	}
	restricted, ok, limit := t.restrictTogether(UserOf(spec), r, n, remaining)
	if !ok {
		return r, 0, limit
	}
	return restricted, n, limit
}

// LimitExplanation describes what a job needs of a quota and what is left of it.
type LimitExplanation struct {
	// Needs describes the missing part of the limit, Available the limit and the present usage.
	Needs, Available string
	// KeptForEarlier reports that the quota has room, which is kept for an earlier job.
	KeptForEarlier bool
}

// KeepRest records that the limit blocks tasks of a job and explains it. What is left of the limit is then kept for
// this job until the next plan: later jobs of its role do not take it.
func (t *Tracker) KeepRest(spec *job.Spec, tasks int, limit *Limit) LimitExplanation {
	if limit.CountsJobs {
		return explainRunningJobs(limit)
	}
	if limit.Budget != nil {
		why, _ := t.Explain(spec, tasks, limit)
		return why
	}
	limit.Held = t.refreshUsage(UserOf(spec), limit).Held // a gang has returned its GPUs since
	why, never := t.Explain(spec, tasks, limit)
	if !never && limit.KeptFor == "" && t.milliToStart(spec, tasks, limit) <= limit.Max {
		l := *limit
		l.KeptFor = spec.Name
		t.kept[spec.Role] = append(t.kept[spec.Role], l)
	}
	return why
}

// Explain returns why the limit blocks tasks of a job. If the job could not start within its quota even if the role
// held nothing, that is the explanation, and never is true.
func (t *Tracker) Explain(spec *job.Spec, tasks int, limit *Limit) (why LimitExplanation, never bool) {
	if impossible := t.ImpossibleLimit(spec, tasks); impossible != nil {
		limit, never = impossible, true
	}
	if limit.CountsJobs {
		return explainRunningJobs(limit), false
	}
	more := FormatMilliGPUs(t.milliToStart(spec, tasks, limit))
	why.Needs = fmt.Sprintf("room in the quota of role %s for %s more", limit.Role, more)
	why.Available = fmt.Sprintf("it may hold %s and holds %s", limit, limit.describeHeld())
	switch {
	case limit.Budget != nil:
		why.Needs, why.Available = "GPU time in "+limit.Budget.Name, limit.Budget.Use
	case limit.User != "":
		why.Needs = fmt.Sprintf("room in the limit of user %s for %s more", limit.User, more)
		why.Available = limit.describe()
	case limit.OfMesos:
		why.Needs = fmt.Sprintf("room in Mesos's quota of role %s for %s more", limit.Role, more)
		why.Available = limit.describe()
	}
	switch {
	case never:
		why.Available += ": it can never start"
	case limit.KeptFor != "":
		why.Available += fmt.Sprintf(", and %s goes first", limit.KeptFor)
		why.KeptForEarlier = true
	}
	return why, never
}

// explainRunningJobs returns why a limit on the running jobs of a user blocks a job.
func explainRunningJobs(limit *Limit) LimitExplanation {
	return LimitExplanation{
		Needs:     fmt.Sprintf("a running job of user %s to end", limit.User),
		Available: fmt.Sprintf("user %s may run %d %s in role %s and runs %d", limit.User, limit.Max, gpu.Plural(limit.Max, "job"), limit.Role, limit.Held),
	}
}

// milliToStart returns what the job needs of a limit before it can start: one task, or all tasks of a gang.
func (t *Tracker) milliToStart(spec *job.Spec, tasks int, limit *Limit) int {
	n := t.milliOf(&spec.Request, limit)
	if spec.Gang {
		n *= tasks
	}
	return n
}

// ImpossibleLimit returns the limit within which the job could not start even if the role held nothing, with its usage.
// It returns nil if the job could start. A request that names no types is checked against AllTypes only, because new
// agents may have types without a limit.
func (t *Tracker) ImpossibleLimit(spec *job.Spec, tasks int) *Limit {
	r, need := &spec.Request, 1
	if r.GPUs == 0 {
		return nil
	}
	if spec.Gang {
		need = tasks
	}
	limits, room := t.limitsFor(UserOf(spec)), 0
	for i := range limits {
		if l := &limits[i]; l.Type == AllTypes && l.Max < need*t.milliOf(r, l) {
			return t.refreshUsage(UserOf(spec), l)
		}
	}
	var smallest *Limit
	for _, name := range r.Types.Named() {
		if !r.MayUse(name) {
			continue
		}
		most := job.MaxTasks
		for i := range limits {
			l := &limits[i]
			if n := l.Max / t.MilliPerTask(r, l.Type); l.Type != AllTypes && includesEntry(l.Type, name) && n < most {
				most, smallest = n, l
			}
		}
		if r.Types.Same { // not one task may be of another type
			room = max(room, most)
		} else {
			room += most
		}
	}
	if smallest == nil || room >= need {
		return nil
	}
	return t.refreshUsage(UserOf(spec), smallest)
}

// TightestLimit returns the limit with room for the fewest tasks of the job, and for at least one. Without such a
// limit it returns fallback.
func (t *Tracker) TightestLimit(spec *job.Spec, fallback *Limit) *Limit {
	tightest, least := fallback, job.MaxTasks
	for _, l := range t.limitsWithUsage(UserOf(spec)) {
		one := t.milliOf(&spec.Request, &l)
		if one == 0 || !t.mayUse(&spec.Request, l.Type) {
			continue
		}
		if n := l.Remaining() / one; n > 0 && n < least {
			tightest, least = &l, n
		}
	}
	return tightest
}
