package quota

import (
	"fmt"
	"maps"
	"slices"

	"mesos-gpu/framework/sched/entitlement"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func (t *deservedTree) addEnding(role, gpuType string, milli int) {
	for e := range t.entriesOf(role, gpuType) {
		e.ending += milli
	}
}

// AddEnding records that tasks will end: they do not protect other tasks of their role from reclaim, and what they hold of
// limits may be reserved. sign -1 takes it back.
func (t *Tracker) AddEnding(h *Holding, sign int) {
	if !t.Reclaims() {
		return
	}
	if t.pursued != nil {
		for gpuType, milli := range milliByType(h.Types, h.Shares) {
			t.pursued.addEnding(h.Role, gpuType, sign*milli)
		}
	}
	if t.host != nil {
		t.host.addHost(h.Role, h.Amount, sign, func(e *deservedEntry) *int { return &e.ending })
	}
	addOfTask(t.ending, h.Role, h.Types, h.Shares, sign)
}

// Reclaims reports whether roles lend and reclaim anything.
func (t *Tracker) Reclaims() bool { return t.reclaimsGPUs() || t.host != nil }

func (t *Tracker) reclaimsGPUs() bool { return t.deserved != nil || t.entitled }

// roomFor returns how many thousandths of GPUs of one type the role may take so that it is inside what it deserves. With a
// level above 0, the limit is the amount that the role that many levels above it deserves, counting roles that deserve GPUs.
func (t *deservedTree) roomFor(role string, level int, gpuType string) (room int) {
	chain := t.chainOf(role)
	if level >= len(chain) {
		return 0
	}
	least := -1
	for i := range t.nodes[chain[level]].entries {
		if e := &t.nodes[chain[level]].entries[i]; e.counts(gpuType) {
			left := max(e.deserved-e.held-e.claimed, 0)
			if room = max(room, left); least < 0 || left < least {
				least = left
			}
		}
	}
	if t.allEntries {
		return max(least, 0)
	}
	return room
}

// DeservedLevels returns the most levels of roles above each other that deserve GPUs, or CPUs and memory.
func (t *Tracker) DeservedLevels() (levels int) {
	for _, tree := range []*deservedTree{t.pursued, t.host} {
		for i := range t.entitlements {
			if tree != nil {
				levels = max(levels, len(tree.chainOf(t.entitlements[i].Role)))
			}
		}
	}
	return levels
}

// RestrictToDeserved returns how many of n tasks of a job are inside what its role deserves, or the role that many levels
// above it, and the request without the types of which that is used up. The tasks of a gang count all or none.
func (t *Tracker) RestrictToDeserved(spec *job.Spec, level, n int) (restricted gpu.Request, tasks int) {
	r := spec.Request
	if r.GPUs > 0 && (t.pursued == nil || level >= len(t.pursued.chainOf(spec.Role))) {
		return r, 0
	}
	if n = t.restrictToHost(spec, level, n); n == 0 {
		return r, 0
	}
	if spec.Guaranteed {
		if r, n = t.RestrictGuaranteed(spec, n); n == 0 || level > 0 {
			return r, 0
		}
	}
	if r.GPUs == 0 {
		return r, n
	}
	types := t.pursued.types
	if len(types) == 0 {
		types = []string{AllTypes} // agents report no types
	}
	var excluded, accepted []string
	for _, name := range types {
		if !t.mayUse(&r, name) {
			continue
		}
		one := t.MilliPerTask(&r, name)
		fits := t.pursued.roomFor(spec.Role, level, name) / one
		if fits == 0 || r.NeedsSameType() && fits < n {
			excluded = append(excluded, name)
		} else {
			accepted = append(accepted, name)
		}
	}
	for _, name := range accepted {
		one := t.MilliPerTask(&r, name)
		fits := t.pursued.roomFor(spec.Role, level, name) / one
		tasks += fits
		t.pursued.addClaim(spec.Role, name, fits*one) // so that an entry for all types counts once
		defer t.pursued.addClaim(spec.Role, name, -fits*one)
	}
	tasks = min(tasks, n)
	if spec.Gang && tasks < n {
		tasks = 0
	}
	if tasks > 0 && len(excluded) > 0 {
		r.Types.Exclude = append(slices.Clone(r.Types.Exclude), excluded...)
	}
	return r, tasks
}

func (t *deservedTree) addClaim(role, gpuType string, milli int) {
	for e := range t.entriesOf(role, gpuType) {
		e.claimed += milli
	}
}

// AddClaim counts tasks that wait for what is reclaimed against what their role deserves, with GPUs of every type that the
// request accepts, so that later jobs of the role do not take their part.
func (t *Tracker) AddClaim(spec *job.Spec, r *gpu.Request, tasks int) {
	if t.host != nil {
		t.host.addHost(spec.Role, AmountOf(spec), tasks, func(e *deservedEntry) *int { return &e.claimed })
	}
	if r.GPUs == 0 {
		return
	}
	for _, n := range t.pursued.chainOf(spec.Role) {
		for i := range t.pursued.nodes[n].entries {
			e := &t.pursued.nodes[n].entries[i]
			if t.mayCount(r, e) {
				e.claimed += tasks * t.MilliPerTask(r, e.gpuType)
			}
		}
	}
}

// TasksAllowedByClaims returns how many of n tasks of a job may start while a claim of another job waits for tasks that end: with
// more of them, a role that both are in would hold more than it deserves, and the claim would no longer be one. The tasks of a
// gang count all or none.
func (t *Tracker) TasksAllowedByClaims(spec *job.Spec, claimant string, n int) int {
	most := n
	limit := func(tree *deservedTree, perTask func(*deservedEntry) int) {
		if tree == nil {
			return
		}
		claims := tree.chainOf(claimant)
		for _, node := range tree.chainOf(spec.Role) {
			if !slices.Contains(claims, node) {
				continue
			}
			for i := range tree.nodes[node].entries {
				e := &tree.nodes[node].entries[i]
				room, one := e.deserved-e.held-e.claimed, perTask(e)
				if e.claimed > 0 && room >= 0 && one > 0 {
					most = min(most, room/one)
				}
			}
		}
	}
	limit(t.host, func(e *deservedEntry) int { return milliOfHost(AmountOf(spec), e.gpuType) })
	if r := &spec.Request; r.GPUs > 0 {
		limit(t.pursued, func(e *deservedEntry) int {
			if !t.mayCount(r, e) {
				return 0
			}
			return t.MilliPerTask(r, e.gpuType)
		})
	}
	if spec.Gang && most < n {
		return 0
	}
	return most
}

// mayCount reports whether an entry counts GPUs that a request accepts.
func (t *Tracker) mayCount(r *gpu.Request, e *deservedEntry) bool {
	return e.gpuType == AllTypes || slices.ContainsFunc(t.pursued.types, func(name string) bool { return e.counts(name) && t.mayUse(r, name) })
}

// CanReclaim reports whether a role may take GPUs that a task of another role holds: each role that deserves them and
// lends them holds more than it deserves, not counting tasks that are about to end. With keepsDeserved, it also keeps what
// it deserves once the task has ended. Roles above both of them lose nothing.
func (t *Tracker) CanReclaim(claimant, lender string, types map[string]int, shares []gpu.DeviceShare, keepsDeserved bool) bool {
	return claimant != lender && t.lendsGPUs(t.pursued.chainOf(claimant), lender, types, shares, keepsDeserved)
}

// lendsGPUs is CanReclaim with the nodes that are above the claimant too, which are not compared.
func (t *Tracker) lendsGPUs(shared []int, lender string, types map[string]int, shares []gpu.DeviceShare, keepsDeserved bool) bool {
	for _, n := range t.pursued.chainOf(lender) {
		if slices.Contains(shared, n) {
			continue
		}
		for i := range t.pursued.nodes[n].entries {
			e := &t.pursued.nodes[n].entries[i]
			milli := e.milliOf(types, shares)
			if milli == 0 {
				continue
			}
			if left := e.held - e.ending; left <= e.deserved || keepsDeserved && left-milli < e.deserved {
				return false
			}
		}
	}
	return true
}

// IsInsideDeserved reports whether the claimant's part of the tree may grow at the expense of the lender's: the highest
// role above the claimant that is not above the lender too, or else the claimant, is inside what it deserves of the GPUs
// that a task of the lender holds. GPUs that AddClaim has counted are included, those of tasks that are about to end are not.
// So siblings compare what they deserve, and roles of different parents what their parents deserve.
func (t *Tracker) IsInsideDeserved(claimant, lender string, types map[string]int, shares []gpu.DeviceShare) bool {
	shared := t.pursued.chainOf(lender)
	for _, n := range slices.Backward(t.pursued.chainOf(claimant)) {
		if !slices.Contains(shared, n) {
			return t.pursued.isInside(n, func(e *deservedEntry) bool { return e.milliOf(types, shares) > 0 })
		}
	}
	return false
}

// isInside reports whether a node holds no more than it deserves, with what is claimed and without what is about to end, in
// the entries that count: in one of them, or in all with allEntries.
func (t *deservedTree) isInside(node int, counts func(*deservedEntry) bool) bool {
	some := false
	for i := range t.nodes[node].entries {
		e := &t.nodes[node].entries[i]
		switch inside := e.held-e.ending+e.claimed <= e.deserved; {
		case !counts(e):
		case t.allEntries && !inside:
			return false
		default:
			some = some || inside
		}
	}
	return some || t.allEntries
}

// RoleBeyondDeserved returns the lowest role above the one that claims for a job at a level that will hold more than it
// deserves if the claim gets its places, "" without such a role. Tasks inside it must end before others do.
func (t *Tracker) RoleBeyondDeserved(spec *job.Spec, r *gpu.Request, level int) string {
	if t.pursued == nil || r.GPUs == 0 {
		return ""
	}
	chain := t.pursued.chainOf(spec.Role)
	for _, n := range chain[min(level+1, len(chain)):] {
		if !t.pursued.isInside(n, func(e *deservedEntry) bool { return t.mayCount(r, e) }) {
			return t.pursued.nodes[n].role
		}
	}
	return ""
}

// IsBelowDeserved reports whether the role of a holding, or a role above it, will hold less than it deserves of what the holding
// has once all ending tasks have ended.
func (t *Tracker) IsBelowDeserved(h *Holding) bool {
	isBelow := func(tree *deservedTree, amount func(*deservedEntry) int) bool {
		if tree == nil {
			return false
		}
		for _, n := range tree.chainOf(h.Role) {
			for i := range tree.nodes[n].entries {
				if e := &tree.nodes[n].entries[i]; amount(e) > 0 && e.held-e.ending < e.deserved {
					return true
				}
			}
		}
		return false
	}
	return isBelow(t.pursued, func(e *deservedEntry) int { return e.milliOf(h.Types, h.Shares) }) ||
		isBelow(t.host, func(e *deservedEntry) int { return milliOfHost(h.Amount, e.gpuType) })
}

// describeEntitled returns what a role is entitled to and holds, such as "it is entitled to 7.5 GPUs and holds 3".
func (t *Tracker) describeEntitled(role string) string {
	chain := t.pursued.chainOf(role)
	if len(chain) == 0 {
		return "it is entitled to no GPUs"
	}
	node := &t.pursued.nodes[chain[0]]
	who := "it"
	if node.role != role {
		who = "role " + node.role
	}
	for i := range node.entries {
		if e := &node.entries[i]; e.gpuType == AllTypes {
			return fmt.Sprintf("%s is entitled to %s and holds %s", who, &Limit{Type: AllTypes, Max: e.deserved}, FormatMilliGPUs(e.held))
		}
	}
	return who + " is entitled to no GPUs"
}

// PursueEntitlements makes reclaim give each role what it is entitled to, instead of what it deserves only, once
// UpdateEntitlements is called.
func (t *Tracker) PursueEntitlements() { t.entitled, t.pursued = true, nil }

// UpdateEntitlements computes what roles are entitled to by what they hold and demand now, and at least what they deserve.
// It does nothing without PursueEntitlements.
func (t *Tracker) UpdateEntitlements() {
	if !t.entitled {
		return
	}
	tree := &deservedTree{chains: map[string][]int{}, allEntries: true}
	roles := make([]string, len(t.entitlements))
	for i := range t.entitlements {
		roles[i] = t.entitlements[i].Role
		tree.nodes = append(tree.nodes, deservedNode{role: roles[i]})
	}
	for _, gpuType := range t.GPUTypes() {
		granted := t.Entitle(roles, gpuType)
		for i := range tree.nodes {
			node := &tree.nodes[i]
			least := t.ClaimOf(node.role, gpuType).Deserved
			node.entries = append(node.entries, deservedEntry{gpuType: gpuType, deserved: max(granted[node.role], least)})
		}
	}
	tree.types = divideTypes(t.entitlements, t.agents)
	tree.addRemainders()
	for role, types := range t.held {
		for gpuType, milli := range types {
			tree.addHeld(role, gpuType, milli)
		}
	}
	for role, types := range t.ending {
		for gpuType, milli := range types {
			tree.addEnding(role, gpuType, milli)
		}
	}
	t.pursued = tree
}

// Entitle divides the GPUs of a type, or of all types, among roles by what they hold and demand, and returns their parts.
func (t *Tracker) Entitle(roles []string, gpuType string) map[string]int {
	claims := make([]entitlement.Claim, len(roles))
	for i, role := range roles {
		claims[i] = t.ClaimOf(role, gpuType)
	}
	return entitlement.Divide(t.Capacity(gpuType), claims)
}

// RolesAboveEntitlement returns the roles that hold more of a GPU type, or of all together, than they are entitled to.
func (t *Tracker) RolesAboveEntitlement() map[string]bool {
	roles := map[string]bool{}
	for i := range t.entitlements {
		roles[t.entitlements[i].Role] = true
	}
	for role := range t.held {
		roles[role] = true
	}
	names := slices.Sorted(maps.Keys(roles))
	above := map[string]bool{}
	for _, gpuType := range t.GPUTypes() {
		entitled := t.Entitle(names, gpuType)
		for _, role := range names {
			held := 0
			for other := range t.held {
				if IsWithinRole(other, role) {
					held += t.heldOf(other, gpuType)
				}
			}
			above[role] = above[role] || held > entitled[role]+MilliPerGPU/2 // entitlements are no whole GPUs
		}
	}
	return above
}
