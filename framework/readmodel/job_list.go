package readmodel

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// ListJobs returns copies of the jobs that match the query. Its cursor does not reveal
// jobs that the client may not see.
func (m *Model) ListJobs(q request.JobQuery) (list api.JobList, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	rest, err := m.jobsAfter(q)
	if err != nil {
		return list, err
	}
	list.Jobs = make([]api.JobView, 0, max(min(q.Limit, m.jobs.Len(), maxListCapacity), 0))
	tasks := 0
	for _, e := range rest {
		switch {
		case e.removed, e.superseded && q.RunsOf == "", !q.Grant.HasPermission(access.View, e.Spec.Role), !q.MatchesSpec(e.Spec), !e.isInState(&q.JobQuery):
			continue
		case q.Limit > 0 && len(list.Jobs) == q.Limit, q.MaxTasks > 0 && tasks >= q.MaxTasks:
			list.Next = jobCursor(&list.Jobs[len(list.Jobs)-1].Job)
			return list, nil
		}
		view := e.jobView()
		view.Changes = nil // as documented: the list would have thousands
		list.Jobs = append(list.Jobs, view)
		tasks += len(view.Tasks)
	}
	return list, nil
}

// jobsAfter iterates over the jobs after the query's cursor, in the query's order.
func (m *Model) jobsAfter(q request.JobQuery) (iter.Seq2[int, *jobEntry], error) {
	entries := m.bySubmission
	if q.RunsOf != "" {
		e, ok := m.jobs.Find(q.RunsOf)
		if !ok {
			return nil, api.UnknownJob(q.RunsOf)
		}
		entries = m.jobs.RunsOfOwner(e.Spec.Owner, e.Spec.Name)
	}
	from, to := 0, len(entries)
	if q.After != "" {
		place, err := parseJobCursor(q.After)
		if err != nil {
			return nil, err
		}
		at, found := slices.BinarySearchFunc(entries, place, compareSubmission)
		from, to = at, at
		if found {
			from++
		}
	}
	if q.NewestFirst {
		return slices.Backward(entries[:to]), nil
	}
	return slices.All(entries[from:]), nil
}

// jobCursor returns a position in the list of jobs that stays valid when the job is removed.
func jobCursor(j *job.Job) string {
	return strconv.FormatInt(j.Submitted.UnixNano(), 36) + "." + j.Spec.Name
}

// parseJobCursor returns an entry at the cursor's position in the order of submissions. Its other fields are zero.
func parseJobCursor(text string) (*jobEntry, error) {
	when, name, ok := strings.Cut(text, ".")
	nanos, err := strconv.ParseInt(when, 36, 64)
	if !ok || err != nil {
		return nil, request.InvalidCursor(text)
	}
	return &jobEntry{Job: job.Job{Spec: &job.Spec{Name: name}, Submitted: time.Unix(0, nanos)}}, nil
}

// isInState reports whether a query selects the job by its state, which is computed only if the
// query needs it.
func (e *jobEntry) isInState(q *api.JobQuery) bool {
	switch q.State {
	case "":
		return true
	case api.LiveJobs, api.EndedJobs:
		return q.MatchesState("", e.isLive())
	}
	return q.MatchesState(e.State(), false)
}
