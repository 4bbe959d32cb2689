package client

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"mesos-gpu/framework/api"
)

const (
	// jobsPerPage is the page size for jobs, which include all of their tasks.
	jobsPerPage = 500
	// entriesPerPage is the page size for other lists. A page of a long queue costs the
	// scheduler a tenth of a second regardless of its size.
	entriesPerPage = 5000
)

// listPages iterates over a list page by page, so that only one page is in memory. It ends
// at the first error. Each response is an L; entries returns its entries and the cursor of
// the next page.
func listPages[L, T any](ctx context.Context, c *Client, path string, query url.Values, limit int, entries func(*L) ([]T, string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := queryValues(query, api.PageRequest{Limit: limit})
		for {
			var list L
			err := c.getJSON(ctx, path+"?"+query.Encode(), &list)
			if lacksPagination(err) && query.Has("limit") {
				query.Del("limit")
				continue
			}
			if err != nil {
				yield(*new(T), err)
				return
			}
			some, next := entries(&list)
			for _, one := range some {
				if !yield(one, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			query.Set("after", next)
		}
	}
}

// lacksPagination reports whether the scheduler is an earlier version whose lists
// have no pages. Those versions sent no codes, only the text.
func lacksPagination(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && (p.Code == api.CodeUnknownParameter && p.Name == "limit" ||
		p.Code == "" && p.Status == http.StatusBadRequest && strings.Contains(p.Detail, `has no parameter "limit"`))
}

// queryValues returns a copy of the query with the parameters of the page.
func queryValues(query url.Values, p api.PageRequest) url.Values {
	all := url.Values{}
	maps.Copy(all, query)
	if p.Limit > 0 {
		all.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.After != "" {
		all.Set("after", p.After)
	}
	return all
}

// jobQueryValues returns the parameters of a query but for the page.
func jobQueryValues(q api.JobQuery) url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"state": q.State, "role": q.Role, "owner": q.Owner, "name": q.Name, "label": q.Labels} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if q.NewestFirst {
		values.Set("order", api.NewestFirst)
	}
	return values
}

// collectAll reads a whole list.
func collectAll[T any](list iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for one, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// EachJob iterates over the jobs in a state of api.JobQuery, "" meaning all, oldest first.
// Like all Each methods it reads one page at a time and ends at the first error. Entries
// that are added or removed meanwhile do not affect other entries.
func (c *Client) EachJob(ctx context.Context, state string) iter.Seq2[api.JobView, error] {
	return c.EachJobMatching(ctx, api.JobQuery{State: state})
}

// EachJobMatching iterates over the jobs that a query selects, without its PageRequest.
func (c *Client) EachJobMatching(ctx context.Context, q api.JobQuery) iter.Seq2[api.JobView, error] {
	return listPages(ctx, c, "/v1/jobs", jobQueryValues(q), jobsPerPage, func(l *api.JobList) ([]api.JobView, string) { return l.Jobs, l.Next })
}

// EachRun iterates over the runs of a job that the scheduler keeps, oldest first.
func (c *Client) EachRun(ctx context.Context, name string) iter.Seq2[api.JobView, error] {
	return listPages(ctx, c, "/v1/jobs/"+url.PathEscape(name)+"/runs", nil, jobsPerPage, func(l *api.JobList) ([]api.JobView, string) { return l.Jobs, l.Next })
}

// EachAgent iterates over the cluster's agents by hostname.
func (c *Client) EachAgent(ctx context.Context) iter.Seq2[api.AgentSummary, error] {
	return listPages(ctx, c, "/v1/agents", nil, entriesPerPage, func(l *api.AgentList) ([]api.AgentSummary, string) { return l.Agents, l.Next })
}

// EachGPU iterates over the cluster's GPUs by the hostname of their agent.
func (c *Client) EachGPU(ctx context.Context) iter.Seq2[api.GPUView, error] {
	return listPages(ctx, c, "/v1/gpus", nil, entriesPerPage, func(l *api.GPUList) ([]api.GPUView, string) { return l.GPUs, l.Next })
}

// EachQueued iterates over the jobs with waiting tasks, in the queue order at the time of
// the call. It omits jobs that no longer wait when their page is read.
func (c *Client) EachQueued(ctx context.Context) iter.Seq2[api.QueuedJob, error] {
	return listPages(ctx, c, "/v1/queue", nil, entriesPerPage, func(l *api.QueueList) ([]api.QueuedJob, string) { return l.Jobs, l.Next })
}

// EachRole iterates over the scheduler's roles, the default role first.
func (c *Client) EachRole(ctx context.Context) iter.Seq2[api.RoleStatus, error] {
	return listPages(ctx, c, "/v1/roles", nil, entriesPerPage, func(l *api.RoleList) ([]api.RoleStatus, string) { return l.Roles, l.Next })
}

// EachSchedule iterates over the schedules by name.
func (c *Client) EachSchedule(ctx context.Context) iter.Seq2[api.ScheduleView, error] {
	return listPages(ctx, c, "/v1/schedules", nil, entriesPerPage, func(l *api.ScheduleList) ([]api.ScheduleView, string) { return l.Schedules, l.Next })
}

// EachUsage iterates over the GPU usage of running tasks, of one job or, if job is empty,
// of all.
func (c *Client) EachUsage(ctx context.Context, job string) iter.Seq2[api.TaskUsage, error] {
	query := url.Values{}
	if job != "" {
		query.Set("job", job)
	}
	return listPages(ctx, c, "/v1/usage", query, entriesPerPage, func(l *api.UsageList) ([]api.TaskUsage, string) { return l.Tasks, l.Next })
}
