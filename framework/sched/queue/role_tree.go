package queue

import (
	"cmp"
	"maps"
	"slices"

	"mesos-gpu/framework/sched/quota"
)

// roleTree compares roles level by level, as entitlements divide the cluster: at each level the role with the least share
// comes first, then the roles below it are compared. A role's share is what it and the roles below it hold, divided by its
// weight. The jobs of a role with roles below it compete with those roles, at weight 1.
type roleTree struct {
	usage *quota.Tracker
	// root is above all roles. leaves are the nodes that stand for the jobs of one role, by role.
	root   *roleNode
	leaves map[string]*roleNode
}

// roleNode is a role, or the jobs of a role among the roles below it.
type roleNode struct {
	role   string
	weight float64
	// deserved is what the role deserves, in thousandths of GPUs.
	deserved int
	parent   *roleNode
	children []*roleNode
	// amount is what the node holds as of the last call of measure.
	amount float64
}

// newRoleTree returns the tree of the configured roles and of the others that have jobs.
func newRoleTree(roles []Role, withJobs map[string][]int, usage *quota.Tracker) *roleTree {
	t := &roleTree{usage: usage, root: &roleNode{}, leaves: map[string]*roleNode{}}
	nodes := make(map[string]*roleNode, len(roles))
	for i := range roles {
		r := &roles[i]
		nodes[r.Name] = &roleNode{role: r.Name, weight: cmp.Or(r.Weight, 1), deserved: r.Deserved.Total() * quota.MilliPerGPU}
	}
	for name := range withJobs {
		if nodes[name] == nil {
			nodes[name] = &roleNode{role: name, weight: 1}
		}
	}
	isRole := func(name string) bool { return nodes[name] != nil && name != "" }
	names := slices.Sorted(maps.Keys(nodes))
	for _, name := range names {
		n := nodes[name]
		n.parent = t.root
		if above := quota.ParentOf(name, isRole); above != "" {
			n.parent = nodes[above]
		}
		n.parent.children = append(n.parent.children, n)
	}
	for _, name := range names {
		n := nodes[name]
		if len(n.children) > 0 {
			own := &roleNode{role: name, weight: 1, parent: n}
			n.children = append([]*roleNode{own}, n.children...)
			n = own
		}
		t.leaves[name] = n
	}
	return t
}

// measure sets the amounts of all nodes.
func (t *roleTree) measure() { t.measureNode(t.root) }

func (t *roleTree) measureNode(n *roleNode) {
	if len(n.children) == 0 {
		n.amount = t.amountOfLeaf(n)
		return
	}
	n.amount = 0
	deserved := 0
	for _, c := range n.children {
		t.measureNode(c)
		n.amount += c.amount
		deserved += c.deserved
	}
	if n.deserved > deserved { // what the role deserves beyond the roles below it is not borrowed
		n.amount = max(n.amount-float64(n.deserved-deserved), 0)
	}
}

// amountOfLeaf returns what the jobs of one role hold, or borrow, or have used of late.
func (t *roleTree) amountOfLeaf(n *roleNode) float64 {
	weight := 1.0
	for above := n; above != nil; above = above.parent {
		if above.role == n.role && above.weight > 0 {
			weight = above.weight // of the role itself
		}
	}
	return t.usage.WeightedShare(n.role) * weight
}

// share returns what the node holds for its weight.
func (n *roleNode) share() float64 { return n.amount / n.weight }

// compare orders nodes by their share, then by name.
func (n *roleNode) compare(o *roleNode) int {
	return cmp.Or(cmp.Compare(n.share(), o.share()), cmp.Compare(n.role, o.role))
}

// leastOf returns the role that is served next of those for which hasJobs returns true, false if there is none. measure
// must have been called.
func (t *roleTree) leastOf(hasJobs func(role string) bool) (role string, ok bool) {
	n := t.root
	for len(n.children) > 0 {
		var least *roleNode
		for _, c := range n.children {
			if c.hasJobs(hasJobs) && (least == nil || c.compare(least) < 0) {
				least = c
			}
		}
		if least == nil {
			return "", false
		}
		n = least
	}
	return n.role, n != t.root
}

// hasJobs reports whether the node or a node below it has jobs.
func (n *roleNode) hasJobs(hasJobs func(role string) bool) bool {
	if len(n.children) == 0 {
		return hasJobs(n.role)
	}
	return slices.ContainsFunc(n.children, func(c *roleNode) bool { return c.hasJobs(hasJobs) })
}

// rival is a node on the way to a role, and the sibling with jobs that is served after it.
type rival struct{ own, next *roleNode }

// rivalsOf returns the siblings that compete with a role and the roles above it. measure must have been called.
func (t *roleTree) rivalsOf(role string, hasJobs func(role string) bool) (list []rival) {
	for n := t.leaves[role]; n.parent != nil; n = n.parent {
		var next *roleNode
		for _, c := range n.parent.children {
			if c != n && c.hasJobs(hasJobs) && (next == nil || c.compare(next) < 0) {
				next = c
			}
		}
		if next != nil {
			list = append(list, rival{n, next})
		}
	}
	return list
}

// isServedFirst reports whether a role is served before all rivals if its jobs hold more than when measure was called.
func isServedFirst(rivals []rival, more float64) bool {
	return !slices.ContainsFunc(rivals, func(r rival) bool {
		grown := roleNode{role: r.own.role, weight: r.own.weight, amount: r.own.amount + more}
		return grown.compare(r.next) > 0
	})
}

// RoleShares compares the shares of roles as they change while places are given.
type RoleShares struct {
	roles []Role
	usage *quota.Tracker
	// tree has the configured roles, and the other ones that were asked for.
	tree *roleTree
}

// NewRoleShares returns the shares of the configured roles by what usage counts at each call of LargerThan.
func NewRoleShares(roles []Role, usage *quota.Tracker) *RoleShares {
	return &RoleShares{roles: roles, usage: usage}
}

// LargerThan returns the configured roles that have a larger share than the named one, the largest first. Roles of different
// parents are compared by the shares of the highest roles above them that differ. withEqual includes roles with an equal share
// that come later by name.
func (s *RoleShares) LargerThan(role string, withEqual bool) []string {
	if len(s.roles) < 2 {
		return nil
	}
	if s.tree == nil || s.tree.leaves[role] == nil {
		s.tree = newRoleTree(s.roles, map[string][]int{role: nil}, s.usage)
	}
	s.tree.measure()
	var others []string
	for i := range s.roles {
		name := s.roles[i].Name
		if more, _ := s.tree.compareRoles(name, role); more > 0 || withEqual && more == 0 && name > role {
			others = append(others, name)
		}
	}
	slices.SortFunc(others, func(a, b string) int {
		more, name := s.tree.compareRoles(a, b)
		return cmp.Or(-more, name)
	})
	return others
}

// compareRoles compares the shares and the names of two roles where their ways from the root part. measure must have been
// called.
func (t *roleTree) compareRoles(a, b string) (share, name int) {
	for x := t.leaves[a]; x.parent != nil; x = x.parent {
		for y := t.leaves[b]; y.parent != nil; y = y.parent {
			if x.parent == y.parent {
				return cmp.Compare(x.share(), y.share()), cmp.Compare(x.role, y.role)
			}
		}
	}
	return 0, 0
}
