package quota

import "mesos-gpu/gpu"

// UsedUpBudget is a budget of which nothing is left: no task starts that would use more of it.
type UsedUpBudget struct {
	// Role has the budget, with the roles below it. User is the user whom it limits, "" for all. Type is the GPU type or AllTypes.
	Role, User, Type string
	// Name is the budget's name, such as "the budget of role research", and Use describes what is used of it.
	Name, Use string
}

// budgetMax is the limit of a used-up budget, all of which is held. No job is larger, so that each can start when the budget
// is renewed.
const budgetMax = 1 << 40

// SetUsedUpBudgets sets the used-up budgets, which limit roles and users in addition to quotas.
func (t *Tracker) SetUsedUpBudgets(budgets []UsedUpBudget) { t.usedUpBudgets = budgets }

// budgetLimitsFor returns the used-up budgets that apply to a user of a role.
func (t *Tracker) budgetLimitsFor(u User) (list []Limit) {
	for i := range t.usedUpBudgets {
		if b := &t.usedUpBudgets[i]; IsWithinRole(u.Role, b.Role) && (b.User == "" || b.User == u.Name) {
			list = append(list, Limit{Role: b.Role, User: b.User, Type: b.Type, Budget: b, Max: budgetMax, Held: budgetMax})
		}
	}
	return list
}

// IsBlockedByBudget reports whether a used-up budget allows no task of a request to start.
func (t *Tracker) IsBlockedByBudget(u User, r gpu.Request) bool {
	if len(t.usedUpBudgets) == 0 {
		return false
	}
	_, tasks, limit := t.Restrict(u, r)
	return tasks == 0 && limit.Budget != nil
}
