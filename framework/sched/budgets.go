package sched

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// budgetUsageInterval is how often the caller reads what the accounting has for budgets.
const budgetUsageInterval = 30 * time.Second

// budgetPrefix, followed by a role, a user and a GPU type, is the key of the last notification of an entry of a budget.
const budgetPrefix = reservedPrefix + "budget/"

// budgetLedger has the GPU time that counts for budgets, and the entries of which nothing is left. The zero value belongs to
// roles without budgets.
//
// What is used in a month is the sum of three parts: accounted, ended, and what placed tasks have held until now. An attempt
// is in exactly one of them.
type budgetLedger struct {
	// known reports that accounted is set. month is the month of accounted, until the time before which its attempts ended.
	known        bool
	month, until time.Time
	accounted    budget.Usage
	// ended are the attempts that ended at or after until.
	ended []endedUsage
	// usedUp are the used-up entries at which tasks are held, lowered those at which jobs are lowered, and warned those at
	// which there is only a warning. They change at most once in budgetUsageInterval.
	usedUp          []quota.UsedUpBudget
	lowered, warned []budget.Entry
	// of is the month of these entries.
	of time.Time
}

// endedUsage is what an ended attempt has held of one GPU type.
type endedUsage struct {
	key      budget.Key
	milli    int
	from, to time.Time
}

// eachGPUTime calls do for the GPUs that an attempt holds, as the accounting counts them.
func eachGPUTime(t *job.Task, spec *job.Spec, do func(k budget.Key, milli int)) {
	if t.Launched.IsZero() {
		return
	}
	held := t.HeldProducts()
	for _, name := range slices.Sorted(maps.Keys(held)) {
		do(budget.Key{Role: spec.Role, User: spec.Owner, Type: name}, held[name]*quota.MilliPerGPU)
	}
	for i := range t.Shares {
		do(budget.Key{Role: spec.Role, User: spec.Owner, Type: t.Shares[i].ProductName()}, t.Shares[i].MilliDevices)
	}
}

// HasBudgets reports whether a role has a budget.
func (s *State) HasBudgets() bool {
	return slices.ContainsFunc(s.cfg.Policy.Roles, func(r queue.Role) bool { return r.Budget != nil })
}

// IsBudgetUsageDue reports whether the caller should read the accounting and apply a BudgetUsageMeasured.
func (s *State) IsBudgetUsageDue(now time.Time) bool {
	return s.HasBudgets() && (!s.budgets.known || now.Sub(s.budgets.until) >= budgetUsageInterval)
}

// setBudgetUsage replaces what is accounted.
func (s *State) setBudgetUsage(e BudgetUsageMeasured) {
	b := &s.budgets
	b.known, b.month, b.until, b.accounted = true, budget.MonthOf(e.Until), e.Until, e.Used
	b.ended = slices.DeleteFunc(b.ended, func(u endedUsage) bool { return u.to.Before(e.Until) })
	s.updateBudgets()
}

// countEndForBudgets counts what a task has used that gives up its place.
func (s *State) countEndForBudgets(ref taskRef) {
	if !s.HasBudgets() {
		return
	}
	t := ref.get()
	eachGPUTime(t, ref.job.SpecOf(t), func(k budget.Key, milli int) {
		s.budgets.ended = append(s.budgets.ended, endedUsage{k, milli, t.Launched, s.now})
	})
}

// updateBudgetsOfMonth renews the budgets at the turn of the month.
func (s *State) updateBudgetsOfMonth() {
	if !s.budgets.of.IsZero() && !s.budgets.of.Equal(budget.MonthOf(s.now)) {
		s.updateBudgets()
	}
}

// budgetUsage returns what is used in the month until now.
func (s *State) budgetUsage() budget.Usage {
	month, used := budget.MonthOf(s.now), budget.Usage{}
	if s.budgets.month.Equal(month) {
		maps.Copy(used, s.budgets.accounted)
	}
	for i := range s.budgets.ended {
		u := &s.budgets.ended[i]
		used.Add(u.key, u.milli, month, u.from, u.to)
	}
	refs := slices.SortedFunc(s.placedTasks(), func(a, b taskRef) int { return strings.Compare(a.get().ID, b.get().ID) }) // sums depend on their order
	for _, ref := range refs {
		t := ref.get()
		eachGPUTime(t, ref.job.SpecOf(t), func(k budget.Key, milli int) { used.Add(k, milli, month, t.Launched, s.now) })
	}
	return used
}

