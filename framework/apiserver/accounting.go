package apiserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// AccountingReader sums up ended attempts.
type AccountingReader interface {
	// ReportAccounting sums up ended attempts, ListAttempts lists them by their ends, at
	// most limit, from the one after the key after on; next is the key of the last one
	// if more follow. Both omit what the requester may not see. AccountJob sums up those
	// of one run, and waits up to wait for what its agents have measured.
	ReportAccounting(ctx context.Context, by *access.Grant, q api.AccountingQuery) (api.AccountingReport, error)
	ListAttempts(ctx context.Context, by *access.Grant, q api.AccountingQuery, limit int, after []byte) (list []api.AccountedAttempt, next []byte, err error)
	AccountJob(ctx context.Context, name string, wait time.Duration) (api.JobAccounting, error)
}

// accountingFilters are the query parameters that select ended attempts, after a space: routes append them to others.
const accountingFilters = " since until user role job state"

func (s *apiServer) handleReportAccounting(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	q, err := parseAccountingQuery(r.URL.Query())
	if err != nil {
		return err
	}
	s.selectJobRecords(r, &q)
	report, err := leader.Accounting.ReportAccounting(r.Context(), apihttp.GrantOf(r.Context()), q)
	if err != nil {
		return err
	}
	report.By, report.Groups = emptyIfNil(report.By), emptyIfNil(report.Groups)
	apihttp.WriteJSON(w, http.StatusOK, report)
	return nil
}

// selectJobRecords replaces the reference of a query by what it selects.
func (s *apiServer) selectJobRecords(r *http.Request, q *api.AccountingQuery) {
	run, owner := s.selectRecords(r, q.Job)
	q.Job, q.User = run.Reference(), cmp.Or(q.User, owner)
}

// defaultAttemptPage is the size of a page of attempts without a limit: there may be a million of them.
const defaultAttemptPage = 1000

func (s *apiServer) handleListAttempts(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	q, err := parseAccountingQuery(r.URL.Query())
	if err != nil {
		return err
	}
	s.selectJobRecords(r, &q)
	page, err := parsePageRequest(r.URL.Query())
	if err != nil {
		return err
	}
	after, err := base64.RawURLEncoding.DecodeString(page.After)
	if err != nil {
		return request.InvalidCursor(page.After)
	}
	limit := page.Limit
	if limit == 0 {
		limit = defaultAttemptPage
	}
	list, next, err := leader.Accounting.ListAttempts(r.Context(), apihttp.GrantOf(r.Context()), q, limit, after)
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, api.AccountingList{Attempts: emptyIfNil(list), Next: base64.RawURLEncoding.EncodeToString(next)})
	return nil
}

// maxAccountingWait is the longest time, in seconds, for which a request waits for the usage of ended tasks.
const maxAccountingWait = 30

func (s *apiServer) handleAccountJob(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	wait := 0
	if text := r.URL.Query().Get("wait"); text != "" {
		var err error
		if wait, err = strconv.Atoi(text); err != nil || wait < 0 || wait > maxAccountingWait {
			return api.NewProblemf(http.StatusBadRequest, "wait %q is not a number of seconds from 0 to %d", text, maxAccountingWait)
		}
	}
	one, err := leader.Accounting.AccountJob(r.Context(), r.PathValue(runOfPath), time.Duration(wait)*time.Second)
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, one)
	return nil
}

// parseAccountingQuery returns the selection and the groups of a request. Permissions are not part of it.
func parseAccountingQuery(v url.Values) (q api.AccountingQuery, err error) {
	q = api.AccountingQuery{User: v.Get("user"), Role: v.Get("role"), Job: v.Get("job"), State: job.State(v.Get("state"))}
	if text := v.Get("by"); text != "" {
		q.By = strings.Split(text, ",")
	}
	for i, key := range q.By {
		if !slices.Contains(api.AccountingKeys(), key) || slices.Contains(q.By[:i], key) {
			return q, api.NewProblemf(http.StatusBadRequest, "by %q: each key is one of %s, once", v.Get("by"), strings.Join(api.AccountingKeys(), ", "))
		}
	}
	if _, ok := job.ParseReference(q.Job); !ok {
		return q, api.NewProblemf(http.StatusBadRequest, "job %q is not NAME, OWNER/NAME, NAME@RUN or a number", q.Job)
	}
	if q.State != "" && !slices.Contains(job.States(), q.State) {
		return q, api.NewProblemf(http.StatusBadRequest, "state %q is not a state of tasks", q.State)
	}
	for name, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := v.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return q, api.NewProblemf(http.StatusBadRequest, "%s %q is not a time such as 2026-01-31T00:00:00Z", name, text)
			}
		}
	}
	return q, nil
}
