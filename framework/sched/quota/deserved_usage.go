package quota

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// deservedTree counts what roles hold of what they deserve, or of what they are entitled to. It is nil if no role deserves
// GPUs: nothing is lent then, and nothing is reclaimed.
type deservedTree struct {
	// nodes are the roles that deserve GPUs. A role with such roles below it has a second node for the tasks that are in
	// none of those, which deserve what those leave.
	nodes []deservedNode
	// chains are the nodes that a role's tasks count in, from the role upwards, by role.
	chains map[string][]int
	// types divide the GPUs of agents by short type, and by product where an entry counts only some products of the type.
	types []string
	// allEntries means that a role may take GPUs only within all entries that count them. Otherwise each entry is a
	// guarantee by itself.
	allEntries bool
}

// deservedNode counts the deserved and held GPUs of one role, with the roles below it, or of the tasks of one role alone.
type deservedNode struct {
	role string
	// remainder is set for the node of tasks that are in no role below that deserves GPUs.
	remainder bool
	entries   []deservedEntry
}

// deservedEntry is one entry of what a role deserves, in thousandths of GPUs.
type deservedEntry struct {
	gpuType  string
	deserved int
	// held counts the GPUs that tasks hold, ending the part of them that is about to end. claimed counts the GPUs that
	// the present plan reclaims for waiting tasks.
	held, ending, claimed int
	// guaranteed is the part of held of tasks that run only inside what their role deserves.
	guaranteed int
}

func (e *deservedEntry) counts(gpuType string) bool {
	return CountsProduct(e.gpuType, gpuType)
}

// newDeservedTree returns nil if no role deserves GPUs.
func newDeservedTree(entitlements []RoleEntitlement, agents []fit.AgentResources) *deservedTree {
	if !slices.ContainsFunc(entitlements, func(e RoleEntitlement) bool { return len(e.Deserved) > 0 }) {
		return nil
	}
	t := &deservedTree{chains: map[string][]int{}}
	for i := range entitlements {
		e := &entitlements[i]
		if len(e.Deserved) == 0 {
			continue
		}
		node := deservedNode{role: e.Role}
		for _, name := range slices.Sorted(maps.Keys(e.Deserved)) {
			n := e.Deserved[name]
			for _, limit := range []string{name, AllTypes} { // an operator may have set a smaller one
				if most, ok := e.Quota.EntryFor(limit); ok {
					n = min(n, most)
				}
			}
			node.entries = append(node.entries, deservedEntry{gpuType: name, deserved: n * MilliPerGPU})
		}
		t.nodes = append(t.nodes, node)
	}
	t.addRemainders()
	t.types = divideTypes(entitlements, agents)
	return t
}

