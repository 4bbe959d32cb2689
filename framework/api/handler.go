package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/metrics"
	"mesos-gpu/job"
)

// Backend does what requests ask for. Its errors are *Problem where the
// requester is to know more than that something broke.
type Backend interface {
	// SubmitJob returns when the job is recorded. One whose owner has a job by
	// its client key already gets that, as it is.
	SubmitJob(ctx context.Context, spec job.Spec) (JobView, error)
	ListJobs(ctx context.Context, q JobQuery) (JobList, error)
	GetJob(ctx context.Context, name string) (JobView, error)
	// KillJob returns when the wish is recorded. With force there is no kill grace,
	// nor the rest of one.
	KillJob(ctx context.Context, name string, force bool) error
	// ScaleJob and Stop likewise.
	ScaleJob(ctx context.Context, name string, tasks int) error
	StopTask(ctx context.Context, task string, retire bool) error
	GetTask(ctx context.Context, id string) (job.Task, error)
	// ReadTaskLog reads from a file of a task's output, stdout, stderr, or an older
	// one such as stdout.1, and says how long it is. Returns ErrNoLog, wrapped,
	// if there is none, or not yet.
	ReadTaskLog(ctx context.Context, t job.Task, file string, offset, length uint64) (data []byte, size uint64, err error)
	ListAgents(ctx context.Context) ([]AgentSummary, error)
	GetAgent(ctx context.Context, id string) (AgentDetail, error)
	ListGPUs(ctx context.Context) ([]GPUView, error)
	// WatchEvents returns the states of all tasks, or what has happened since q's
	// After, and a channel of the changes after that. It is closed when ctx
	// ends or the reader is too slow.
	WatchEvents(ctx context.Context, q EventQuery) ([]TaskEvent, <-chan TaskEvent, error)
	GetHealth(ctx context.Context) (HealthStatus, error)
	// CheckReady says what is in the way of requests, nil where they are answered.
	CheckReady(ctx context.Context) error
	// OwnerOf are the role and the owner of a job, "" where nobody is. Of a
	// task, if one is given, it is the job only where that is of this
	// submission: another of the name may have been somebody else's.
	OwnerOf(ctx context.Context, job, task string) (role, owner string, err error)
	OperatorBackend
	ScheduleBackend
	UsageBackend
	metrics.SnapshotSource
	// AsOf is when what it answers from was certainly up to date; zero is now.
	AsOf() time.Time
}

// ErrNoLog means that a task has written no log, or none yet.
var ErrNoLog = errors.New("no log")

// maxBody bounds a request: a job with a long environment fits.
const maxBody = 1 << 20

type apiServer struct {
	backend        func() Backend
	log            logrus.FieldLogger
	metricsHandler metrics.MetricsHandler
	accessRules    map[string]accessRule
	// execEnabled lets commands run in containers, as many at a time as sessions holds.
	execEnabled bool
	execSlots   chan struct{}
}

// HandlerOption says what a Handler does otherwise than most.
type HandlerOption func(*apiServer)

// WithoutExec has it run no commands in containers.
func WithoutExec() HandlerOption { return func(s *apiServer) { s.execEnabled = false } }

