package quota

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// HostQuota has the CPUs and the MiB of memory of agents that a role deserves, by the names of the keys of a job. A resource
// without an entry is neither claimed nor compared.
type HostQuota map[string]float64

// CPUs and Memory are the resources of a HostQuota.
const (
	CPUs   = "cpus"
	Memory = "mem"
)

// HostResources returns the names of all resources of a HostQuota.
func HostResources() []string { return []string{CPUs, Memory} }

// milliPerUnit is the unit of all amounts of CPUs and memory here: thousandths of a CPU and of a MiB.
const milliPerUnit = 1000

// Holding describes what tasks of one role hold: one task, or all tasks of a gang.
type Holding struct {
	Role string
	// HoldsGPUs is set if the tasks hold GPUs, or parts of them. Types and Shares are these.
	HoldsGPUs bool
	Types     map[string]int
	Shares    []gpu.DeviceShare
	// Amount has the CPUs and memory of the tasks, without those of their executors.
	Amount fit.Amount
}

// AmountOf returns the CPUs and memory that a task of a job counts for: what the job requests, without its executor.
func AmountOf(spec *job.Spec) fit.Amount { return fit.Amount{CPUs: spec.CPUs, MemMiB: spec.MemMiB} }

// milliOfHost returns the thousandths of an amount's CPUs or MiB.
func milliOfHost(a fit.Amount, resource string) int {
	units := a.CPUs
	if resource == Memory {
		units = a.MemMiB
	}
	return int(math.Round(units * milliPerUnit))
}

// newHostTree returns the tree of the CPUs and memory that roles deserve, nil if no role deserves any. The types of its
// entries are resources.
func newHostTree(entitlements []RoleEntitlement) *deservedTree {
	t := &deservedTree{chains: map[string][]int{}}
	for i := range entitlements {
		e := &entitlements[i]
		if len(e.DeservedHost) == 0 {
			continue
		}
		node := deservedNode{role: e.Role}
		for _, name := range slices.Sorted(maps.Keys(e.DeservedHost)) {
			node.entries = append(node.entries, deservedEntry{gpuType: name, deserved: int(math.Round(e.DeservedHost[name] * milliPerUnit))})
		}
		t.nodes = append(t.nodes, node)
	}
	if len(t.nodes) == 0 {
		return nil
	}
	t.addRemainders()
	return t
}

// addHost adds an amount of CPUs and memory to one count of all entries of a role.
func (t *deservedTree) addHost(role string, a fit.Amount, times int, count func(*deservedEntry) *int) {
	for _, n := range t.chainOf(role) {
		for i := range t.nodes[n].entries {
			e := &t.nodes[n].entries[i]
			*count(e) += times * milliOfHost(a, e.gpuType)
		}
	}
}

// DeservesHost reports whether a role deserves CPUs or memory.
func (t *Tracker) DeservesHost() bool { return t.host != nil }

// AddHostUsage adds the CPUs and memory of tasks of a job to what its role holds; tasks below 0 are removed. It counts
// nothing if no role deserves CPUs or memory.
func (t *Tracker) AddHostUsage(spec *job.Spec, tasks int) {
	if t.host == nil {
		return
	}
	t.host.addHost(spec.Role, AmountOf(spec), tasks, func(e *deservedEntry) *int { return &e.held })
	addHostTo(t.heldHost, spec, tasks)
}

// addHostDemand adds the CPUs and memory of waiting tasks to what their role demands.
func (t *Tracker) addHostDemand(spec *job.Spec, tasks int) {
	if t.host != nil {
		addHostTo(t.demandHost, spec, tasks)
	}
}

func addHostTo(all map[string]map[string]int, spec *job.Spec, tasks int) {
	if all[spec.Role] == nil {
		all[spec.Role] = map[string]int{}
	}
	for _, resource := range HostResources() {
		all[spec.Role][resource] += tasks * milliOfHost(AmountOf(spec), resource)
	}
}

// HostUsage is the amount of one resource that a role and the roles below it hold and demand: CPUs, or MiB of memory.
type HostUsage struct{ Held, Demanded float64 }

// HostUsageWithin returns what a role and the roles below it hold and demand of the resources that roles deserve. It returns
// nil if no role deserves CPUs or memory.
func (t *Tracker) HostUsageWithin(role string) map[string]HostUsage {
	if t.host == nil {
		return nil
	}
	sum := func(all map[string]map[string]int, resource string) (milli int) {
		for name, amounts := range all {
			if IsWithinRole(name, role) {
				milli += amounts[resource]
			}
		}
		return milli
	}
	usage := map[string]HostUsage{}
	for i := range t.entitlements {
		for resource := range t.entitlements[i].DeservedHost {
			held := float64(sum(t.heldHost, resource)) / milliPerUnit
			usage[resource] = HostUsage{Held: held, Demanded: held + float64(sum(t.demandHost, resource))/milliPerUnit}
		}
	}
	return usage
}

