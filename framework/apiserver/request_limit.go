package apiserver

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
)

// RequestLimits bounds what the API does at a time. A client is a user or, without an access
// file, an address.
type RequestLimits struct {
	// Streams are event streams and logs, Lists are lists, Requests are all others. Sessions are
	// commands in containers; zero means maxExecSessions.
	Streams, Lists, Requests, Sessions int
	// ClientPercent is the part of each limit that one client may use.
	ClientPercent int
	// Usage receives the numbers; nil discards them.
	Usage LimitObserver
}

// LimitObserver receives how much of each limit is used.
type LimitObserver interface {
	// SetAPILimit sets a limit, SetAPIUse what is used of it.
	SetAPILimit(resource string, n int)
	SetAPIUse(resource string, n int)
	// CountAPIRejection counts a rejection at the limit of one client or of all together.
	CountAPIRejection(resource, scope string)
}

// Resources and scopes of a LimitObserver.
const (
	connectionsResource = "connections"
	streamsResource     = "streams"
	listsResource       = "lists"
	requestsResource    = "requests"
	sessionsResource    = "sessions"
	probesResource      = "probes"
	anonymousResource   = "anonymous"
	workdirsResource    = "workdirs"

	clientScope = "client"
	totalScope  = "total"
)

// ignoreUsage is the LimitObserver of limits without one.
type ignoreUsage struct{}

func (ignoreUsage) SetAPILimit(string, int)          {}
func (ignoreUsage) SetAPIUse(string, int)            {}
func (ignoreUsage) CountAPIRejection(string, string) {}

const (
	// limitWait is how long a request waits for its turn before it is rejected.
	limitWait = 10 * time.Second
	// maxExecSessions limits commands in containers. They do not wait.
	maxExecSessions = 128
	// maxProbes limits health checks. They do not wait.
	maxProbes = 128
	// maxAnonymous limits requests without a user where an access file is configured: files of
	// the web page, open metrics, and requests that will be rejected.
	maxAnonymous = 64
	// maxWorkdirs limits the archives that agents fetch at a time, each of which may take a
	// minute. The others wait for workdirWait, because a failed fetch is a failed task.
	maxWorkdirs = 256
	workdirWait = time.Minute
	// bufferedListCost is how many lists one of an extension counts for, because it is built
	// in memory as a whole.
	bufferedListCost = 4
)

// LimitRequests limits the requests to h. A request of a client at its limit is rejected with
// status 429, and one at the limit of all clients with 503, both with Retry-After. Lists and
// other requests first wait for their turn. apihttp.GrantOf identifies users; a request without one
// cannot occupy their places.
func LimitRequests(h http.Handler, limits RequestLimits, log logrus.FieldLogger) http.Handler {
	if limits.Usage == nil {
		limits.Usage = ignoreUsage{}
	}
	part := func(total int) int { return max(1, total*limits.ClientPercent/100) }
	streams := newLimitedResource(streamsResource, limits.Streams, part(limits.Streams), 0, limits.Usage)
	lists := newLimitedResource(listsResource, limits.Lists, max(part(limits.Lists), min(bufferedListCost, limits.Lists)), limitWait, limits.Usage)
	requests := newLimitedResource(requestsResource, limits.Requests, part(limits.Requests), limitWait, limits.Usage)
	maxSessions := cmp.Or(limits.Sessions, maxExecSessions)
	sessions := newLimitedResource(sessionsResource, maxSessions, part(maxSessions), 0, limits.Usage)
	probes := newLimitedResource(probesResource, maxProbes, part(maxProbes), 0, limits.Usage)
	anonymous := newLimitedResource(anonymousResource, maxAnonymous, part(maxAnonymous), limitWait, limits.Usage)
	workdirs := newLimitedResource(workdirsResource, maxWorkdirs, maxWorkdirs, workdirWait, limits.Usage) // agents may share an address
	classes := newRequestClassifier()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, cost := requests, 1
		switch class := classes.classify(r); {
		case class == probeClass:
			resource = probes
		case class == workdirClass:
			resource = workdirs
		case !apihttp.GrantOf(r.Context()).IsKnown():
			resource = anonymous
		case class == sessionClass:
			resource = sessions
		case class == streamClass:
			resource = streams
		case class == listClass:
			resource = lists
		case class == bufferedListClass:
			resource, cost = lists, min(bufferedListCost, limits.Lists)
		}
		release, err := resource.acquire(r.Context(), clientOf(r), cost)
		if err != nil {
			apihttp.WriteProblem(w, r, err, log)
			return
		}
		defer release()
		h.ServeHTTP(w, r)
	})
}