// budgetEntries returns the entries of the roles' budgets, by role.
func (s *State) budgetEntries() map[string][]budget.Entry {
	if !s.HasBudgets() {
		return nil
	}
	used, all := s.budgetUsage(), map[string][]budget.Entry{}
	for i := range s.cfg.Policy.Roles {
		if r := &s.cfg.Policy.Roles[i]; r.Budget != nil {
			all[r.Name] = r.Budget.Entries(r.Name, used)
		}
	}
	return all
}

// countHeldTasks counts for each entry the waiting tasks that a used-up budget holds.
func (s *State) countHeldTasks(entries []budget.Entry, waiting []queue.WaitingJob) {
	for i := range entries {
		e := &entries[i]
		isHeld := slices.ContainsFunc(s.budgets.usedUp, func(u quota.UsedUpBudget) bool { return u.Role == e.Role && u.User == e.User && u.Type == e.Type })
		for n := range waiting {
			if w := &waiting[n]; isHeld && concernsJob(e, w.Spec, nil) {
				e.HeldTasks += len(w.Tasks)
			}
		}
	}
}

// updateBudgets determines which entries are used up, and notifies their targets. Jobs are considered again if that changes.
func (s *State) updateBudgets() {
	if !s.HasBudgets() {
		s.budgets = budgetLedger{}
		return
	}
	b, before := &s.budgets, s.budgets.limitedNames()
	b.known = b.known || !s.cfg.Accounting // then only what this State has seen counts
	b.usedUp, b.lowered, b.warned, b.of = nil, nil, nil, budget.MonthOf(s.now)
	entries := s.budgetEntries()
	for i := range s.cfg.Policy.Roles {
		r := &s.cfg.Policy.Roles[i]
		if r.Budget != nil && !b.known && cmp.Or(r.Budget.AtLimit, budget.Hold) == budget.Hold {
			b.usedUp = append(b.usedUp, s.usedUpBudget(&budget.Entry{Role: r.Name, Type: quota.AllTypes}))
		}
		for _, e := range entries[r.Name] {
			s.notifyBudget(&e)
			switch {
			case !e.IsUsedUp():
			case e.AtLimit == budget.Hold:
				b.usedUp = append(b.usedUp, s.usedUpBudget(&e))
			case e.AtLimit == budget.Lower:
				b.lowered = append(b.lowered, e)
			default:
				b.warned = append(b.warned, e)
			}
		}
	}
	if !slices.Equal(before, b.limitedNames()) {
		s.reconsiderAll()
	}
}

// limitedNames returns the names of the entries at which tasks are held or jobs lowered.
func (b *budgetLedger) limitedNames() (names []string) {
	for i := range b.usedUp {
		names = append(names, b.usedUp[i].Name)
	}
	for i := range b.lowered {
		names = append(names, b.lowered[i].Name())
	}
	return names
}

// usedUpBudget returns the limit of an entry of which nothing is left, or of which it is not known.
func (s *State) usedUpBudget(e *budget.Entry) quota.UsedUpBudget {
	u := quota.UsedUpBudget{Role: e.Role, User: e.User, Type: e.Type, Name: e.Name()}
	month := budget.MonthOf(s.now)
	u.Use = fmt.Sprintf("%s; the next month begins on %s (UTC)", e.DescribeUse(month), month.AddDate(0, 1, 0).Format(time.DateOnly))
	if !s.budgets.known {
		u.Use = "what is used is not known yet: the scheduler reads its accounting"
	}
	return u
}

// isLowered reports whether a job, or its placed task, follows all others because an entry is used up. Of an entry for a GPU
// type, jobs are lowered that accept the type, and tasks that hold it.
func (b *budgetLedger) isLowered(spec *job.Spec, placed *job.Task) bool {
	return slices.ContainsFunc(b.lowered, func(e budget.Entry) bool { return concernsJob(&e, spec, placed) })
}

// concernsJob reports whether tasks of a job, or one that is placed, use GPU time of an entry.
func concernsJob(e *budget.Entry, spec *job.Spec, placed *job.Task) bool {
	switch {
	case spec.Request.GPUs == 0 || !e.Counts(spec.Role, spec.Owner):
		return false
	case placed == nil:
		return e.Type == quota.AllTypes || spec.Request.MayUse(e.Type)
	}
	found := false
	eachGPUTime(placed, spec, func(k budget.Key, _ int) { found = found || quota.CountsProduct(e.Type, k.Type) })
	return found
}

