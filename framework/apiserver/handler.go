// Package apiserver serves the scheduler's REST API. It parses, limits and validates
// requests and writes the documents of package api. A Backend performs the operations.
//
// It owns the table of routes with their permissions, and the limits of connections and requests.
// Who a requester is, is decided before, by package framework, and stored in the request's context.
// It keeps nothing between requests.
package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// JobReader reads jobs and their tasks.
type JobReader interface {
	// ListJobs and GetJob omit all but the first tasks of a large job, and
	// count them in OmittedTasks. ListTasks returns them. Here and below, a
	// job's name is NAME@RUN, as JobResolver returns it.
	ListJobs(ctx context.Context, q request.JobQuery) (api.JobList, error)
	GetJob(ctx context.Context, name string) (api.JobView, error)
	// ListTasks returns at most limit tasks of a job, from the one with the index
	// from on. It returns none if that task does not exist or the job is not the
	// one that was submitted at that time.
	ListTasks(ctx context.Context, job string, submitted time.Time, from, limit int) ([]job.Task, error)
	// GetTask returns a task, or an earlier attempt that is still stored; else 404.
	GetTask(ctx context.Context, id string) (job.Task, error)
	// OwnerOf returns the role and the owner of a job; the owner is "" where the
	// API has no access file. If task is not empty it must be a task of this
	// submission: an earlier job of the name may have had another owner.
	OwnerOf(ctx context.Context, job, task string) (role, owner string, err error)
}

// JobResolver finds the job that a requester means.
type JobResolver interface {
	// ResolveJob returns the run that a reference means; see job.RunTable.Resolve. It is 404 if the requester sees no such job,
	// and 409 with CodeJobAmbiguous if the reference may mean several.
	ResolveJob(ctx context.Context, by *access.Grant, reference string) (request.FoundJob, error)
}

// AgentReader reads agents and their GPUs from the master's list.
type AgentReader interface {
	// ListAgents and ListGPUs list all agents and GPUs that the master knows, sorted by host
	// name. A later page may be answered from the data of the first page. GetAgent returns one agent by its ID; else 404. They are 502 if no master answers.
	ListAgents(ctx context.Context, laterPage bool) ([]api.AgentSummary, error)
	GetAgent(ctx context.Context, id string) (api.AgentDetail, error)
	ListGPUs(ctx context.Context, laterPage bool) ([]api.GPUView, error)
}

// StatusReader reads the state of the scheduler.
type StatusReader interface {
	// GetHealth returns what the scheduler knows of itself. It does not fail while the process works.
	GetHealth(ctx context.Context) (api.HealthStatus, error)
	// CheckReady returns an error while the scheduler cannot answer requests.
	CheckReady(ctx context.Context) error
	metrics.SnapshotSource
	// AsOf returns when the answers were last known to be up to date; zero means
	// that they are current.
	AsOf() time.Time
}

// JobCommands change jobs. Each change is recorded before the method returns.
type JobCommands interface {
	// SubmitJob returns the existing job if the owner has submitted one with the
	// same idempotency key.
	SubmitJob(ctx context.Context, by *access.Grant, spec job.Spec) (view api.JobView, role string, err error)
	// RerunJob submits the specification of a run of a job as its newest run. Like
	// SubmitJob, it returns the existing run for a repeated key.
	RerunJob(ctx context.Context, by *access.Grant, name string, q request.RerunQuery) (api.JobView, error)
	// ValidateJob checks a job or, if it has a schedule, a schedule as its submission
	// would. It records nothing.
	ValidateJob(ctx context.Context, by *access.Grant, spec job.Spec) (api.ValidatedJob, error)
	// ValidateUpdate checks the specification of a service as UpdateJob would. It records nothing.
	ValidateUpdate(ctx context.Context, c request.Change, name string, spec job.Spec) (api.ValidatedJob, error)
	// UpdateJob gives a service another specification. Its tasks are replaced step by step.
	UpdateJob(ctx context.Context, c request.Change, name string, spec job.Spec) (api.JobView, error)
	// EditJob changes the specification of a job that has not ended by a function, which may be called several times.
	EditJob(ctx context.Context, c request.Change, name string, edit func(*job.Spec) error) (api.JobView, error)
	// KillJob ends a job. With force its tasks get no grace period, or lose the
	// rest of one.
	KillJob(ctx context.Context, c request.Change, name string, force bool) error
	// ScaleJob sets the number of a service's tasks.
	ScaleJob(ctx context.Context, c request.Change, name string, tasks int) error
	// StopTask kills a task. A service replaces it or, with retire, has one task less.
	StopTask(ctx context.Context, by *access.Grant, task string, retire bool) error
}

