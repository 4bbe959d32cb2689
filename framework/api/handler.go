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
	// Submit returns when the job is recorded. One whose owner has a job by
	// its client key already gets that, as it is.
	Submit(ctx context.Context, spec job.Spec) (JobView, error)
	Jobs(ctx context.Context, q JobQuery) (JobList, error)
	Job(ctx context.Context, name string) (JobView, error)
	// Kill returns when the wish is recorded. With force there is no kill grace,
	// nor the rest of one.
	Kill(ctx context.Context, name string, force bool) error
	// Scale and Stop likewise.
	Scale(ctx context.Context, name string, tasks int) error
	Stop(ctx context.Context, task string, retire bool) error
	Task(ctx context.Context, id string) (job.Task, error)
	// ReadLog reads from a file of a task's output, stdout, stderr, or an older
	// one such as stdout.1, and says how long it is. Returns ErrNoLog, wrapped,
	// if there is none, or not yet.
	ReadLog(ctx context.Context, t job.Task, file string, offset, length uint64) (data []byte, size uint64, err error)
	Agents(ctx context.Context) ([]Agent, error)
	Agent(ctx context.Context, id string) (AgentView, error)
	GPUs(ctx context.Context) ([]GPU, error)
	// Events returns the states of all tasks, or what has happened since q's
	// After, and a channel of the changes after that. It is closed when ctx
	// ends or the reader is too slow.
	Events(ctx context.Context, q EventQuery) ([]Event, <-chan Event, error)
	Health(ctx context.Context) (Health, error)
	// Ready says what is in the way of requests, nil where they are answered.
	Ready(ctx context.Context) error
	// Whose are the role and the owner of a job, "" where nobody is. Of a
	// task, if one is given, it is the job only where that is of this
	// submission: another of the name may have been somebody else's.
	Whose(ctx context.Context, job, task string) (role, owner string, err error)
	Operations
	ScheduleBackend
	UsageBackend
	metrics.View
	// AsOf is when what it answers from was certainly up to date; zero is now.
	AsOf() time.Time
}

// ErrNoLog means that a task has written no log, or none yet.
var ErrNoLog = errors.New("no log")

// maxBody bounds a request: a job with a long environment fits.
const maxBody = 1 << 20

type server struct {
	backend func() Backend
	log     logrus.FieldLogger
	pages   metrics.Pages
	needs   map[string]need
	// execs lets commands run in containers, as many at a time as sessions holds.
	execs    bool
	sessions chan struct{}
}

// Option says what a Handler does otherwise than most.
type Option func(*server)

// WithoutExec has it run no commands in containers.
func WithoutExec() Option { return func(s *server) { s.execs = false } }

// Handler serves the API from the backend of the moment, and says in the Age
// header how many seconds old that is, where it is a copy. It is guarded.
func Handler(b func() Backend, log logrus.FieldLogger, options ...Option) http.Handler {
	s := &server{backend: b, log: log, pages: metrics.NewPages(), needs: needs(), execs: true, sessions: make(chan struct{}, maxSessions)}
	for _, set := range options {
		set(s)
	}
	mux := http.NewServeMux()
	route := func(path string, methods map[string]handler) { mux.HandleFunc(path, s.route(path, methods)) }
	route("/v1/jobs", map[string]handler{http.MethodGet: s.jobs, http.MethodPost: s.submit})
	route("/v1/jobs/{name}", map[string]handler{http.MethodGet: s.job, http.MethodDelete: s.kill})
	route("/v1/jobs/{name}/scale", map[string]handler{http.MethodPost: s.scale})
	route("/v1/jobs/{name}/tasks/{task}/exec", map[string]handler{http.MethodGet: s.exec})
	route("/v1/tasks/{id}/stop", map[string]handler{http.MethodPost: s.stop})
	route("/v1/tasks/{id}/log", map[string]handler{http.MethodGet: s.taskLog})
	s.routeSchedules(route)
	route("/v1/agents", map[string]handler{http.MethodGet: s.agents})
	route("/v1/agents/{id}", map[string]handler{http.MethodGet: s.agent})
	s.operations(route)
	route("/v1/gpus", map[string]handler{http.MethodGet: s.gpus})
	route("/v1/usage", map[string]handler{http.MethodGet: s.usage})
	route("/v1/events", map[string]handler{http.MethodGet: s.events})
	route("/v1/openapi.yaml", map[string]handler{http.MethodGet: s.document})
	route("/v1/job.schema.json", map[string]handler{http.MethodGet: s.jobSchema})
	route("/healthz", map[string]handler{http.MethodGet: s.health})
	route("/readyz", map[string]handler{http.MethodGet: s.ready})
	route("/metrics", map[string]handler{http.MethodGet: s.metrics})
	route("/metrics/prometheus", map[string]handler{http.MethodGet: s.metrics})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, Problemf(http.StatusNotFound, "there is nothing at %s", r.URL.Path))
	})
	return Guard(mux, log)
}

// Guard refuses requests that a browser makes on behalf of another site.
func Guard(h http.Handler, log logrus.FieldLogger) http.Handler {
	s := &server{log: log}
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, Problemf(http.StatusForbidden, "the request comes from another site's page"))
	}))
	return guard.Handler(h)
}

// handler answers a request, or returns what went wrong before it began to.
type handler func(w http.ResponseWriter, r *http.Request) error