// NewHandler serves the API from the backend of the moment, and says in the Age
// header how many seconds old that is, where it is a copy. It is guarded.
func NewHandler(b func() Backend, log logrus.FieldLogger, options ...HandlerOption) http.Handler {
	s := &apiServer{backend: b, log: log, metricsHandler: metrics.NewMetricsHandler(), accessRules: accessRules(), execEnabled: true, execSlots: make(chan struct{}, maxExecSessions)}
	for _, set := range options {
		set(s)
	}
	mux := http.NewServeMux()
	route := func(path string, methods map[string]handlerFunc) {
		mux.HandleFunc(path, s.dispatchByMethod(path, methods))
	}
	route("/v1/jobs", map[string]handlerFunc{http.MethodGet: s.handleListJobs, http.MethodPost: s.handleSubmitJob})
	route("/v1/jobs/{name}", map[string]handlerFunc{http.MethodGet: s.handleGetJob, http.MethodDelete: s.handleKillJob})
	route("/v1/jobs/{name}/scale", map[string]handlerFunc{http.MethodPost: s.handleScaleJob})
	route("/v1/jobs/{name}/tasks/{task}/exec", map[string]handlerFunc{http.MethodGet: s.handleExec})
	route("/v1/tasks/{id}/stop", map[string]handlerFunc{http.MethodPost: s.handleStopTask})
	route("/v1/tasks/{id}/log", map[string]handlerFunc{http.MethodGet: s.handleTaskLog})
	s.registerScheduleRoutes(route)
	route("/v1/agents", map[string]handlerFunc{http.MethodGet: s.handleListAgents})
	route("/v1/agents/{id}", map[string]handlerFunc{http.MethodGet: s.handleGetAgent})
	s.registerOperatorRoutes(route)
	route("/v1/gpus", map[string]handlerFunc{http.MethodGet: s.handleListGPUs})
	route("/v1/usage", map[string]handlerFunc{http.MethodGet: s.handleListUsage})
	route("/v1/events", map[string]handlerFunc{http.MethodGet: s.handleEvents})
	route("/v1/openapi.yaml", map[string]handlerFunc{http.MethodGet: s.handleOpenAPI})
	route("/v1/job.schema.json", map[string]handlerFunc{http.MethodGet: s.handleJobSchema})
	route("/healthz", map[string]handlerFunc{http.MethodGet: s.handleHealth})
	route("/readyz", map[string]handlerFunc{http.MethodGet: s.handleReady})
	route("/metrics", map[string]handlerFunc{http.MethodGet: s.handleMetrics})
	route("/metrics/prometheus", map[string]handlerFunc{http.MethodGet: s.handleMetrics})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, r, NewProblemf(http.StatusNotFound, "there is nothing at %s", r.URL.Path))
	})
	return RejectCrossOrigin(mux, log)
}

// RejectCrossOrigin refuses requests that a browser makes on behalf of another site.
func RejectCrossOrigin(h http.Handler, log logrus.FieldLogger) http.Handler {
	s := &apiServer{log: log}
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, r, NewProblemf(http.StatusForbidden, "the request comes from another site's page"))
	}))
	return guard.Handler(h)
}

// handlerFunc answers a request, or returns what went wrong before it began to.
type handlerFunc func(w http.ResponseWriter, r *http.Request) error

// dispatchByMethod picks by method, so that a wrong one is a Problem too.
func (s *apiServer) dispatchByMethod(path string, methods map[string]handlerFunc) http.HandlerFunc {
	var allow []string
	for m := range methods {
		allow = append(allow, m)
	}
	slices.Sort(allow)
	return func(w http.ResponseWriter, r *http.Request) {
		h := methods[r.Method]
		if h == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			s.writeProblem(w, r, NewProblemf(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, strings.Join(allow, " or "), r.Method))
			return
		}
		r, err := parseIfMatch(r, path)
		if err == nil {
			err = s.authorizeRequest(r, path)
		}
		if err == nil {
			err = s.checkQuery(r, path)
		}
		if err != nil {
			s.writeProblem(w, r, err)
			return
		}
		if asOf := s.backend().AsOf(); !asOf.IsZero() {
			w.Header().Set("Age", strconv.Itoa(int(math.Ceil(time.Since(asOf).Seconds()))))
		}
		if err := h(w, r); err != nil {
			s.writeProblem(w, r, err)
		}
	}
}

func (s *apiServer) handleSubmitJob(w http.ResponseWriter, r *http.Request) error {
	spec, err := readSubmission(w, r)
	if err != nil {
		return err
	}
	spec.SetDefaults()
	if err := spec.Validate(); err != nil {
		return NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	spec.Owner = GrantOf(r.Context()).UserName()
	note := AuditNoteOf(r.Context())
	note.Job, note.Role = spec.Name, spec.Role
	view, err := s.backend().SubmitJob(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/jobs/"+spec.Name)
	status := http.StatusCreated
	if view.AlreadySubmitted {
		status = http.StatusOK
	}
	writeJSON(w, status, &view)
	return nil
}

// readJSON reads one JSON value and refuses keys that mean nothing: a
// misspelt wish must not be ignored.
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
		return NewProblemf(http.StatusBadRequest, "parse body: %v", describeJSONError(err, into))
	}
	return nil
}

