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

// Paths returns the path prefixes that the handler answers.
func Paths() []string { return []string{"/v2", "/ping"} }

// NewHandler returns the API of a service, with the events of a bus. It checks no
// permissions.
func NewHandler(service AppService, bus *EventBus, log logrus.FieldLogger) http.Handler {
	s := &apiServer{service: service, bus: bus, log: log, now: time.Now}
	return http.HandlerFunc(s.serveRequest)
}

type apiServer struct {
	service AppService
	bus     *EventBus
	log     logrus.FieldLogger
	now     func() time.Time
}

// handlerFunc answers a request, or returns an error before it has written anything.
type handlerFunc func(w http.ResponseWriter, r *http.Request) error

// methodHandlers are the handlers of a path by method.
type methodHandlers map[string]handlerFunc

func (s *apiServer) serveRequest(w http.ResponseWriter, r *http.Request) {
	if err := s.setLeaderHeader(w, r); err != nil {
		s.answerError(w, r, err)
		return
	}
	found := s.findRoute(r.URL.Path)
	if len(found) == 0 {
		s.answerError(w, r, notFound("there is nothing at %s", r.URL.Path))
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
		s.answerError(w, r, newProblem(http.StatusMethodNotAllowed, "%s takes %s, not %s", r.URL.Path, allow, r.Method))
		return
	}
	if err := h(w, withResponseHeader(r, w.Header())); err != nil {
		s.answerError(w, r, err)
	}
}

// setLeaderHeader names the leader in every answer, as Marathon does.
func (s *apiServer) setLeaderHeader(w http.ResponseWriter, r *http.Request) error {
	leader, err := s.service.LeaderURL(r.Context())
	if err != nil {
		return fmt.Errorf("find the leader: %w", err)
	}
	if leader != "" {
		w.Header().Set("X-Marathon-Leader", leader)
	}
	return nil
}

// findRoute returns the handlers of a path. http.ServeMux cannot separate ids of apps, which
// contain slashes, from what follows them.
func (s *apiServer) findRoute(path string) methodHandlers {
	head, rest := splitHead(path)
	switch head {
	case "ping":
		return exactPath(rest, methodHandlers{http.MethodGet: s.answerPing})
	case "v2":
	default:
		return nil
	}
	switch head, rest = splitHead(rest); head {
	case "apps":
		return s.routeApps(rest)
	case "groups":
		return s.routeGroups(parseGroupPath(rest))
	case "queue":
		return s.routeQueue(rest)
	case "tasks":
		return s.routeTasks(rest)
	case "deployments":
		return s.routeDeployments(rest)
	case "events":
		return exactPath(rest, methodHandlers{http.MethodGet: s.streamEvents})
	case "info":
		return exactPath(rest, methodHandlers{http.MethodGet: s.showInfo})
	case "leader":
		return exactPath(rest, methodHandlers{http.MethodGet: s.showLeader, http.MethodDelete: s.abdicateLeadership})
	case "plugins":
		return exactPath(rest, methodHandlers{http.MethodGet: s.listPlugins})
	case "pods":
		return s.routePods()
	}
	return nil
}

// splitHead splits off the first segment of a path.
func splitHead(path string) (head, rest string) {
	head, rest, _ = strings.Cut(strings.TrimLeft(path, "/"), "/")
	return head, rest
}

// exactPath returns the handlers if no segments follow.
func exactPath(rest string, m methodHandlers) methodHandlers {
	if len(splitSegments(rest)) > 0 {
		return nil
	}
	return m
}

// routePods answers that there are no pods, and rejects definitions of pods.
func (s *apiServer) routePods() methodHandlers {
	const reason = "pods are not supported, because one executor runs one task: define each container of the pod as an app"
	none := func(http.ResponseWriter, *http.Request) error { return notFound(reason) }
	refuse := func(http.ResponseWriter, *http.Request) error { return invalidAt("/", reason) }
	return methodHandlers{http.MethodGet: none, http.MethodDelete: none, http.MethodPost: refuse, http.MethodPut: refuse}
}

// maxBody bounds a request body. A thousand apps fit.
const maxBody = 16 << 20

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("read the body of %s %s: %w", r.Method, r.URL.Path, err)
	}
	return data, nil
}

// readBoolParam reads a query parameter with a boolean value.
func readBoolParam(q url.Values, name string, otherwise bool) (bool, error) {
	text := q.Get(name)
	if text == "" {
		return otherwise, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, newProblem(http.StatusBadRequest, "%s is %q: write true or false", name, text)
	}
	return v, nil
}

// answerDeployment answers with the deployment that a request started.
func (s *apiServer) answerDeployment(w http.ResponseWriter, status int, d deploy.Deployment) {
	w.Header().Set(deploymentHeader, d.ID)
	s.writeJSON(w, status, deploymentResult{Version: d.Version, DeploymentID: d.ID})
}

const deploymentHeader = "Marathon-Deployment-Id"
