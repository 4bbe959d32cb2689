package api

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/marathon/deploy"
)

// Paths are those that the handler answers, with all that is below them.
func Paths() []string { return []string{"/v2", "/ping"} }

// Handler answers for the service, and streams what the bus carries. It does
// not tell who may ask.
func Handler(service Service, bus *Bus, log logrus.FieldLogger) http.Handler {
	s := &server{service: service, bus: bus, log: log, now: time.Now}
	return http.HandlerFunc(s.serve)
}

type server struct {
	service Service
	bus     *Bus
	log     logrus.FieldLogger
	now     func() time.Time
}

// handler answers a request, or returns what went wrong before it began to.
type handler func(w http.ResponseWriter, r *http.Request) error

// methods are what a path answers to.
type methods map[string]handler

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	if err := s.lead(w, r); err != nil {
		s.fail(w, r, err)
		return
	}
	found := s.find(r.URL.Path)
	if len(found) == 0 {
		s.fail(w, r, notFound("there is nothing at %s", r.URL.Path))
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	h := found[method]
	if h == nil {
		allow := strings.Join(slices.Sorted(maps.Keys(found)), ", ")
		w.Header().Set("Allow", allow)
		s.fail(w, r, problemf(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, allow, r.Method))
		return
	}
	if err := h(w, r); err != nil {
		s.fail(w, r, err)
	}
}

// lead names the leader in every answer, as Marathon does.
func (s *server) lead(w http.ResponseWriter, r *http.Request) error {
	leader, err := s.service.Leader(r.Context())
	if err != nil {
		return fmt.Errorf("ask who leads: %w", err)
	}
	if leader != "" {
		w.Header().Set("X-Marathon-Leader", leader)
	}
	return nil
}

// find returns what answers for a path. http.ServeMux cannot tell the ids of
// apps, which have slashes, from what follows them.
func (s *server) find(path string) methods {
	head, rest := split(path)
	switch head {
	case "ping":
		return only(rest, methods{http.MethodGet: s.ping})
	case "v2":
	default:
		return nil
	}
	switch head, rest = split(rest); head {
	case "apps":
		return s.apps(rest)
	case "groups":
		return s.groups(groupPlace(rest))
	case "queue":
		return s.queue(rest)
	case "tasks":
		return s.tasks(rest)
	case "deployments":
		return s.deployments(rest)
	case "events":
		return only(rest, methods{http.MethodGet: s.events})
	case "info":
		return only(rest, methods{http.MethodGet: s.serviceInfo})
	case "leader":
		return only(rest, methods{http.MethodGet: s.leader, http.MethodDelete: s.abdicate})
	case "pods":
		return s.pods()
	}
	return nil
}

// split takes the first segment off a path.
func split(path string) (head, rest string) {
	head, rest, _ = strings.Cut(strings.TrimLeft(path, "/"), "/")
	return head, rest
}

// only answers where nothing follows.
func only(rest string, m methods) methods {
	if len(parts(rest)) > 0 {
		return nil
	}
	return m
}

// pods says to clients that ask whether there are pods that there are none.
func (s *server) pods() methods {
	none := func(http.ResponseWriter, *http.Request) error {
		return notFound("there are no pods: one executor runs one task, so write each container of the pod as an app")
	}
	return methods{http.MethodGet: none, http.MethodPost: none, http.MethodPut: none, http.MethodDelete: none}
}

// maxBody bounds a request: a thousand apps fit.
const maxBody = 16 << 20

func body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("read the body of %s %s: %w", r.Method, r.URL.Path, err)
	}
	return data, nil
}

// whether reads a query parameter that is true or false.
func whether(q url.Values, name string, otherwise bool) (bool, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, problemf(http.StatusBadRequest, "%s is %q: write true or false", name, text)
	}
	return v, nil
}

// deployed answers with the deployment that a request has started.
func (s *server) deployed(w http.ResponseWriter, status int, d deploy.Deployment) {
	w.Header().Set(deploymentHeader, d.ID)
	s.answer(w, status, result{Version: d.Version, DeploymentID: d.ID})
}

const deploymentHeader = "Marathon-Deployment-Id"