// divideTypes returns names that divide the GPUs of agents such that each entry counts either all or none of a name: short
// types, and products of a type if an entry has a more precise name.
func divideTypes(entitlements []RoleEntitlement, agents []fit.AgentResources) (names []string) {
	var precise []string
	for i := range entitlements {
		for _, entries := range []Quota{entitlements[i].Deserved, entitlements[i].Quota} {
			for name := range entries {
				if name != AllTypes && gpu.IsPreciseTypeName(name) {
					precise = append(precise, name)
				}
			}
		}
	}
	seen, added := map[gpu.Product]bool{}, map[string]bool{"": true}
	for i := range agents {
		for p := range agents[i].Products() {
			if seen[p] {
				continue
			}
			seen[p] = true
			name := p.Type()
			if slices.ContainsFunc(precise, func(entry string) bool { return gpu.MayIncludeProduct(entry, name) }) {
				name = p.String()
			}
			if !added[name] {
				added[name], names = true, append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// addRemainders adds the nodes of tasks that are in no role below that has a node.
func (t *deservedTree) addRemainders() {
	for n, parents := 0, len(t.nodes); n < parents; n++ {
		if own, ok := t.remainderNode(n, parents); ok {
			t.nodes = append(t.nodes, own)
		}
	}
}

// remainderNode returns the node for the tasks of a role that are in no role below it that deserves GPUs. It returns false
// if there is no such role.
func (t *deservedTree) remainderNode(n, roles int) (own deservedNode, ok bool) {
	parent := &t.nodes[n]
	isRole := func(name string) bool {
		return slices.ContainsFunc(t.nodes[:roles], func(o deservedNode) bool { return o.role == name })
	}
	own = deservedNode{role: parent.role, remainder: true, entries: slices.Clone(parent.entries)}
	for i := range t.nodes[:roles] {
		child := &t.nodes[i]
		if ParentOf(child.role, isRole) != parent.role {
			continue
		}
		ok = true
		for e := range own.entries {
			entry := &own.entries[e]
			entry.deserved = max(entry.deserved-child.deservedOf(entry.gpuType), 0)
		}
	}
	return own, ok
}

// deservedOf returns what the node deserves of a type; without such an entry, the sum of the entries that the type includes.
func (n *deservedNode) deservedOf(gpuType string) (sum int) {
	for i := range n.entries {
		switch e := &n.entries[i]; {
		case isSameType(e.gpuType, gpuType):
			return e.deserved
		case includesEntry(gpuType, e.gpuType):
			sum += e.deserved
		}
	}
	return sum
}

// chainOf returns the nodes that the tasks of a role count in, from the role upwards.
func (t *deservedTree) chainOf(role string) []int {
	chain, known := t.chains[role]
	if known {
		return chain
	}
	nearest := ""
	for n := range t.nodes {
		if node := &t.nodes[n]; IsWithinRole(role, node.role) && len(node.role) >= len(nearest) {
			nearest = node.role
		}
	}
	for n := range t.nodes {
		if node := &t.nodes[n]; node.remainder && node.role == nearest || !node.remainder && IsWithinRole(role, node.role) {
			chain = append(chain, n)
		}
	}
	slices.SortStableFunc(chain, func(a, b int) int {
		x, y := &t.nodes[a], &t.nodes[b]
		if x.remainder != y.remainder {
			return map[bool]int{true: -1, false: 1}[x.remainder]
		}
		return len(y.role) - len(x.role)
	})
	t.chains[role] = chain
	return chain
}

func (t *deservedTree) addHeld(role, gpuType string, milli int) {
	for e := range t.entriesOf(role, gpuType) {
		e.held += milli
	}
}

// entriesOf yields the entries in which GPUs of a type count that a role holds.
func (t *deservedTree) entriesOf(role, gpuType string) iter.Seq[*deservedEntry] {
	return func(yield func(*deservedEntry) bool) {
		for _, n := range t.chainOf(role) {
			for e := range t.nodes[n].entries {
				if entry := &t.nodes[n].entries[e]; entry.counts(gpuType) && !yield(entry) {
					return
				}
			}
		}
	}
}

// addOfTask adds what a task holds to what a role has.
func addOfTask(all map[string]map[string]int, role string, types map[string]int, shares []gpu.DeviceShare, sign int) {
	if all[role] == nil {
		all[role] = map[string]int{}
	}
	for gpuType, milli := range milliByType(types, shares) {
		all[role][gpuType] += sign * milli
	}
}

// AddReservation counts what the plan reserves for a waiting task against the limits of its role and of its user, and
// among what users hold, so that they take turns.
func (t *Tracker) AddReservation(spec *job.Spec, types map[string]int, shares []gpu.DeviceShare) {
	addOfTask(t.reserved, spec.Role, types, shares, 1)
	for _, milli := range milliByType(types, shares) {
		t.addHeldByUser(UserOf(spec), milli)
	}
	if t.users != nil && spec.Owner != "" {
		addTaskTo(t.users.reserved, UserOf(spec), types, shares, 1)
	}
}

// RestrictClaim is RestrictJob for tasks that places are reserved for: they may use what ending tasks hold of limits.
func (t *Tracker) RestrictClaim(spec *job.Spec, r gpu.Request, n int) (restricted gpu.Request, tasks int) {
	restricted, tasks, _ = t.restrictJob(spec, r, n, (*Limit).remainingForClaims)
	return restricted, tasks
}

// LimitBelowClaim returns the limit of a role in which n more tasks of a job have no room even once ending tasks have
// ended: that of the lowest such role. It returns nil without such a limit, or if a limit of the user does not permit them.
func (t *Tracker) LimitBelowClaim(spec *job.Spec, r *gpu.Request, n int) (lowest *Limit) {
	for _, l := range t.limitsWithUsage(UserOf(spec)) {
		switch {
		case !t.mayUse(r, l.Type) || l.remainingForClaims() >= n*t.milliOf(r, &l):
		case l.User != "" || l.Budget != nil:
			return nil
		case lowest == nil || len(l.Role) > len(lowest.Role):
			lowest = &l
		}
	}
	return lowest
}

// CountsUsage reports whether the limit counts GPUs that a task of a role holds.
func (l *Limit) CountsUsage(role string, types map[string]int, shares []gpu.DeviceShare) bool {
	e := deservedEntry{gpuType: l.Type}
	if l.OfMesos {
		shares = nil
	}
	return IsWithinRole(role, l.Role) && e.milliOf(types, shares) > 0
}

// AddGuaranteed counts tasks of a job that run only inside what its role deserves, with the GPUs that all of them hold. They
// count as usage too.
func (t *Tracker) AddGuaranteed(spec *job.Spec, tasks int, types map[string]int, shares []gpu.DeviceShare) {
	if t.host != nil {
		t.host.addHost(spec.Role, AmountOf(spec), tasks, func(e *deservedEntry) *int { return &e.guaranteed })
	}
	if t.deserved == nil {
		return
	}
	for _, n := range t.deserved.chainOf(spec.Role) {
		for e := range t.deserved.nodes[n].entries {
			entry := &t.deserved.nodes[n].entries[e]
			entry.guaranteed += entry.milliOf(types, shares)
		}
	}
}

// RestrictGuaranteed returns how many of n tasks of a guaranteed job may run, and the request without the types of which
// guaranteed tasks hold all that the role deserves. The tasks of a gang count all or none. Other jobs, and jobs of which no
// role deserves the resources, are not restricted.
func (t *Tracker) RestrictGuaranteed(spec *job.Spec, n int) (restricted gpu.Request, tasks int) {
	r := spec.Request
	if !spec.Guaranteed {
		return r, n
	}
	if n = t.restrictGuaranteedToHost(spec, n); n == 0 || r.GPUs == 0 || !t.reclaimsGPUs() {
		return r, n
	}
	if t.deserved == nil {
		return r, 0
	}
	types := t.deserved.types
	if len(types) == 0 {
		types = []string{AllTypes} // agents report no types
	}
	for _, name := range types {
		if !t.mayUse(&r, name) {
			continue
		}
		room := 0
		if chain := t.deserved.chainOf(spec.Role); len(chain) > 0 {
			for _, e := range t.deserved.nodes[chain[0]].entries {
				if e.counts(name) {
					room = max(room, e.deserved-e.guaranteed)
				}
			}
		}
		fits := room / t.MilliPerTask(&r, name)
		if fits == 0 || r.NeedsSameType() && fits < n {
			r.Types.Exclude = append(slices.Clone(r.Types.Exclude), name)
		}
		tasks = max(tasks, fits) // an entry for all types counts once
	}
	tasks = min(tasks, n)
	if spec.Gang && tasks < n {
		tasks = 0
	}
	return r, tasks
}

// ExplainGuaranteed returns why tasks of a guaranteed job may not run.
func (t *Tracker) ExplainGuaranteed(spec *job.Spec, tasks int) LimitExplanation {
	if t.restrictGuaranteedToHost(spec, tasks) < tasks {
		return t.explainGuaranteedHost(spec, tasks)
	}
	var parts []string
	who := "role " + spec.Role + " deserves none"
	var chain []int
	if t.deserved != nil {
		chain = t.deserved.chainOf(spec.Role)
	}
	if len(chain) > 0 {
		node := &t.deserved.nodes[chain[0]]
		for i := range node.entries {
			e := &node.entries[i]
			parts = append(parts, fmt.Sprintf("%s and its guaranteed tasks hold %s", &Limit{Type: e.gpuType, Max: e.deserved}, FormatMilliGPUs(e.guaranteed)))
		}
		who = "role " + node.role + " deserves " + strings.Join(parts, ", ")
	}
	return LimitExplanation{
		Needs:     fmt.Sprintf("%s more of what role %s deserves", FormatGPUCount(t.milliToStart(spec, tasks, &Limit{Type: AllTypes})), spec.Role),
		Available: who,
	}
}

// milliOf returns what a task that holds these GPUs counts in the entry.
func (e *deservedEntry) milliOf(types map[string]int, shares []gpu.DeviceShare) (milli int) {
	for name, n := range types {
		if e.counts(name) {
			milli += n * MilliPerGPU
		}
	}
	for i := range shares {
		if e.counts(shares[i].ProductName()) {
			milli += shares[i].MilliDevices
		}
	}
	return milli
}

// DescribeDeserved returns what a role deserves and holds, such as "it deserves 8 A100 and holds 3".
func (t *Tracker) DescribeDeserved(role string) string {
	if t.entitled {
		return t.describeEntitled(role)
	}
	chain := t.deserved.chainOf(role)
	if len(chain) == 0 {
		return "it deserves none"
	}
	node := &t.deserved.nodes[chain[0]]
	var parts []string
	for i := range node.entries {
		e := &node.entries[i]
		parts = append(parts, fmt.Sprintf("%s and holds %s", &Limit{Type: e.gpuType, Max: e.deserved}, FormatMilliGPUs(e.held)))
	}
	who := "it"
	if node.role != role {
		who = "role " + node.role
	}
	return who + " deserves " + strings.Join(parts, ", ")
}

// DeservedFraction returns how much of the GPUs that a role deserves it holds or reclaims, 0 for nothing. Of a role that
// deserves none, or is entitled to none, it is the larger one of CPUs and memory, and 1 if the role deserves nothing.
func (t *Tracker) DeservedFraction(role string) float64 {
	var chain []int
	if t.pursued != nil {
		chain = t.pursued.chainOf(role)
	}
	if len(chain) == 0 {
		return t.deservedHostFraction(role)
	}
	held, deserved := 0, 0
	for _, e := range t.pursued.nodes[chain[0]].entries {
		if e.gpuType == AllTypes {
			held, deserved = e.held+e.claimed, e.deserved
			break
		}
		held, deserved = held+e.held+e.claimed, deserved+e.deserved
	}
	if deserved == 0 {
		return t.deservedHostFraction(role)
	}
	return float64(held) / float64(deserved)
}

// BorrowedOf returns what a role itself holds beyond what it deserves, of all types.
func (t *Tracker) BorrowedOf(role string) int {
	tree := t.deserved
	if t.entitled {
		tree = t.pursued
	}
	if tree == nil {
		return t.total[role]
	}
	chain := tree.chainOf(role)
	if len(chain) == 0 || tree.nodes[chain[0]].role != role {
		return t.total[role] // it deserves nothing itself
	}
	sum := 0
	for _, e := range tree.nodes[chain[0]].entries {
		if e.gpuType == AllTypes {
			return max(t.total[role]-e.deserved, 0)
		}
		sum += e.deserved
	}
	return max(t.total[role]-sum, 0)
}

// ShareNote returns the sentence to append to a reason why a job waits: what its role deserves, holds and borrows. It
// returns "" if no role deserves what the job needs, and for guaranteed jobs, whose reason has these numbers.
func (t *Tracker) ShareNote(spec *job.Spec) string {
	if spec.Guaranteed {
		return ""
	}
	if !t.reclaimsGPUs() || spec.Request.GPUs == 0 {
		return t.hostNote(spec)
	}
	if t.entitled {
		return "; role " + spec.Role + strings.TrimPrefix(t.describeEntitled(spec.Role), "it") + t.hostNote(spec)
	}
	borrowed := FormatMilliGPUs(t.BorrowedOf(spec.Role))
	if len(t.deserved.chainOf(spec.Role)) == 0 {
		return fmt.Sprintf("; role %s deserves none and borrows %s%s", spec.Role, borrowed, t.hostNote(spec))
	}
	deserved := t.DescribeDeserved(spec.Role)
	if own, ok := strings.CutPrefix(deserved, "it "); ok {
		deserved = "role " + spec.Role + " " + own
	}
	return fmt.Sprintf("; %s, borrows %s%s", deserved, borrowed, t.hostNote(spec))
}

// FormatGPUCount writes thousandths of GPUs with their unit: "1 GPU", "2.5 GPUs".
func FormatGPUCount(milli int) string {
	return (&Limit{Type: AllTypes, Max: milli}).String()
}