// requestClass is the limit that applies to a request.
type requestClass int

const (
	plainClass requestClass = iota
	probeClass
	streamClass
	listClass
	// bufferedListClass are the reads of an extension, which are built in memory.
	bufferedListClass
	sessionClass
	// workdirClass are the archives that agents fetch.
	workdirClass
)

// ServeHTTP makes a class an entry of the classifier's mux, which serves nothing.
func (requestClass) ServeHTTP(http.ResponseWriter, *http.Request) {}

// class returns the limit that applies to a route. Answers of lists grow with the cluster or its
// jobs.
func (one *route) class() requestClass {
	switch one.request {
	case "PUT /v1/tasks/{id}/files", "PUT /v1/tasks/{id}/file":
		return sessionClass
	case "GET /v1/tasks/{id}/file":
		return streamClass
	}
	switch one.path() {
	case "/healthz", "/readyz":
		return probeClass
	case "/v1/events", "/v1/tasks/{id}/log", "/v1/tasks/{id}/output":
		return streamClass
	case "/v1/jobs/{reference}/tasks/{task}/exec", "/v1/jobs/{reference}/tasks/{task}/attach", "/v1/jobs/{reference}/tasks/{task}/port-forward":
		return sessionClass
	case WorkdirPattern:
		return workdirClass
	case "/v1/demand", "/metrics", "/metrics/prometheus":
		return listClass
	}
	if strings.HasPrefix(one.parameters, "limit") {
		return listClass
	}
	return plainClass
}

// requestClassifier finds the class of a request in the table of routes.
type requestClassifier struct{ mux *http.ServeMux }

func newRequestClassifier() requestClassifier {
	c := requestClassifier{http.NewServeMux()}
	for _, one := range routes() {
		c.mux.Handle(one.request, one.class())
	}
	c.mux.Handle(proxyPattern, sessionClass)
	// An extension, such as Marathon's API.
	c.mux.Handle("/ping", probeClass)
	c.mux.Handle("GET /v2/events", streamClass)
	c.mux.Handle("GET /v2/", bufferedListClass)
	return c
}

// classify returns the class of a request, plainClass for one that no route serves.
func (c requestClassifier) classify(r *http.Request) requestClass {
	h, _ := c.mux.Handler(r)
	class, ok := h.(requestClass)
	if !ok {
		return plainClass // no such route, or a redirect to a clean path
	}
	return class
}

// clientOf returns the user of a request, or its address where the user is not known.
func clientOf(r *http.Request) string {
	return cmp.Or(apihttp.GrantOf(r.Context()).UserName(), "address "+apihttp.ClientNetwork(r.RemoteAddr).String())
}

// limitedResource is a number of places for requests. A request takes its places when it starts and frees them when it
// has ended; one that finds none waits in order of arrival.
type limitedResource struct {
	name string
	// total is the number of places, perClient how many of them one client may have.
	total, perClient int
	// maxWait is how long a request waits for a place, 0 if it does not wait.
	maxWait time.Duration
	usage   LimitObserver

	// mu protects the fields below.
	mu sync.Mutex
	// used counts the places that are taken.
	used int
	// clients are the clients that have or wait for places. Others have no entry.
	clients map[string]*clientUse
	// waiting are the requests that wait for a place, in the order of their arrival.
	waiting []*limitWaiter
}

// clientUse counts the places that one client uses of a resource, and its waiting requests.
type clientUse struct{ used, waiting int }

