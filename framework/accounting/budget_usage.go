package accounting

import (
	"context"
	"time"

	"mesos-gpu/framework/sched/budget"
)

// MeasureBudgetUsage returns the GPU time of attempts that ended before until, in the month of that time: an attempt that was
// launched before counts from the start of the month. All attempts whose ends were recorded before the call are included, except
// those for whose task IDs skip, if it is set, returns true.
func (r *Recorder) MeasureBudgetUsage(ctx context.Context, until time.Time, skip func(taskID string) bool) (budget.Usage, error) {
	if err := r.awaitStored(ctx); err != nil {
		return nil, err
	}
	f, err := r.openedFile()
	if err != nil {
		return nil, err
	}
	month, used := budget.MonthOf(until), budget.Usage{}
	err = f.eachRecord(unixNano(month), unixNano(until), nil, func(one *attemptRecord) bool {
		if one.launched != 0 && (skip == nil || !skip(one.id)) {
			for _, g := range one.types {
				used.Add(budget.Key{Role: one.role, User: one.owner, Type: g.name}, g.milli, month, timeOf(one.launched), timeOf(one.ended))
			}
		}
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return used, err
}