func bodyTooLarge(e *http.MaxBytesError) *Problem {
	return NewProblemf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", e.Limit)
}

func (s *apiServer) handleListJobs(w http.ResponseWriter, r *http.Request) error {
	q, err := parseJobQuery(r.URL.Query())
	if err != nil {
		return err
	}
	q.Grant = GrantOf(r.Context())
	list, err := s.backend().ListJobs(r.Context(), q)
	if err != nil {
		return err
	}
	list.Jobs = emptyIfNil(list.Jobs)
	writeJSON(w, http.StatusOK, &list)
	return nil
}

func parseJobQuery(v url.Values) (q JobQuery, err error) {
	if q.PageRequest, err = parsePageRequest(v); err != nil {
		return q, err
	}
	q.State = v.Get("state")
	if order := v.Get("order"); order != "" && order != NewestFirst {
		return q, NewProblemf(http.StatusBadRequest, "order %q is not %s: left out it is oldest first", order, NewestFirst)
	}
	q.NewestFirst = v.Get("order") == NewestFirst
	if q.State != "" && q.State != LiveJobs && q.State != EndedJobs {
		return q, NewProblemf(http.StatusBadRequest, "state %q is neither %s nor %s", q.State, LiveJobs, EndedJobs)
	}
	return q, nil
}

func (s *apiServer) handleGetJob(w http.ResponseWriter, r *http.Request) error {
	view, err := s.backend().GetJob(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSONWithETag(w, JobETag(&view.Job), view)
	return nil
}

func (s *apiServer) handleKillJob(w http.ResponseWriter, r *http.Request) error {
	force := false
	if text := r.URL.Query().Get("force"); text != "" {
		var err error
		if force, err = strconv.ParseBool(text); err != nil {
			return NewProblemf(http.StatusBadRequest, "force %q is neither true nor false", text)
		}
	}
	if err := s.backend().KillJob(r.Context(), r.PathValue("name"), force); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

func (s *apiServer) handleListAgents(w http.ResponseWriter, r *http.Request) error {
	page, next, err := listPage(r, "agents", 3, s.backend().ListAgents, agentSortKey)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, AgentList{Agents: emptyIfNil(page), Next: next})
	return nil
}

func agentSortKey(agents []AgentSummary, at int) SortKey {
	return SortKey{agents[at].Hostname, agents[at].ID, ""}
}

func (s *apiServer) handleGetAgent(w http.ResponseWriter, r *http.Request) error {
	agent, err := s.backend().GetAgent(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	writeJSONWithETag(w, agent.ETag, agent)
	return nil
}

func (s *apiServer) handleListGPUs(w http.ResponseWriter, r *http.Request) error {
	page, next, err := listPage(r, "gpus", 3, s.backend().ListGPUs, gpuSortKey)
	if err != nil {
		return err
	}
	if err := s.hideTaskIDs(r, page); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, GPUList{GPUs: emptyIfNil(page), Next: next})
	return nil
}

// gpuSortKey names a GPUView among those of its agent, which are in the agent's order:
// by its UUID or, where the agent names none, by its number there.
func gpuSortKey(gpus []GPUView, at int) SortKey {
	g := &gpus[at]
	name := g.UUID
	if name == "" {
		first := at
		for first > 0 && gpus[first-1].Agent == g.Agent {
			first--
		}
		name = strconv.Itoa(at - first)
	}
	return SortKey{g.Hostname, g.Agent, name}
}

func (s *apiServer) handleHealth(w http.ResponseWriter, r *http.Request) error {
	h, err := s.backend().GetHealth(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, h)
	return nil
}

// handleReady is for load balancers: it asks what health does not.
func (s *apiServer) handleReady(w http.ResponseWriter, r *http.Request) error {
	if err := s.backend().CheckReady(r.Context()); err != nil {
		return err
	}
	return s.handleHealth(w, r)
}

func (s *apiServer) handleMetrics(w http.ResponseWriter, r *http.Request) error {
	return s.metricsHandler.ServeScrape(w, r, s.backend())
}

// emptyIfNil makes a list of none an empty one, which JSON does not call null.
func emptyIfNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
