package clustersim

import (
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// attemptStore stores the ends of attempts, as the accounting's file does. It survives the schedulers, which share it.
type attemptStore struct {
	ends map[string]sched.AttemptEnd
}

// addEnds stores ends and returns their ids. The end of an attempt that was given up as lost replaces its record, but for
// its time.
func (s *attemptStore) addEnds(ends []sched.AttemptEnd) (ids []string) {
	for i := range ends {
		e := ends[i]
		ids = append(ids, e.Task.ID)
		if old, ok := s.ends[e.Task.ID]; ok {
			if e.Task.State == job.Lost || old.Task.State != job.Lost {
				continue
			}
			e.Task.Ended = old.Task.Ended
		}
		s.ends[e.Task.ID] = e
	}
	slices.Sort(ids)
	return ids
}

// measureUsage returns the GPU time of the attempts that ended before until, in the month of that time.
func (s *attemptStore) measureUsage(until time.Time) budget.Usage {
	month, used := budget.MonthOf(until), budget.Usage{}
	all := make([]sched.AttemptEnd, 0, len(s.ends))
	for _, e := range s.ends {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b sched.AttemptEnd) int { return strings.Compare(a.Task.ID, b.Task.ID) }) // sums depend on their order
	for i := range all {
		e := &all[i]
		if t := &e.Task; !t.Launched.IsZero() && !t.Ended.Before(month) && t.Ended.Before(until) {
			for product, milli := range heldProducts(t) {
				used.Add(budget.Key{Role: e.Role, User: e.Owner, Type: product}, milli, month, t.Launched, t.Ended)
			}
		}
	}
	return used
}

// heldProducts returns the thousandths of GPUs that a task holds, by product.
func heldProducts(t *job.Task) map[string]int {
	held := map[string]int{}
	for product, n := range t.HeldProducts() {
		held[product] += n * quota.MilliPerGPU
	}
	for i := range t.Shares {
		held[t.Shares[i].ProductName()] += t.Shares[i].MilliDevices
	}
	return held
}

// recordEnds stores the ends of the last commit, and reports them to the loop later.
func (p *process) recordEnds() {
	if p.committed == nil || p.world.accounting == nil {
		return
	}
	c := *p.committed
	p.committed = nil
	p.confirmEnds(p.world.accounting.addEnds(p.loop.Model.EndedAttempts(c)))
}

func (p *process) confirmEnds(ids []string) {
	if len(ids) > 0 {
		p.world.after(p.world.delay(), "ends accounted", func() {
			if !p.dead {
				p.emit(sched.AttemptsAccounted{TaskIDs: ids})
			}
		})
	}
}

// feedBudgets reports to the State what is accounted, if it needs that. While the accounting cannot be read, the State goes
// on with the last report.
func (p *process) feedBudgets() {
	w := p.world
	if p.dead || p.waits("feed budgets", p.feedBudgets) {
		return
	}
	w.after(w.between(time.Second, 5*time.Second), "feed budgets", p.feedBudgets)
	until := p.clock()
	if p.state == nil || !p.state.IsBudgetUsageDue(until) || w.chance(0.2, "accounting not readable") {
		return
	}
	used := w.accounting.measureUsage(until)
	w.after(w.delay(), "budget usage measured", func() {
		if !p.dead {
			p.emit(sched.BudgetUsageMeasured{Until: until, Used: used})
		}
	})
}
