package clustersim

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// roleBudgets are the budgets by role. An operator raises them after the last fault: otherwise jobs would wait for the
// next month.
type roleBudgets map[string]*budget.Budget

// drawBudgets draws budgets that are used up while the world runs, and in half of the worlds a start of the clock so that a
// month ends meanwhile.
func drawBudgets(w *World) roleBudgets {
	r := rand.New(rand.NewPCG(w.seed, 0x627564676574))
	amount := func() float64 { return 0.005 * math.Pow(40, r.Float64()) } // from 18 GPU seconds to 12 minutes
	all := roleBudgets{}
	for _, name := range w.roles() {
		b := &budget.Budget{
			AtLimit: []budget.AtLimit{"", budget.Hold, budget.Lower, budget.Warn}[r.IntN(4)],
			WarnAt:  []float64{0, 0.5}[r.IntN(2)],
		}
		if r.IntN(3) > 0 {
			b.Month = amount()
		}
		if r.IntN(3) == 0 {
			b.Types = map[string]float64{"V100": amount()}
		}
		if r.IntN(2) == 0 {
			b.EachUser = amount()
		}
		if r.IntN(3) == 0 {
			b.NamedUsers = map[string]float64{limitedUsers[0]: amount()}
		}
		if r.IntN(4) == 0 {
			b.Prices = map[string]float64{"V100": 2.5, quota.AllTypes: 1}
		}
		if r.IntN(4) > 0 {
			all[name] = b
		}
	}
	if r.IntN(2) == 0 {
		w.epoch = time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(r.Int64N(int64(w.plan.faultTime))))
	}
	return all
}

// raised returns the budgets after the operator has raised them.
func (all roleBudgets) raised() roleBudgets {
	more := roleBudgets{}
	for name, b := range all {
		c := *b
		scale := func(amounts map[string]float64) map[string]float64 {
			amounts = maps.Clone(amounts)
			for key := range amounts {
				amounts[key] *= 1e6
			}
			return amounts
		}
		c.Month, c.EachUser, c.Types, c.NamedUsers = c.Month*1e6, c.EachUser*1e6, scale(c.Types), scale(c.NamedUsers)
		more[name] = &c
	}
	return more
}

// raiseBudgets makes the operator raise the budgets.
func (load *workload) raiseBudgets() {
	w := load.world
	if len(w.budgets) == 0 {
		return
	}
	w.budgets = w.budgets.raised()
	load.request("raise budgets", func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.PolicyChanged{Policy: w.scheduler.settings().Policy})
		return nil
	}, func() {})
}

// attemptTime is how long an attempt has held its place, by the clocks of the schedulers that recorded it.
type attemptTime struct {
	role, owner     string
	held            map[string]int
	launched, ended time.Time
	endedBy         *process
}

// budgetTruth is what is really used of the budgets, from the recorded attempts.
type budgetTruth struct {
	world    *World
	attempts map[string]*attemptTime
	// current is the attempt of each task.
	current map[job.RunID]map[int]string
	// process has applied the last change of the entries, at a time of its clock, by budgets. It knows what is accounted
	// until a time, zero if it does not know it.
	process *process
	budgets roleBudgets
	month   time.Time
	until   time.Time
	// usedUp has the entries of which nothing is left. isNew reports that they were not compared with the State's yet.
	usedUp []budget.Entry
	isNew  bool
}

func newBudgetTruth(w *World) *budgetTruth {
	return &budgetTruth{world: w, attempts: map[string]*attemptTime{}, current: map[job.RunID]map[int]string{}}
}

// applyChange counts the attempts of a recorded change.
func (b *budgetTruth) applyChange(p *process, change *journal.Change) {
	now := p.clock()
	end := func(id string) {
		if a := b.attempts[id]; a != nil && a.ended.IsZero() {
			a.ended, a.endedBy = now, p
		}
	}
	for _, run := range change.Removed {
		for _, id := range b.current[run] {
			end(id)
		}
		delete(b.current, run)
	}
	for i := range change.Tasks {
		t := &change.Tasks[i]
		run := t.RunID()
		if b.current[run] == nil {
			b.current[run] = map[int]string{}
		}
		if old := b.current[run][t.Index]; old != t.ID {
			end(old)
			b.current[run][t.Index] = t.ID
		}
		if !t.State.IsPlaced() {
			end(t.ID)
			continue
		}
		if b.attempts[t.ID] == nil {
			a := &attemptTime{held: heldProducts(t), launched: now}
			if j := b.world.users.jobs[run.Name]; j != nil {
				a.role, a.owner = j.spec.Role, j.spec.Owner
			} else {
				a.role = role // the app's
			}
			b.attempts[t.ID] = a
			b.checkLaunch(t, a)
		}
	}
}

