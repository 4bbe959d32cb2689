package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/api"
)

// ReportAccounting sums up ended attempts of tasks.
func (c *Client) ReportAccounting(ctx context.Context, q api.AccountingQuery) (report api.AccountingReport, err error) {
	values := accountingValues(q)
	if len(q.By) > 0 {
		values.Set("by", strings.Join(q.By, ","))
	}
	err = c.getJSON(ctx, "/v1/accounting?"+values.Encode(), &report)
	return report, err
}

// EachAccountedAttempt iterates over ended attempts, the oldest end first. It ignores q.By.
func (c *Client) EachAccountedAttempt(ctx context.Context, q api.AccountingQuery) iter.Seq2[api.AccountedAttempt, error] {
	return listPages(ctx, c, "/v1/accounting/attempts", accountingValues(q), entriesPerPage,
		func(l *api.AccountingList) ([]api.AccountedAttempt, string) { return l.Attempts, l.Next })
}

// AccountJob sums up the ended attempts of a job's run NAME@RUN, or of the newest one for NAME alone. It waits up to wait,
// in whole seconds, for what the agents have measured.
func (c *Client) AccountJob(ctx context.Context, name string, wait time.Duration) (one api.JobAccounting, err error) {
	err = c.getJSON(ctx, "/v1/jobs/"+url.PathEscape(name)+"/accounting?wait="+strconv.Itoa(int(wait.Seconds())), &one)
	return one, err
}

// accountingValues returns the parameters of a query but for its groups.
func accountingValues(q api.AccountingQuery) url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"user": q.User, "role": q.Role, "job": q.Job, "state": string(q.State)} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return values
}
