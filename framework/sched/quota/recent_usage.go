package quota

import (
	"cmp"
	"maps"
	"slices"
)

// User is a user in a role.
type User struct{ Role, Name string }

// Compare orders users by role, then by name.
func (u User) Compare(o User) int {
	return cmp.Or(cmp.Compare(u.Role, o.Role), cmp.Compare(u.Name, o.Name))
}

// RecentUsage contains the decayed usage of users, in thousandths of GPUs. It decides which of the roles that compete, and
// which of a role's users, is served first.
type RecentUsage struct {
	// Average is the mean number of GPUs, in which the past counts half after each half-life. Held has the GPUs that tasks hold now.
	Average map[User]float64
	Held    map[User]int
	// WithoutPast are the roles without a half-life: their average is their tasks' present usage, and their users are compared by what
	// they hold.
	WithoutPast map[string]bool
}

// OfRole returns the average of a role's own tasks, without the roles below it.
func (r *RecentUsage) OfRole(role string) (sum float64) {
	for _, u := range slices.SortedFunc(maps.Keys(r.Average), User.Compare) {
		if u.Role == role {
			sum += r.Average[u]
		}
	}
	return sum
}

// heldWeight is the part of a user's present GPUs that counts besides the average: of equal users each gets a part of the
// GPUs that become free at the same time.
const heldWeight = 1.0 / 32

// Share returns the number by which users of a role are compared: the least is served first. more is the amount that the user has
// received since Held was counted.
func (r *RecentUsage) Share(u User, more int) float64 {
	return r.Average[u] + heldWeight*float64(r.Held[u]+more)
}

// SetRecentUsage makes roles compare their recent usage instead of what they hold. nil restores that.
func (t *Tracker) SetRecentUsage(r *RecentUsage) {
	t.recent, t.recentByRole = r, map[string]float64{}
	if r == nil {
		return
	}
	for _, u := range slices.SortedFunc(maps.Keys(r.Average), User.Compare) { // a sum depends on its order
		t.recentByRole[u.Role] += r.Average[u]
	}
}

// RecentUsage returns what SetRecentUsage set, nil if it has not been called.
func (t *Tracker) RecentUsage() *RecentUsage { return t.recent }

// recentShare is WeightedShare without the weight. held is the amount that the role holds, or borrows. Of a role's average, only
// the amount above its deserved GPUs counts.
func (t *Tracker) recentShare(role string, held int) float64 {
	average := t.recentByRole[role]
	if t.deserved != nil {
		average = max(average-float64(t.deserved.totalOf(role)), 0)
	}
	return average + heldWeight*float64(held)
}

// totalOf returns what a role deserves of all types, in thousandths of GPUs.
func (t *deservedTree) totalOf(role string) int {
	chain := t.chainOf(role)
	if len(chain) == 0 {
		return 0
	}
	return t.nodes[chain[0]].deservedOf(AllTypes)
}