// maxBody is the limit of a request body. A job with a long environment fits.
const maxBody = 1 << 20

// apiServer has what all handlers need. Its fields do not change after NewHandler.
type apiServer struct {
	// backend returns who serves requests now: a leader, a standby, or neither. It changes with the leadership.
	backend func() Backend
	// log reports errors of the server itself, with status 500.
	log logrus.FieldLogger
	// metricsHandler serves /metrics.
	metricsHandler metrics.MetricsHandler
	// execEnabled permits commands in containers.
	execEnabled bool
	// signIn is nil if users cannot sign in through a browser.
	signIn SignInProvider
	// firstAnswers has the present states that event streams send.
	firstAnswers firstAnswers
}

// HandlerOption changes a default of NewHandler.
type HandlerOption func(*apiServer)

// WithoutExec rejects commands in containers.
func WithoutExec() HandlerOption { return func(s *apiServer) { s.execEnabled = false } }

// NewHandler returns the handler of the API. It calls b for each request, since the
// backend changes when a leader is elected. If the backend is a copy, the Age header
// is its age in seconds. Cross-origin requests are rejected.
func NewHandler(b func() Backend, log logrus.FieldLogger, options ...HandlerOption) http.Handler {
	s := &apiServer{backend: b, log: log, metricsHandler: metrics.NewMetricsHandler(), execEnabled: true}
	for _, set := range options {
		set(s)
	}
	mux := http.NewServeMux()
	byPath := map[string]map[string]*route{}
	for _, one := range routes() {
		method, path, _ := strings.Cut(one.request, " ")
		if byPath[path] == nil {
			byPath[path] = map[string]*route{}
		}
		byPath[path][method] = &one
	}
	for path, methods := range byPath {
		mux.HandleFunc(path, s.dispatchByMethod(methods))
	}
	mux.HandleFunc(proxyPattern, s.serveProxy)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		apihttp.WriteProblem(w, r, api.NewProblemf(http.StatusNotFound, "there is nothing at %s", r.URL.Path), s.log)
	})
	return RejectCrossOrigin(mux, log)
}

// RejectCrossOrigin rejects requests that a browser makes for a page of another site.
func RejectCrossOrigin(h http.Handler, log logrus.FieldLogger) http.Handler {
	s := &apiServer{log: log}
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		apihttp.WriteProblem(w, r, api.NewProblemf(http.StatusForbidden, "the request comes from another site's page"), s.log)
	}))
	return guard.Handler(h)
}

// dispatchByMethod selects the handler by method, so that the answer to a wrong
// method is a Problem too. It checks If-Match, permissions and query parameters first.
func (s *apiServer) dispatchByMethod(methods map[string]*route) http.HandlerFunc {
	allow := slices.Sorted(maps.Keys(methods))
	return func(w http.ResponseWriter, r *http.Request) {
		one := methods[r.Method]
		if one == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			apihttp.WriteProblem(w, r, api.NewProblemf(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, strings.Join(allow, " or "), r.Method), s.log)
			return
		}
		r, err := parseIfMatch(r, one)
		if err == nil {
			err = s.authorizeRequest(r, one)
		}
		if err == nil {
			err = checkQuery(r, one)
		}
		if err != nil {
			apihttp.WriteProblem(w, r, err, s.log)
			return
		}
		if reads := s.backend().Reads; reads != nil {
			if asOf := reads.Status.AsOf(); !asOf.IsZero() {
				w.Header().Set("Age", strconv.Itoa(int(math.Ceil(time.Since(asOf).Seconds()))))
			}
		}
		if err := one.handle(s, w, r); err != nil {
			apihttp.WriteProblem(w, r, err, s.log)
		}
	}
}

func (s *apiServer) handleSubmitJob(w http.ResponseWriter, r *http.Request) error {
	spec, err := readSubmission(w, r)
	if err != nil {
		return err
	}
	spec.Owner = apihttp.GrantOf(r.Context()).UserName()
	note := apihttp.AuditNoteOf(r.Context())
	note.Job, note.Role = spec.Name, spec.Role
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	view, role, err := leader.Jobs.SubmitJob(r.Context(), apihttp.GrantOf(r.Context()), spec)
	note.Role = cmp.Or(role, note.Role)
	if err != nil {
		return err
	}
	return s.writeSubmitted(w, r, &view)
}

// writeSubmitted writes a run that was submitted now, or earlier by the same key.
func (s *apiServer) writeSubmitted(w http.ResponseWriter, r *http.Request, view *api.JobView) error {
	w.Header().Set("Location", "/v1/jobs/"+view.Spec.Name)
	status := http.StatusCreated
	if view.AlreadySubmitted {
		status = http.StatusOK
	}
	return s.writeJob(w, r, status, view)
}