// hostNode returns the node of the role, or of the role that many levels above it, that deserves CPUs or memory, nil if
// there is none. Levels count the roles that deserve some.
func (t *Tracker) hostNode(role string, level int) *deservedNode {
	if t.host == nil {
		return nil
	}
	if chain := t.host.chainOf(role); level < len(chain) {
		return &t.host.nodes[chain[level]]
	}
	return nil
}

// tasksWithin returns how many tasks of a job have room in all entries of a node. used returns what is used of an entry.
func (n *deservedNode) tasksWithin(spec *job.Spec, used func(*deservedEntry) int) int {
	tasks := job.MaxTasks
	for i := range n.entries {
		e := &n.entries[i]
		if one := milliOfHost(AmountOf(spec), e.gpuType); one > 0 {
			tasks = min(tasks, max(e.deserved-used(e), 0)/one)
		}
	}
	return tasks
}

// restrictToHost returns how many of n tasks of a job are inside the CPUs and memory that its role deserves, or the role
// that many levels above it. Of roles that deserve neither, tasks with GPUs are not restricted, others are not inside.
func (t *Tracker) restrictToHost(spec *job.Spec, level, n int) int {
	node := t.hostNode(spec.Role, level)
	if spec.Request.GPUs > 0 {
		for ; node == nil && level > 0; node = t.hostNode(spec.Role, level) {
			level-- // the levels of GPUs may be more
		}
	}
	return node.fittingTasks(spec, n, func(e *deservedEntry) int { return e.held + e.claimed })
}

// fittingTasks returns how many of n tasks of a job have room in all entries of a node, all or none of a gang. used returns
// what is used of an entry. Without a node, tasks with GPUs are not restricted, and others have no room.
func (n *deservedNode) fittingTasks(spec *job.Spec, tasks int, used func(*deservedEntry) int) int {
	fits := tasks
	switch {
	case n != nil:
		fits = min(fits, n.tasksWithin(spec, used))
	case spec.Request.GPUs == 0:
		fits = 0
	}
	if spec.Gang && fits < tasks {
		return 0
	}
	return fits
}

// restrictGuaranteedToHost returns how many of n tasks of a guaranteed job are inside the CPUs and memory that its role
// deserves. Tasks with GPUs of a role that deserves neither are not restricted.
func (t *Tracker) restrictGuaranteedToHost(spec *job.Spec, n int) int {
	if t.host == nil {
		return n
	}
	return t.hostNode(spec.Role, 0).fittingTasks(spec, n, func(e *deservedEntry) int { return e.guaranteed })
}

// explainGuaranteedHost returns why the CPUs and memory that its role deserves do not permit tasks of a guaranteed job.
func (t *Tracker) explainGuaranteedHost(spec *job.Spec, tasks int) LimitExplanation {
	node := t.hostNode(spec.Role, 0)
	if node == nil {
		return LimitExplanation{Needs: "CPUs and memory that role " + spec.Role + " deserves", Available: "role " + spec.Role + " deserves none"}
	}
	if !spec.Gang {
		tasks = 1
	}
	used := func(e *deservedEntry) int { return e.guaranteed }
	every := func(*deservedEntry) bool { return true }
	return LimitExplanation{
		Needs:     fmt.Sprintf("%s more of what role %s deserves", t.DescribeHost(spec, tasks), spec.Role),
		Available: "role " + node.role + " deserves " + node.describeEntries("its guaranteed tasks hold", used, every),
	}
}

// deservedHostFraction returns how much of the CPUs or of the memory that a role deserves it holds or claims, whichever is
// more. It is 1 for a role that deserves neither.
func (t *Tracker) deservedHostFraction(role string) (most float64) {
	node := t.hostNode(role, 0)
	if node == nil {
		return 1
	}
	for i := range node.entries {
		e := &node.entries[i]
		most = max(most, float64(e.held+e.claimed)/float64(max(e.deserved, 1)))
	}
	return most
}

