// Package entitlement divides one resource among a tree of roles by hierarchical max–min fairness: each role first gets
// the amount that it deserves and demands. The rest is divided by weight among the roles that demand more. The package
// does not depend on jobs, agents or time.
package entitlement

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Claim contains the limit, the guarantee and the demand of one role. All amounts are in the same unit.
type Claim struct {
	// Role is the name. "a/b" is below "a", or below the nearest role above it that has a Claim.
	Role string
	// Weight is the role's part of what is left over among its siblings. 0 means 1.
	Weight float64
	// Deserved is guaranteed to the role and the roles below it while they demand it. What the role deserves beyond its
	// children is for its own demand. HasDeserved is false for a role that leaves this to the roles below it.
	Deserved    int
	HasDeserved bool
	// Limit is the most that the role and the roles below it may have; below 0 there is no limit.
	Limit int
	// Demand is the amount that the role itself holds and waits for, without the roles below it.
	Demand int
}

// Divide returns what each role is entitled to, the roles below it included. Amounts that cannot be divided evenly are
// rounded down. The order of the claims does not affect the result.
func Divide(capacity int, claims []Claim) map[string]int {
	sorted := slices.SortedFunc(slices.Values(claims), func(a, b Claim) int { return cmp.Compare(a.Role, b.Role) })
	nodes := make([]*node, len(sorted))
	var top []*node
	for i := range sorted {
		n := &node{Claim: &sorted[i], weight: cmp.Or(sorted[i].Weight, 1), own: sorted[i].Demand}
		nodes[i] = n
		if parent := findParent(nodes[:i], n.Role); parent != nil {
			parent.children = append(parent.children, n)
		} else {
			top = append(top, n)
		}
	}
	for _, n := range top {
		n.sumDemand()
	}
	divideAmong(max(capacity, 0), top)
	granted := make(map[string]int, len(nodes))
	for _, n := range nodes {
		granted[n.Role] = n.granted
	}
	return granted
}

// node is a role in the tree, or the demand of a role itself among its children.
type node struct {
	*Claim
	children []*node
	weight   float64
	// own is the demand of the role itself.
	own int
	// demand is the amount that the role and the roles below it could use, guaranteed the part of it that they deserve.
	demand, guaranteed int
	// granted is the result.
	granted int
}

// findParent returns the nearest role above the named one. Roles are sorted by name, so it comes before.
func findParent(nodes []*node, role string) *node {
	for above := role; ; {
		i := strings.LastIndexByte(above, '/')
		if i < 0 {
			return nil
		}
		above = above[:i]
		for _, n := range nodes {
			if n.Role == above {
				return n
			}
		}
	}
}

// sumDemand sets demand and guaranteed from the leaves upwards. A role with children gets a child for its own demand,
// which deserves what the other children leave.
func (n *node) sumDemand() {
	n.demand = n.own
	if len(n.children) == 0 {
		n.demand = n.applyLimit(n.demand)
		n.guaranteed = min(n.demand, n.Deserved)
		return
	}
	guaranteed, rest := 0, n.Deserved
	for _, c := range n.children {
		c.sumDemand()
		n.demand += c.demand
		guaranteed += c.guaranteed
		rest -= c.Deserved
	}
	own := &node{Claim: &Claim{Deserved: max(rest, 0), HasDeserved: true, Limit: -1}, weight: 1, own: n.own}
	own.sumDemand()
	n.children = append(n.children, own)
	n.demand = n.applyLimit(n.demand)
	if n.HasDeserved {
		guaranteed = n.Deserved
	}
	n.guaranteed = min(n.demand, guaranteed)
}

func (n *node) applyLimit(demand int) int {
	if n.Limit >= 0 {
		return min(demand, n.Limit)
	}
	return demand
}

// divideAmong divides an amount among siblings, and what each of them gets among its children.
func divideAmong(amount int, siblings []*node) {
	guaranteed := 0
	for _, n := range siblings {
		guaranteed += n.guaranteed
	}
	if guaranteed > amount { // less than is deserved: in proportion to what each deserves
		fillEvenly(amount, siblings, func(n *node) (most int, weight float64) { return n.guaranteed, float64(n.guaranteed) })
	} else {
		for _, n := range siblings {
			n.granted = n.guaranteed
		}
		fillEvenly(amount-guaranteed, siblings, func(n *node) (most int, weight float64) { return n.demand - n.guaranteed, n.weight })
	}
	for _, n := range siblings {
		if len(n.children) > 0 {
			divideAmong(n.granted, n.children)
		}
	}
}

// fillEvenly adds an amount to what nodes are granted, in proportion to their weights, to none more than it may get. What
// one of them cannot use is divided among the others.
func fillEvenly(amount int, nodes []*node, portionOf func(*node) (most int, weight float64)) {
	type portion struct {
		*node
		most   int
		weight float64
	}
	var portions []portion
	weights := 0.0
	for _, n := range nodes {
		if most, weight := portionOf(n); most > 0 {
			portions = append(portions, portion{n, most, weight})
			weights += weight
		}
	}
	slices.SortStableFunc(portions, func(a, b portion) int {
		return cmp.Compare(float64(a.most)/a.weight, float64(b.most)/b.weight)
	})
	for _, p := range portions { // those that need the least for their weight come first
		n := min(p.most, int(math.Floor(float64(amount)*(p.weight/weights)+roundingSlack)), amount)
		p.granted += n
		amount -= n
		weights -= p.weight
	}
}

// roundingSlack makes a quotient that is an integer except for rounding errors that integer.
const roundingSlack = 1e-6