// handleUpdateJob gives a service another specification.
func (s *apiServer) handleUpdateJob(w http.ResponseWriter, r *http.Request) error {
	leader, spec, err := s.readUpdate(w, r)
	if err != nil {
		return err
	}
	view, err := leader.Jobs.UpdateJob(r.Context(), changeOf(r), r.PathValue(runOfPath), spec)
	if err != nil {
		return err
	}
	setETag(w, request.JobETag(&view.Job, view.WantedCount))
	return s.writeJob(w, r, http.StatusOK, &view)
}

// readUpdate reads a specification of the request's job, and returns it with the leader that updates the job.
func (s *apiServer) readUpdate(w http.ResponseWriter, r *http.Request) (*LeaderBackend, job.Spec, error) {
	spec, _, err := readSpec(w, r)
	if err != nil {
		return nil, spec, err
	}
	if of, _ := job.ParseRunID(r.PathValue(runOfPath)); spec.Name != of.Name { // the name cannot change
		return nil, spec, api.NewProblemf(http.StatusUnprocessableEntity, "name: %q is not %q, the job of the request", spec.Name, of.Name)
	}
	leader, err := s.leader(r.Context())
	return leader, spec, err
}

// handleValidateUpdate checks an update as handleUpdateJob would, and changes nothing.
func (s *apiServer) handleValidateUpdate(w http.ResponseWriter, r *http.Request) error {
	apihttp.AuditNoteOf(r.Context()).ReadOnly = true
	leader, spec, err := s.readUpdate(w, r)
	if err != nil {
		return err
	}
	checked, err := leader.Jobs.ValidateUpdate(r.Context(), changeOf(r), r.PathValue(runOfPath), spec)
	if err != nil {
		return err
	}
	return writeValidated(w, &checked)
}

// handleEditJob changes keys of a job.
func (s *apiServer) handleEditJob(w http.ResponseWriter, r *http.Request) error {
	edit, err := jobfile.ReadEdit(http.MaxBytesReader(w, r.Body, maxBody), "edit")
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return bodyTooLarge(large)
	case err != nil:
		return api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	view, err := leader.Jobs.EditJob(r.Context(), changeOf(r), r.PathValue(runOfPath), edit.Apply)
	if err != nil {
		return err
	}
	setETag(w, request.JobETag(&view.Job, view.WantedCount))
	return s.writeJob(w, r, http.StatusOK, &view)
}

func (s *apiServer) handleRerunJob(w http.ResponseWriter, r *http.Request) error {
	q := request.RerunQuery{}
	if err := readJSON(w, r, &q.RerunRequest); err != nil {
		return err
	}
	key, err := readClientKey(r)
	if err != nil {
		return err
	}
	if key != "" { // a repeated request may find another newest run
		q.ClientKey = &job.ClientKey{Key: key, Digest: fmt.Sprintf("rerun %s failed=%t", r.PathValue("reference"), q.Failed)}
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	view, err := leader.Jobs.RerunJob(r.Context(), apihttp.GrantOf(r.Context()), r.PathValue(runOfPath), q)
	if err != nil {
		return err
	}
	return s.writeSubmitted(w, r, &view)
}

// readJSON reads one JSON value and rejects unknown keys: a misspelt key must not be
// ignored.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("more follows the first JSON value")
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return bodyTooLarge(large)
	case err != nil:
		return api.NewProblemf(http.StatusBadRequest, "parse body: %v", describeJSONError(err, into))
	}
	return nil
}

// bodyTooLarge returns the Problem of a body above the limit.
func bodyTooLarge(e *http.MaxBytesError) *api.Problem {
	return api.NewProblemf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", e.Limit)
}

func (s *apiServer) handleListJobs(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	return s.writeJobList(reads, w, r, "")
}

// handleListRuns lists the runs of a job that the requester may see.
func (s *apiServer) handleListRuns(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	return s.writeJobList(reads, w, r, r.PathValue(runOfPath))
}

// writeJobList writes the jobs that a request selects or, if runsOf is not empty, the runs of this job.
func (s *apiServer) writeJobList(reads *ReadBackend, w http.ResponseWriter, r *http.Request, runsOf string) error {
	q, err := parseJobQuery(r.URL.Query())
	if err != nil {
		return err
	}
	return writeList(w, q.PageRequest, jobsPerRead, func(p api.PageRequest) ([]api.JobView, string, error) {
		q.PageRequest = p
		list, err := reads.Jobs.ListJobs(r.Context(), request.JobQuery{JobQuery: q, RunsOf: runsOf, MaxTasks: tasksPerRead, Grant: apihttp.GrantOf(r.Context())})
		return list.Jobs, list.Next, err
	}, func(a *streamedAnswer, view *api.JobView) error { return a.job(r.Context(), reads, view) })
}