// checkLaunch checks that no budget holds an attempt that starts.
func (b *budgetTruth) checkLaunch(t *job.Task, a *attemptTime) {
	if len(a.held) == 0 {
		return
	}
	for name, one := range b.budgets {
		if b.until.IsZero() && isHolding(one) && isWithin(a.role, name) {
			b.world.failf("%s is launched, and the scheduler does not know what is used of the budget of role %s", t.ID, name)
		}
	}
	for i := range b.usedUp {
		if e := &b.usedUp[i]; e.AtLimit == budget.Hold && counts(e, a) {
			b.world.failf("%s is launched, and of %s, %s", t.ID, e.Name(), e.DescribeUse(b.month))
		}
	}
}

func isHolding(b *budget.Budget) bool { return b.AtLimit == "" || b.AtLimit == budget.Hold }

// counts reports whether an entry counts an attempt. The checks do not share the scheduler's functions.
func counts(e *budget.Entry, a *attemptTime) bool {
	return isWithin(a.role, e.Role) && (e.User == "" || e.User == a.owner) && countsTypes(e, a.held)
}

func countsTypes(e *budget.Entry, held map[string]int) bool {
	for product := range held {
		if quota.CountsProduct(e.Type, product) {
			return true
		}
	}
	return false
}

// isLowered reports whether a task that holds its place follows all others.
func (b *budgetTruth) isLowered(t *job.Task) bool {
	a := b.attempts[t.ID]
	return a != nil && slices.ContainsFunc(b.usedUp, func(e budget.Entry) bool { return e.AtLimit == budget.Lower && counts(&e, a) })
}

// isRoleLowered reports whether a role deserves nothing any more.
func (b *budgetTruth) isRoleLowered(name string) bool {
	return slices.ContainsFunc(b.usedUp, func(e budget.Entry) bool {
		return e.AtLimit == budget.Lower && e.User == "" && e.Type == quota.AllTypes && isWithin(name, e.Role)
	})
}

// observe handles an event after which the process calculates again what is used up.
func (b *budgetTruth) observe(p *process, ev sched.Event) {
	switch e := ev.(type) {
	case sched.BudgetUsageMeasured:
		b.until = e.Until
	case sched.PolicyChanged:
		b.budgets = b.world.budgets
	case sched.Tick:
		if budget.MonthOf(p.clock()).Equal(b.month) {
			return
		}
	default:
		return
	}
	b.update(p)
}

// begin notes that a process leads.
func (b *budgetTruth) begin(p *process) {
	b.process, b.budgets, b.until = p, b.world.budgets, time.Time{}
	b.update(p)
}

func (b *budgetTruth) update(p *process) {
	b.month, b.isNew, b.usedUp = budget.MonthOf(p.clock()), true, nil
	for _, e := range b.entries(p) {
		if e.Used >= e.Amount {
			b.usedUp = append(b.usedUp, e)
		}
	}
}

// entries returns the entries of all budgets with what is used now, by the clock of a process.
func (b *budgetTruth) entries(p *process) (list []budget.Entry) {
	if len(b.budgets) == 0 {
		return nil
	}
	now := p.clock()
	month, ids := budget.MonthOf(now), slices.Sorted(maps.Keys(b.attempts)) // sums depend on their order
	for _, name := range slices.Sorted(maps.Keys(b.budgets)) {
		one := b.budgets[name]
		add := func(user, gpuType string, amount float64) {
			if amount <= 0 {
				return
			}
			e := budget.Entry{Role: name, User: user, Type: gpuType, Amount: amount, AtLimit: one.AtLimit, IsPriced: len(one.Prices) > 0}
			if isHolding(one) {
				e.AtLimit = budget.Hold
			}
			for _, id := range ids {
				e.Used += b.usedBy(p, b.attempts[id], &e, one, month, now)
			}
			list = append(list, e)
		}
		add("", quota.AllTypes, one.Month)
		add("", "V100", one.Types["V100"])
		for _, user := range limitedUsers {
			amount, named := one.NamedUsers[user]
			if !named {
				amount = one.EachUser
			}
			add(user, quota.AllTypes, amount)
		}
	}
	return list
}