// ClaimingRole returns the role above a job's that claims for it at a level, from roles outside of it. It returns "" at level
// 0, and if no role deserves CPUs or memory: only these can put a job on a level at which its role has room for its GPUs.
func (t *Tracker) ClaimingRole(spec *job.Spec, level int) string {
	if t.host == nil || level == 0 {
		return ""
	}
	tree := t.host
	if spec.Request.GPUs > 0 {
		tree = t.pursued
	}
	return tree.nodes[tree.chainOf(spec.Role)[level]].role
}

// MayTake reports whether tasks of another role may end for a claim of the claimant, which has counted the claim. GPUs are
// compared for claims with GPUs, CPUs and memory for claims without. A task with GPUs ends for a claim without them, or the
// reverse, only if neither its role nor one above it is inside what it deserves of its kind: it is no claim itself then once
// it waits. With keepsDeserved, the other role also keeps what it deserves once the tasks have ended.
func (t *Tracker) MayTake(claimant string, withGPUs bool, h *Holding, keepsDeserved bool) bool {
	switch {
	case claimant == h.Role:
		return false
	case h.HoldsGPUs && withGPUs:
		return t.CanReclaim(claimant, h.Role, h.Types, h.Shares, keepsDeserved) && t.IsInsideDeserved(claimant, h.Role, h.Types, h.Shares)
	case h.HoldsGPUs && t.pursued != nil && !t.lendsGPUs(nil, h.Role, h.Types, h.Shares, keepsDeserved):
		return false
	case t.host == nil:
		return true // GPUs that a role deserves come first
	}
	return t.mayTakeHost(claimant, withGPUs, h, keepsDeserved)
}

// mayTakeHost compares the CPUs and memory that two roles deserve and hold. There must be a resource that the lender and the
// roles above it lend, and of which the claimant is inside what it deserves. A claim with GPUs needs no deserved CPUs and
// memory.
func (t *Tracker) mayTakeHost(claimant string, withGPUs bool, h *Holding, keepsDeserved bool) bool {
	own, other := t.host.chainOf(claimant), t.host.chainOf(h.Role)
	var claims *deservedNode // the highest that is not above both
	for _, n := range own {
		if !slices.Contains(other, n) {
			claims = &t.host.nodes[n]
		}
	}
	if withGPUs {
		own = nil
	}
	for _, resource := range HostResources() {
		if !withGPUs && (claims == nil || !claims.isInside(resource)) {
			continue
		}
		if !slices.ContainsFunc(other, func(n int) bool {
			return !slices.Contains(own, n) && !t.host.nodes[n].lends(resource, h, keepsDeserved)
		}) {
			return true
		}
	}
	return false
}

// isInside reports whether the node deserves a resource and holds no more of it, with what is claimed.
func (n *deservedNode) isInside(resource string) bool {
	return slices.ContainsFunc(n.entries, func(e deservedEntry) bool { return e.gpuType == resource && e.held+e.claimed <= e.deserved })
}

// lends reports whether the node holds more of a resource than it deserves, not counting tasks that are about to end. If it
// deserves only the other resource, that is compared: what it holds inside that is its own. With keepsDeserved, it also
// keeps what it deserves of both once a holding has ended.
func (n *deservedNode) lends(resource string, h *Holding, keepsDeserved bool) bool {
	isListed := slices.ContainsFunc(n.entries, func(e deservedEntry) bool { return e.gpuType == resource })
	return !slices.ContainsFunc(n.entries, func(e deservedEntry) bool {
		left := e.held - e.ending
		return (e.gpuType == resource || !isListed) && left <= e.deserved || keepsDeserved && left-milliOfHost(h.Amount, e.gpuType) < e.deserved
	})
}

// formatHost writes thousandths of CPUs or of MiB: "32 CPUs", "1.5 GiB of memory".
func formatHost(resource string, milli int) string {
	number, unit := formatHostNumber(resource, milli)
	switch {
	case resource == Memory:
		return number + " " + unit + " of memory"
	case number == "1":
		return "1 CPU"
	}
	return number + " CPUs"
}

// formatHostNumber writes thousandths of CPUs or of MiB with the unit of memory.
func formatHostNumber(resource string, milli int) (number, unit string) {
	x := float64(milli) / milliPerUnit
	if resource == Memory {
		unit = "MiB"
		if x >= 1024 || x == 0 {
			x, unit = x/1024, "GiB"
		}
		x = math.Round(x*100) / 100
	}
	return strconv.FormatFloat(x, 'f', -1, 64), unit
}