// limitWaiter is a request that waits. ready is closed when it has its place.
type limitWaiter struct {
	client string
	cost   int
	ready  chan struct{}
}

func newLimitedResource(name string, total, perClient int, maxWait time.Duration, usage LimitObserver) *limitedResource {
	usage.SetAPILimit(name, total)
	return &limitedResource{name: name, total: total, perClient: perClient, maxWait: maxWait, usage: usage, clients: map[string]*clientUse{}}
}

// acquire takes places and returns the function that frees them, or a Problem. Of each client
// as many requests may wait as may be served at a time. It waits for at most maxWait and not beyond
// the end of ctx, without the lock.
func (l *limitedResource) acquire(ctx context.Context, client string, cost int) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	use := l.clients[client]
	if use == nil {
		use = &clientUse{}
		l.clients[client] = use
	}
	release = func() { l.release(client, cost) }
	if l.take(client, cost) { // each of those that wait needs more places than are free for it
		return release, nil
	}
	if l.maxWait == 0 || use.waiting >= l.perClient || len(l.waiting) >= l.total {
		return nil, l.reject(client, cost)
	}
	one := &limitWaiter{client, cost, make(chan struct{})}
	l.waiting = append(l.waiting, one)
	use.waiting++
	l.mu.Unlock()
	timeout := time.NewTimer(l.maxWait)
	defer timeout.Stop()
	select {
	case <-one.ready:
	case <-timeout.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	if i := slices.Index(l.waiting, one); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		use.waiting--
		return nil, l.reject(client, cost)
	}
	return release, nil
}

// take takes places if they are free for the client. The caller holds the lock.
func (l *limitedResource) take(client string, cost int) bool {
	use := l.clients[client]
	if l.used+cost > l.total || use.used+cost > l.perClient {
		return false
	}
	l.used, use.used = l.used+cost, use.used+cost
	l.usage.SetAPIUse(l.name, l.used)
	return true
}

// release frees places and gives them to requests that wait.
func (l *limitedResource) release(client string, cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= cost
	l.clients[client].used -= cost
	l.usage.SetAPIUse(l.name, l.used)
	l.serveWaiting()
	l.forget(client)
}

// serveWaiting gives free places to the requests that have waited longest, except to those of
// clients at their limit.
func (l *limitedResource) serveWaiting() {
	l.waiting = slices.DeleteFunc(l.waiting, func(one *limitWaiter) bool {
		if !l.take(one.client, one.cost) {
			return false
		}
		l.clients[one.client].waiting--
		close(one.ready)
		return true
	})
}

// forget removes a client that uses nothing, so that the table does not grow.
func (l *limitedResource) forget(client string) {
	if use := l.clients[client]; use != nil && *use == (clientUse{}) {
		delete(l.clients, client)
	}
}

// reject returns the Problem of a request that finds no place.
func (l *limitedResource) reject(client string, cost int) error {
	use := *l.clients[client]
	l.forget(client)
	code := map[string]api.ProblemCode{streamsResource: api.CodeTooManyStreams, sessionsResource: api.CodeTooManySessions}[l.name]
	name := cmp.Or(map[string]string{
		anonymousResource: "requests without a token",
		probesResource:    "health checks",
		workdirsResource:  "fetches of working folders",
		sessionsResource:  "commands in containers",
	}[l.name], l.name)
	if use.used+cost > l.perClient || use.waiting >= l.perClient {
		l.usage.CountAPIRejection(l.name, clientScope)
		p := api.NewProblemf(http.StatusTooManyRequests,
			"%d of at most %d %s of this client are open: end some of them, or ask again later", use.used, l.perClient,
			name)
		p.Retryable = true
		return p.WithCode(cmp.Or(code, api.CodeTooManyRequests), "")
	}
	l.usage.CountAPIRejection(l.name, totalScope)
	return api.NewUnavailable("%d of at most %d %s of all clients are open: ask again later", l.used, l.total, name).WithCode(cmp.Or(code, api.CodeOverloaded), "")
}
