package leader

import (
	"context"
	"errors"
	"net/http"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/accounting"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
)

// errNoAccounting is the Problem of a scheduler without accounting.
func errNoAccounting() error {
	return api.NewProblemf(http.StatusNotFound, "the scheduler's operator has disabled the accounting (--accounting none)")
}

// accountingQuery restricts a query to what the requester may see.
func accountingQuery(by *access.Grant, q api.AccountingQuery) *accounting.Query {
	return &accounting.Query{AccountingQuery: q, MayView: func(role string) bool { return by.HasPermission(access.View, role) }}
}

// ReportAccounting sums up the ended attempts that the requester may see.
func (b *Leader) ReportAccounting(ctx context.Context, by *access.Grant, q api.AccountingQuery) (api.AccountingReport, error) {
	if b.accounting == nil {
		return api.AccountingReport{}, errNoAccounting()
	}
	report, err := b.accounting.Report(ctx, accountingQuery(by, q))
	if errors.Is(err, accounting.ErrTooManyGroups) {
		err = api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return report, err
}

// ListAttempts lists ended attempts that the requester may see.
func (b *Leader) ListAttempts(ctx context.Context, by *access.Grant, q api.AccountingQuery, limit int, after []byte) (list []api.AccountedAttempt, next []byte, err error) {
	if b.accounting == nil {
		return nil, nil, errNoAccounting()
	}
	return b.accounting.ListAttempts(ctx, accountingQuery(by, q), limit, after)
}

// AccountJob sums up the ended attempts of a run of a job. It waits up to wait until the usage of the attempts is read
// from their agents, which takes a moment after an end.
func (b *Leader) AccountJob(ctx context.Context, name string, wait time.Duration) (api.JobAccounting, error) {
	if b.accounting == nil {
		return api.JobAccounting{}, errNoAccounting()
	}
	view, err := b.Model.JobView(name)
	if err != nil {
		return api.JobAccounting{}, err
	}
	return b.accounting.AccountJob(ctx, view.RunID(), view.Submitted, wait)
}

// RunAccounting reads the usage of ended attempts and reports the stored ends to the loop, until ctx ends. The State
// keeps an end until it is reported as stored, so that no end is lost while the file cannot be written.
func (b *Leader) RunAccounting(ctx context.Context) error {
	if b.accounting == nil {
		return nil
	}
	send := b.loop.EventSender(ctx)
	defer b.accounting.Lead(func(ids []string) { send(sched.AttemptsAccounted{TaskIDs: ids}) })()
	b.accounting.ObserveAll(b.Model)
	return b.accounting.ReadUsage(ctx, b.Reader.ReadUsage, func(err error) bool { return errors.Is(err, master.ErrNoFile) })
}
