package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"mesos-gpu/internal/writedeadline"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/watch"
)

// APIVersion is the version of the daemon's API: the first part of its paths. The module
// of Mesos agents states the version that it uses.
const APIVersion = "v1"

// callHandler answers a request with a value for JSON, or an error.
type callHandler func(*http.Request) (any, error)

// statusError is an error with its HTTP status.
type statusError struct {
	code int
	err  error
}

func (s *statusError) Error() string { return s.err.Error() }
func (s *statusError) Unwrap() error { return s.err }

func (s *Server) newHandler() http.Handler {
	mux := http.NewServeMux()
	get, post := http.MethodGet, http.MethodPost
	for _, r := range []struct {
		method, path string
		call         callHandler
	}{
		{post, "/v1/recover", withBody(s.handleRecover)},
		{post, "/v1/prepare", withBody(s.cfg.Containers.Prepare)},
		{post, "/v1/isolate", withBody(s.handleIsolate)},
		{post, "/v1/update", withBody(s.handleUpdate)},
		{post, "/v1/cleanup", withBody(s.handleCleanup)},
		{get, "/v1/usage", s.handleUsage},
		{get, "/v1/status", s.handleStatus},
		{get, "/v1/share", onSocketOnly(s.handleShare)},
		{get, "/v1/version", s.handleVersion},
		{get, "/v1/containers", s.handleContainers},
		{get, "/v1/devices", s.handleDevices},
		{get, "/v1/history", s.handleHistory},
		{get, "/v1/mig", s.handleListMIG},
		{post, "/v1/devices/{uuid}/cordon", s.handleCordon},
		{post, "/v1/devices/{uuid}/uncordon", s.handleUncordon},
		{post, "/v1/devices/{uuid}/share", s.handleSetShared(true)},
		{post, "/v1/devices/{uuid}/unshare", s.handleSetShared(false)},
		{post, "/v1/devices/{uuid}/mig", s.handleSetLayout},
	} {
		mux.HandleFunc(r.path, s.allowMethod(r.method, func(w http.ResponseWriter, req *http.Request) { s.handleCall(w, req, r.call) }))
	}
	if s.cfg.Claims != nil {
		mux.HandleFunc("/v1/claim", s.requireMethod(post, func(w http.ResponseWriter, req *http.Request) { s.handleCall(w, req, s.handleClaim) }))
	}
	mux.HandleFunc("/v1/conditions", s.allowMethod(get, s.limitConcurrency(maxConditionStreams, s.streamConditions)))
	mux.HandleFunc("/metrics", s.allowMethod(get, s.cfg.Metrics.ServeHTTP))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.writeError(w, &statusError{http.StatusNotFound, fmt.Errorf("no such path; see docs/reference/agent-api.md")})
	})
	return s.recoverPanics(mux)
}

// requireMethod rejects other methods.
func (s *Server) requireMethod(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead) {
			w.Header().Set("Allow", method)
			s.writeError(w, &statusError{http.StatusMethodNotAllowed, fmt.Errorf("%s wants %s", r.URL.Path, method)})
			return
		}
		next(w, r)
	}
}

// allowMethod rejects other methods, and rejects changes by peers that may
// only read.
func (s *Server) allowMethod(method string, next http.HandlerFunc) http.HandlerFunc {
	return s.requireMethod(method, func(w http.ResponseWriter, r *http.Request) {
		if method != http.MethodGet {
			if err := checkMayChange(r); err != nil {
				s.writeError(w, err)
				return
			}
		}
		next(w, r)
	})
}

// checkMayChange returns an error for peers that may only read.
func checkMayChange(r *http.Request) error {
	refusal := "the caller is unknown"
	if p, ok := r.Context().Value(peerKey{}).(*peerConn); ok {
		refusal = p.denialReason
	}
	if refusal == "" {
		return nil
	}
	return &statusError{http.StatusForbidden, errors.New(refusal)}
}