// route picks by method, so that a wrong one is a Problem too.
func (s *server) route(path string, methods map[string]handler) http.HandlerFunc {
	var allow []string
	for m := range methods {
		allow = append(allow, m)
	}
	slices.Sort(allow)
	return func(w http.ResponseWriter, r *http.Request) {
		h := methods[r.Method]
		if h == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			s.fail(w, r, Problemf(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, strings.Join(allow, " or "), r.Method))
			return
		}
		r, err := ifMatch(r, path)
		if err == nil {
			err = s.admit(r, path)
		}
		if err == nil {
			err = s.checkQuery(r, path)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if asOf := s.backend().AsOf(); !asOf.IsZero() {
			w.Header().Set("Age", strconv.Itoa(int(math.Ceil(time.Since(asOf).Seconds()))))
		}
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

func (s *server) submit(w http.ResponseWriter, r *http.Request) error {
	spec, err := readSubmission(w, r)
	if err != nil {
		return err
	}
	spec.SetDefaults()
	if err := spec.Validate(); err != nil {
		return Problemf(http.StatusUnprocessableEntity, "%v", err)
	}
	spec.Owner = GrantOf(r.Context()).Who()
	note := NoteOf(r.Context())
	note.Job, note.Role = spec.Name, spec.Role
	view, err := s.backend().Submit(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/jobs/"+spec.Name)
	status := http.StatusCreated
	if view.Again {
		status = http.StatusOK
	}
	answer(w, status, &view)
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
		return tooLarge(large)
	case err != nil:
		return Problemf(http.StatusBadRequest, "parse body: %v", mistake(err, into))
	}
	return nil
}

func tooLarge(e *http.MaxBytesError) *Problem {
	return Problemf(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", e.Limit)
}

func (s *server) jobs(w http.ResponseWriter, r *http.Request) error {
	q, err := parseJobQuery(r.URL.Query())
	if err != nil {
		return err
	}
	q.For = GrantOf(r.Context())
	list, err := s.backend().Jobs(r.Context(), q)
	if err != nil {
		return err
	}
	list.Jobs = some(list.Jobs)
	answer(w, http.StatusOK, &list)
	return nil
}

func parseJobQuery(v url.Values) (q JobQuery, err error) {
	if q.Page, err = parsePage(v); err != nil {
		return q, err
	}
	q.State = v.Get("state")
	if order := v.Get("order"); order != "" && order != NewestFirst {
		return q, Problemf(http.StatusBadRequest, "order %q is not %s: left out it is oldest first", order, NewestFirst)
	}
	q.Newest = v.Get("order") == NewestFirst
	if q.State != "" && q.State != LiveJobs && q.State != EndedJobs {
		return q, Problemf(http.StatusBadRequest, "state %q is neither %s nor %s", q.State, LiveJobs, EndedJobs)
	}
	return q, nil
}

func (s *server) job(w http.ResponseWriter, r *http.Request) error {
	view, err := s.backend().Job(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	tagged(w, JobTag(&view.Job), view)
	return nil
}

func (s *server) kill(w http.ResponseWriter, r *http.Request) error {
	force := false
	if text := r.URL.Query().Get("force"); text != "" {
		var err error
		if force, err = strconv.ParseBool(text); err != nil {
			return Problemf(http.StatusBadRequest, "force %q is neither true nor false", text)
		}
	}
	if err := s.backend().Kill(r.Context(), r.PathValue("name"), force); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

func (s *server) agents(w http.ResponseWriter, r *http.Request) error {
	page, next, err := paged(r, "agents", 3, s.backend().Agents, agentKey)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, AgentList{Agents: some(page), Next: next})
	return nil
}

func agentKey(agents []Agent, at int) Key { return Key{agents[at].Hostname, agents[at].ID, ""} }

func (s *server) agent(w http.ResponseWriter, r *http.Request) error {
	agent, err := s.backend().Agent(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	tagged(w, agent.Tag, agent)
	return nil
}

func (s *server) gpus(w http.ResponseWriter, r *http.Request) error {
	page, next, err := paged(r, "gpus", 3, s.backend().GPUs, gpuKey)
	if err != nil {
		return err
	}
	if err := s.hideTasks(r, page); err != nil {
		return err
	}
	answer(w, http.StatusOK, GPUList{GPUs: some(page), Next: next})
	return nil
}

// gpuKey names a GPU among those of its agent, which are in the agent's order:
// by its UUID or, where the agent names none, by its number there.
func gpuKey(gpus []GPU, at int) Key {
	g := &gpus[at]
	name := g.UUID
	if name == "" {
		first := at
		for first > 0 && gpus[first-1].Agent == g.Agent {
			first--
		}
		name = strconv.Itoa(at - first)
	}
	return Key{g.Hostname, g.Agent, name}
}

func (s *server) health(w http.ResponseWriter, r *http.Request) error {
	h, err := s.backend().Health(r.Context())
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, h)
	return nil
}

// ready is for load balancers: it asks what health does not.
func (s *server) ready(w http.ResponseWriter, r *http.Request) error {
	if err := s.backend().Ready(r.Context()); err != nil {
		return err
	}
	return s.health(w, r)
}

func (s *server) metrics(w http.ResponseWriter, r *http.Request) error {
	return s.pages.Serve(w, r, s.backend())
}

// some makes a list of none an empty one, which JSON does not call null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