// usedBy returns what an attempt has used of an entry in a month until now. The accounting does not report an end that
// follows the time of the report, because an earlier process had a clock that was ahead.
func (b *budgetTruth) usedBy(p *process, a *attemptTime, e *budget.Entry, of *budget.Budget, month, now time.Time) (used float64) {
	if !counts(e, a) || !a.ended.IsZero() && a.endedBy != p && !a.ended.Before(b.until) {
		return 0
	}
	from, to := a.launched, a.ended
	if to.IsZero() {
		to = now
	}
	if from.Before(month) {
		from = month
	}
	if next := month.AddDate(0, 1, 0); to.After(next) {
		to = next
	}
	if !from.Before(to) {
		return 0
	}
	for product, milli := range a.held {
		if !quota.CountsProduct(e.Type, product) {
			continue
		}
		price := 1.0
		if len(of.Prices) > 0 {
			price = of.Prices[quota.AllTypes]
			if quota.CountsProduct("V100", product) {
				price = of.Prices["V100"]
			}
		}
		used += float64(milli) / 1000 * to.Sub(from).Hours() * price
	}
	return used
}

// compareUsageEvery is the number of turns between two comparisons of what is used: between two reports of the accounting, the
// State itself counts the ends.
const compareUsageEvery = 24

// check compares the State's budgets with the truth: what is used now and then, and what they do after a change of their
// entries.
func (b *budgetTruth) check(p *process, turn int) {
	if len(b.budgets) == 0 {
		return
	}
	w := b.world
	if !b.until.IsZero() && (b.isNew || turn%compareUsageEvery == 0) {
		b.checkUsage(p)
	}
	if !b.isNew {
		return
	}
	b.isNew = false
	for _, name := range w.roles() {
		for _, user := range append([]string{""}, limitedUsers...) {
			b.checkAction(p.state, name, user)
		}
	}
	for i := range b.usedUp {
		if !b.until.IsZero() {
			w.BudgetsUsedUp[b.usedUp[i].AtLimit]++
		}
	}
}

// checkUsage compares what is used of each entry.
func (b *budgetTruth) checkUsage(p *process) {
	type key struct{ role, user, gpuType string }
	shown := map[key]*budget.Entry{}
	for _, r := range p.state.RoleUsages() {
		for i := range r.Budgets {
			e := &r.Budgets[i]
			shown[key{e.Role, e.User, e.Type}] = e
		}
	}
	for _, e := range b.entries(p) {
		s := shown[key{e.Role, e.User, e.Type}]
		switch {
		case s == nil && e.User != "" && e.Used == 0: // a user without an own amount is listed with the first GPU time
		case s == nil:
			b.world.failf("%s is not listed, %s", e.Name(), e.DescribeUse(b.month))
		case math.Abs(s.Used-e.Used) > 1e-6 || s.Amount != e.Amount || s.AtLimit != e.AtLimit:
			b.world.failf("%s: %g of %g are used (%s), the attempts have used %g of %g (%s)", e.Name(), s.Used, s.Amount, s.AtLimit, e.Used, e.Amount, e.AtLimit)
		case b.isNew && s.HeldTasks > 0 && (e.AtLimit != budget.Hold || e.Used < e.Amount):
			b.world.failf("%s holds %d tasks, %s", e.Name(), s.HeldTasks, e.DescribeUse(b.month))
		}
	}
}

// checkAction checks that a job of a user and a role is held or lowered by the used-up budgets, and only by those.
func (b *budgetTruth) checkAction(st *sched.State, name, user string) {
	want := map[string]bool{}
	for i := range b.usedUp {
		e := &b.usedUp[i]
		if !isWithin(name, e.Role) || e.User != "" && e.User != user {
			continue
		}
		switch e.AtLimit {
		case budget.Hold:
			want["the job will wait for GPU time in "+e.Name()] = true
		case budget.Lower:
			want["lowered by "+e.Name()] = true
		default:
			want["warned of "+e.Name()] = true
		}
	}
	got := map[string]bool{}
	for _, text := range st.BudgetWarnings(&job.Spec{Role: name, Owner: user, Tasks: 1, Request: gpu.Request{GPUs: 1}}) {
		held, _, _ := strings.Cut(text, ":")
		of, _, _ := strings.Cut(strings.TrimPrefix(text, "of "), ",")
		switch {
		case strings.HasPrefix(text, "the job will wait"):
			got[held] = true
		case strings.HasSuffix(text, "follow all others"):
			got["lowered by "+of] = true
		default:
			got["warned of "+of] = true
		}
	}
	if b.until.IsZero() { // the scheduler does not know yet what is used
		for of, one := range b.budgets {
			if all := (budget.Entry{Role: of, Type: quota.AllTypes}); isHolding(one) && isWithin(name, of) && !got["the job will wait for GPU time in "+all.Name()] {
				b.world.failf("jobs of role %s do not wait until the scheduler knows what is used of %s", name, all.Name())
			}
		}
		return
	}
	if !maps.Equal(want, got) {
		b.world.failf("a job of user %q in role %s: %v, it should be %v", user, name, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