// loweredWeight is the weight of a role whose budget is used up.
const loweredWeight = 1e-6

// lowerRoles returns the roles without what those deserve whose budgets are used up: all that they hold is borrowed.
func (b *budgetLedger) lowerRoles(roles []queue.Role) []queue.Role {
	for i := range b.lowered {
		e := &b.lowered[i]
		if e.User != "" {
			continue
		}
		roles = slices.Clone(roles)
		for n := range roles {
			r := &roles[n]
			switch {
			case !quota.IsWithinRole(r.Name, e.Role):
			case e.Type == quota.AllTypes:
				r.Deserved, r.Weight = nil, loweredWeight
			default:
				r.Deserved = maps.Clone(r.Deserved)
				maps.DeleteFunc(r.Deserved, func(name string, _ int) bool { return name != quota.AllTypes && quota.CountsProduct(e.Type, name) })
			}
		}
	}
	return roles
}

// planPolicy returns the policy of plans.
func (s *State) planPolicy() placement.Policy {
	p := s.cfg.Policy.Policy
	p.Roles = s.budgets.lowerRoles(p.Roles)
	return p
}

// note returns the sentences to append to a reason why a job waits, for used-up budgets that do not hold it.
func (b *budgetLedger) note(spec *job.Spec) (text string) {
	for _, e := range slices.Concat(b.warned, b.lowered) {
		if concernsJob(&e, spec, nil) {
			text += fmt.Sprintf("; of %s, %s", e.Name(), e.DescribeUse(b.of))
			if e.AtLimit == budget.Lower {
				text += ": its jobs follow all others"
			}
		}
	}
	return text
}

// BudgetWarnings returns what a user should know of used-up budgets before a job is submitted.
func (s *State) BudgetWarnings(spec *job.Spec) (list []string) {
	for i := range s.budgets.usedUp {
		u := &s.budgets.usedUp[i]
		e := budget.Entry{Role: u.Role, User: u.User, Type: u.Type}
		if concernsJob(&e, spec, nil) {
			list = append(list, fmt.Sprintf("the job will wait for GPU time in %s: %s", u.Name, u.Use))
		}
	}
	if note := strings.TrimPrefix(s.budgets.note(spec), "; "); note != "" {
		list = append(list, strings.Split(note, "; ")...)
	}
	return list
}

// budgetNotice is the last notification of an entry in a month. Part is the part of the amount that it reports.
type budgetNotice struct {
	Month  time.Time `json:"month"`
	Amount float64   `json:"amount"`
	Part   float64   `json:"part"`
}

// notifyBudget notifies the targets of an entry, once in a month at the part that the operator has named and once when it is
// used up. If the amount has changed it may do so again.
func (s *State) notifyBudget(e *budget.Entry) {
	notice := budgetNotice{Month: budget.MonthOf(s.now), Amount: e.Amount}
	switch {
	case e.IsUsedUp():
		notice.Part = 1
	case e.Used >= e.WarnAt*e.Amount:
		notice.Part = e.WarnAt
	default:
		return
	}
	key := fmt.Sprintf("%s%s %s %s", budgetPrefix, e.Role, e.User, e.Type)
	var last budgetNotice
	_ = json.Unmarshal(s.Document(key), &last) // absent before the first notification
	if last.Month.Equal(notice.Month) && last.Amount == notice.Amount && last.Part >= notice.Part {
		return
	}
	s.writeJSONDocument(key, notice)
	facts := notification.Facts{
		Event: job.NotifyBudget, Time: s.now, Role: e.Role, Owner: e.User,
		Reason: fmt.Sprintf("of %s, %s", e.Name(), e.DescribeUse(notice.Month)),
	}
	for _, to := range s.budgetTargets(e) {
		s.addNotification(notification.New(to, facts))
	}
}

// budgetTargets returns the targets of an entry: those of its role, of the roles above it, and of live jobs that it limits.
func (s *State) budgetTargets(e *budget.Entry) (targets []string) {
	add := func(rules []job.NotificationRule) {
		for i := range rules {
			if rules[i].Selects(job.NotifyBudget) {
				targets = append(targets, rules[i].To)
			}
		}
	}
	for i := range s.cfg.Policy.Roles {
		if r := &s.cfg.Policy.Roles[i]; admission.CoversRole(r.Name, e.Role) {
			add(r.Notify)
		}
	}
	for j := range s.queue.all() {
		if concernsJob(e, j.Spec, nil) {
			add(j.Spec.Notify)
		}
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}