// describeEntries returns what a node deserves of each resource and holds, such as "32 CPUs and holds 3, 64 GiB of memory
// and holds 5 GiB".
func (n *deservedNode) describeEntries(verb string, used func(*deservedEntry) int, include func(*deservedEntry) bool) string {
	var parts []string
	for i := range n.entries {
		e := &n.entries[i]
		if !include(e) {
			continue
		}
		number, unit := formatHostNumber(e.gpuType, used(e))
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s and %s %s %s", formatHost(e.gpuType, e.deserved), verb, number, unit)))
	}
	return strings.Join(parts, ", ")
}

// DescribeDeservedHost returns what a role deserves and holds of CPUs and memory, such as "it deserves 32 CPUs and holds 3".
func (t *Tracker) DescribeDeservedHost(role string) string {
	node := t.hostNode(role, 0)
	if node == nil {
		return "it deserves no CPUs and no memory"
	}
	who := "it"
	if node.role != role {
		who = "role " + node.role
	}
	return who + " deserves " + node.describeEntries("holds", (*deservedEntry).getHeld, func(*deservedEntry) bool { return true })
}

func (e *deservedEntry) getHeld() int { return e.held }

// hostNote returns the sentence to append to a reason why a job waits: what its role deserves of CPUs and memory, of a job
// with GPUs only of those that have no room for a task. It returns "" if that does not matter to the job.
func (t *Tracker) hostNote(spec *job.Spec) string {
	node := t.hostNode(spec.Role, 0)
	withGPUs := spec.Request.GPUs > 0
	if t.host == nil || node == nil && withGPUs {
		return ""
	}
	if node == nil {
		return fmt.Sprintf("; role %s deserves no CPUs and no memory", spec.Role)
	}
	text := node.describeEntries("holds", (*deservedEntry).getHeld, func(e *deservedEntry) bool {
		return !withGPUs || e.held+milliOfHost(AmountOf(spec), e.gpuType) > e.deserved
	})
	if text == "" {
		return ""
	}
	return fmt.Sprintf("; role %s deserves %s", node.role, text)
}

// DescribeHost writes what tasks of a job need of the resources that its role deserves, such as "2 CPUs and 4 GiB of memory".
func (t *Tracker) DescribeHost(spec *job.Spec, tasks int) string {
	var parts []string
	if node := t.hostNode(spec.Role, 0); node != nil {
		for i := range node.entries {
			resource := node.entries[i].gpuType
			parts = append(parts, formatHost(resource, tasks*milliOfHost(AmountOf(spec), resource)))
		}
	}
	return strings.Join(parts, " and ")
}

// BorrowedHost writes what a role itself holds of CPUs and memory beyond what it deserves, "" for nothing.
func (t *Tracker) BorrowedHost(role string) string {
	var parts []string
	for _, resource := range HostResources() {
		borrowed, node := t.heldHost[role][resource], t.hostNode(role, 0)
		if node != nil && node.role == role {
			at := slices.IndexFunc(node.entries, func(e deservedEntry) bool { return e.gpuType == resource })
			if at < 0 {
				continue
			}
			borrowed -= node.entries[at].deserved
		}
		if borrowed > 0 {
			parts = append(parts, formatHost(resource, borrowed))
		}
	}
	return strings.Join(parts, " and ")
}

// validateDeservedHost returns all errors in the CPUs and memory that roles deserve: the roles below one deserve no more
// together than it does, if it deserves some itself.
func validateDeservedHost(roles []RoleEntitlement) error {
	deserving := map[string]*RoleEntitlement{}
	for i := range roles {
		if len(roles[i].DeservedHost) > 0 {
			deserving[roles[i].Role] = &roles[i]
		}
	}
	var errs []error
	children := map[string][]string{}
	for _, role := range slices.Sorted(maps.Keys(deserving)) {
		for resource, n := range deserving[role].DeservedHost {
			if !slices.Contains(HostResources(), resource) || !(n >= 0 && n <= maxGPUs*1024) {
				errs = append(errs, fmt.Errorf("role %q: it deserves %s=%g, which is no amount", role, resource, n))
			}
		}
		if parent := ParentOf(role, func(name string) bool { return deserving[name] != nil }); parent != "" {
			children[parent] = append(children[parent], role)
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(children)) {
		for _, resource := range HostResources() {
			sum := 0.0
			for _, child := range children[parent] {
				sum += deserving[child].DeservedHost[resource]
			}
			if own := deserving[parent].DeservedHost[resource]; sum > own {
				describe := func(n float64) string { return formatHost(resource, int(n*milliPerUnit)) }
				errs = append(errs, fmt.Errorf("role %q deserves %s, the roles below it (%s) deserve %s together",
					parent, describe(own), strings.Join(children[parent], ", "), describe(sum)))
			}
		}
	}
	return errors.Join(errs...)
}
