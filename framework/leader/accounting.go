package leader

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/accounting"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/budget"
)

// AccountingReports sums up ended attempts.
type AccountingReports struct {
	leader *Leader
	// recorder stores the ends of attempts; nil if accounting is disabled.
	recorder *accounting.Recorder
}

// errNoAccounting is the Problem of a scheduler without accounting.
func errNoAccounting() error {
	return api.NewProblemf(http.StatusNotFound, "the scheduler's operator has disabled the accounting (--accounting none)")
}

// accountingQuery restricts a query to what the requester may see.
func accountingQuery(by *access.Grant, q api.AccountingQuery) *accounting.Query {
	return &accounting.Query{AccountingQuery: q, MayView: func(role string) bool { return by.HasPermission(access.View, role) }}
}

// ReportAccounting sums up the ended attempts that the requester may see.
func (a *AccountingReports) ReportAccounting(ctx context.Context, by *access.Grant, q api.AccountingQuery) (api.AccountingReport, error) {
	if a.recorder == nil {
		return api.AccountingReport{}, errNoAccounting()
	}
	report, err := a.recorder.Report(ctx, accountingQuery(by, q))
	if errors.Is(err, accounting.ErrTooManyGroups) {
		err = api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return report, err
}

// ListAttempts lists ended attempts that the requester may see.
func (a *AccountingReports) ListAttempts(
	ctx context.Context, by *access.Grant, q api.AccountingQuery, limit int, after []byte,
) (list []api.AccountedAttempt, next []byte, err error) {
	if a.recorder == nil {
		return nil, nil, errNoAccounting()
	}
	return a.recorder.ListAttempts(ctx, accountingQuery(by, q), limit, after)
}

// AccountJob sums up the ended attempts of a run of a job. It waits up to wait until the usage of the attempts is read
// from their agents, which takes a moment after an end.
func (a *AccountingReports) AccountJob(ctx context.Context, name string, wait time.Duration) (api.JobAccounting, error) {
	if a.recorder == nil {
		return api.JobAccounting{}, errNoAccounting()
	}
	view, err := a.leader.Model.JobView(name)
	if err != nil {
		return api.JobAccounting{}, err
	}
	return a.recorder.AccountJob(ctx, view.RunID(), view.Submitted, wait)
}

// RunAccounting reads the usage of ended attempts and reports the stored ends to the loop, until ctx ends. The State
// keeps an end until it is reported as stored, so that no end is lost while the file cannot be written.
func (a *AccountingReports) RunAccounting(ctx context.Context) error {
	if a.recorder == nil {
		return nil
	}
	send := a.leader.loop.EventSender(ctx)
	defer a.recorder.Lead(func(ids []string) { send(sched.AttemptsAccounted{TaskIDs: ids}) })()
	a.recorder.ObserveAll(a.leader.Model)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		return a.recorder.ReadUsage(ctx, a.leader.Reader.ReadUsage, func(err error) bool { return errors.Is(err, master.ErrNoFile) })
	})
	work.Go(func() error { return a.feedBudgets(ctx) })
	return work.Wait()
}

// budgetCheckInterval is how often the State is asked whether it needs the accounting for budgets.
const budgetCheckInterval = time.Second

// feedBudgets reports to the State what is accounted in the month, if roles have budgets, until ctx ends. While the file
// cannot be read, the State goes on with the last report.
func (a *AccountingReports) feedBudgets(ctx context.Context) error {
	ticks := time.NewTicker(budgetCheckInterval)
	defer ticks.Stop()
	send, failure := a.leader.loop.EventSender(ctx), ""
	for {
		due, until := false, time.Time{}
		// All ends before this time are recorded then, and the recorder has observed them.
		err := a.leader.runInLoop(ctx, nil, func(st *sched.State) error {
			until = a.leader.loop.clock()
			due = st.IsBudgetUsageDue(until)
			return nil
		})
		if err == nil && due {
			var used budget.Usage
			if used, err = a.recorder.MeasureBudgetUsage(ctx, until, nil); err == nil {
				send(sched.BudgetUsageMeasured{Until: until, Used: used})
				failure = ""
			}
		}
		if err != nil && ctx.Err() == nil && err.Error() != failure {
			failure = err.Error()
			a.leader.loop.log.WithError(err).Error("the accounting cannot be read for budgets: tasks of roles with a budget may wait")
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}