// onSocketOnly rejects a call over TCP, where every client of the network could make it.
func onSocketOnly(call callHandler) callHandler {
	return func(r *http.Request) (any, error) {
		if _, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
			return nil, &statusError{http.StatusForbidden, fmt.Errorf("%s is not answered here: use the unix socket", r.URL.Path)}
		}
		return call(r)
	}
}

// limitConcurrency answers at most n requests at the same time.
func (s *Server) limitConcurrency(n int, next http.HandlerFunc) http.HandlerFunc {
	free := make(chan struct{}, n)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			next(w, r)
		default:
			s.writeError(w, &statusError{http.StatusServiceUnavailable, fmt.Errorf("%d such requests are served already, try again", n)})
		}
	}
}

// recoverPanics turns a panic into an error answer: one faulty call must not
// end the daemon, which manages all other containers. Slow readers cannot
// block an answer for long.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		w := writedeadline.DeadlineWriter{ResponseWriter: plain, Patience: s.ioTimeout}
		w.ExtendDeadline()
		defer func() {
			if p := recover(); p != nil {
				s.cfg.Log.WithField("path", r.URL.Path).WithField("panic", fmt.Sprint(p)).Error("agent API call panicked")
				s.writeError(w, errors.New("internal error, see the daemon's log"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) handleCall(w http.ResponseWriter, r *http.Request, c callHandler) {
	if err := s.readBody(w, r); err != nil {
		s.writeError(w, err)
		return
	}
	v, err := c(r)
	if err != nil {
		s.writeError(w, err)
		return
	}
	s.writeJSON(w, http.StatusOK, v)
}

func (s *Server) writeError(w http.ResponseWriter, err error) {
	answer := errorResponse{Error: err.Error()}
	if held := (*containers.DeviceHeldError)(nil); errors.As(err, &held) {
		answer.Device, answer.Holders = held.Device, held.Holders
	}
	s.writeJSON(w, statusCodeOf(err), answer)
}

func statusCodeOf(err error) int {
	var (
		withStatus *statusError
		invalid    *containers.InvalidContainerError
		unknown    *containers.UnknownContainerError
		image      *containers.ImageError
		refused    *allocation.RejectedError
	)
	switch {
	case errors.As(err, &withStatus):
		return withStatus.code
	case errors.As(err, &invalid):
		return http.StatusBadRequest
	case errors.As(err, &unknown), errors.Is(err, watch.ErrUnknownDevice), errors.Is(err, share.ErrUnknownDevice), errors.Is(err, mig.ErrUnknownGPU):
		return http.StatusNotFound
	case errors.As(err, &refused), errors.Is(err, share.ErrStatic), errors.Is(err, share.ErrNoLimiter), errors.Is(err, mig.ErrLayoutRejected):
		return http.StatusConflict
	case errors.As(err, &image):
		return http.StatusUnprocessableEntity // not 409, which the module retries while devices are being released
	default:
		return http.StatusInternalServerError
	}
}

func (s *Server) writeJSON(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(text, '\n')) // a disconnected client misses it
}

// readBody reads the whole body before the call starts, so that slow clients
// time out first. GET requests have no body.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &statusError{http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBodyBytes)}
	case err != nil:
		return &statusError{http.StatusBadRequest, fmt.Errorf("read the body: %w", err)}
	}
	// The read deadline must not end a long call.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// withBody returns a handler that parses the body of a request and calls f with it.
func withBody[Body, Answer any](f func(context.Context, Body) (Answer, error)) callHandler {
	return func(r *http.Request) (any, error) {
		b, err := decodeBody[Body](r)
		if err != nil {
			return nil, err
		}
		return f(r.Context(), b)
	}
}

// decodeBody parses the whole body of a request.
func decodeBody[T any](r *http.Request) (T, error) {
	var v T
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		return v, &statusError{http.StatusBadRequest, fmt.Errorf("read the body of %d bytes as JSON: %w", len(text), err)}
	}
	return v, nil
}