// parseJobQuery returns the selection of jobs in a request's parameters. Several labels must all match.
func parseJobQuery(v url.Values) (q api.JobQuery, err error) {
	if q.PageRequest, err = parsePageRequest(v); err != nil {
		return q, err
	}
	q.State, q.Role, q.Owner, q.Name = v.Get("state"), v.Get("role"), v.Get("owner"), v.Get("name")
	q.Labels = strings.Join(v["label"], ",")
	if order := v.Get("order"); order != "" && order != api.NewestFirst {
		return q, api.NewProblemf(http.StatusBadRequest, "order %q is not %s: leave it out for oldest first", order, api.NewestFirst)
	}
	q.NewestFirst = v.Get("order") == api.NewestFirst
	if err := q.Validate(); err != nil {
		return q, api.NewProblemf(http.StatusBadRequest, "%w", err)
	}
	return q, nil
}

func (s *apiServer) handleGetJob(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	view, err := reads.Jobs.GetJob(r.Context(), r.PathValue(runOfPath))
	if err != nil {
		return err
	}
	setETag(w, request.JobETag(&view.Job, view.WantedCount))
	return s.writeJob(w, r, http.StatusOK, &view)
}

func (s *apiServer) handleGetJobFile(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	view, err := reads.Jobs.GetJob(r.Context(), r.PathValue(runOfPath))
	if err != nil {
		return err
	}
	text, err := writeJobFile(view.Spec.Submittable(view.WantedCount))
	if err != nil {
		return err
	}
	setETag(w, request.JobETag(&view.Job, view.WantedCount))
	w.Header().Set("Content-Type", yamlMediaTypes[0])
	_, _ = io.WriteString(w, text) // the client is gone if this fails
	return nil
}

func (s *apiServer) handleKillJob(w http.ResponseWriter, r *http.Request) error {
	force, err := parseBoolParameter(r.URL.Query(), "force")
	if err != nil {
		return err
	}
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Jobs.KillJob(r.Context(), changeOf(r), r.PathValue(runOfPath), force)
	})
}

func (s *apiServer) handleListAgents(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	page, next, err := listPage(r, "agents", 3, reads.Agents.ListAgents, agentSortKey)
	if err != nil {
		return err
	}
	for i := range page {
		hideStrays(r, page[i].Strays)
	}
	apihttp.WriteJSON(w, http.StatusOK, api.AgentList{Agents: emptyIfNil(page), Next: next})
	return nil
}

func agentSortKey(agents []api.AgentSummary, at int) request.SortKey {
	return request.SortKey{agents[at].Hostname, agents[at].ID, ""}
}

func (s *apiServer) handleGetAgent(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	agent, err := reads.Agents.GetAgent(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	hideStrays(r, agent.Strays)
	writeJSONWithETag(w, agent.ETag, agent)
	return nil
}

func (s *apiServer) handleListGPUs(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	page, next, err := listPage(r, "gpus", 3, reads.Agents.ListGPUs, gpuSortKey)
	if err != nil {
		return err
	}
	if err := hideTaskIDs(r, reads, page); err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, api.GPUList{GPUs: emptyIfNil(page), Next: next})
	return nil
}

// gpuSortKey returns the sort key of a GPU among those of its agent, which keep the
// agent's order. It uses the UUID, or the index if the agent reports no UUIDs.
func gpuSortKey(gpus []api.GPUView, at int) request.SortKey {
	g := &gpus[at]
	name := g.UUID
	if name == "" {
		first := at
		for first > 0 && gpus[first-1].Agent == g.Agent {
			first--
		}
		name = strconv.Itoa(at - first)
	}
	return request.SortKey{g.Hostname, g.Agent, name}
}

func (s *apiServer) handleHealth(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	h, err := reads.Status.GetHealth(r.Context())
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, h)
	return nil
}

// handleReady is for load balancers. Unlike /healthz it fails if the backend cannot
// serve requests.
func (s *apiServer) handleReady(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	if err := reads.Status.CheckReady(r.Context()); err != nil {
		return err
	}
	return s.handleHealth(reads, w, r)
}

func (s *apiServer) handleMetrics(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	return s.metricsHandler.ServeScrape(w, r, reads.Status)
}

// emptyIfNil returns an empty list for nil, because JSON encodes nil as null.
func emptyIfNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
