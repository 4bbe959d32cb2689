package socket

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"mesos-gpu/internal/patient"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/watch"
)

// call answers a request with a value for JSON, or an error.
type call func(*http.Request) (any, error)

// status is an error with the status it is told by.
type status struct {
	code int
	err  error
}

func (s *status) Error() string { return s.err.Error() }
func (s *status) Unwrap() error { return s.err }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	get, post := http.MethodGet, http.MethodPost
	for _, r := range []struct {
		method, path string
		call         call
	}{
		{post, "/v1/recover", s.recover},
		{post, "/v1/prepare", s.prepare},
		{post, "/v1/isolate", s.isolate},
		{post, "/v1/update", s.update},
		{post, "/v1/cleanup", s.cleanup},
		{get, "/v1/usage", s.usage},
		{get, "/v1/status", s.status},
		{get, "/v1/share", s.share},
		{get, "/v1/version", s.version},
		{get, "/v1/containers", s.containers},
		{get, "/v1/devices", s.devices},
		{get, "/v1/history", s.history},
		{get, "/v1/mig", s.gpusInMIGMode},
		{post, "/v1/devices/{uuid}/cordon", s.cordon},
		{post, "/v1/devices/{uuid}/uncordon", s.uncordon},
		{post, "/v1/devices/{uuid}/share", s.setShared(true)},
		{post, "/v1/devices/{uuid}/unshare", s.setShared(false)},
		{post, "/v1/devices/{uuid}/mig", s.cut},
	} {
		mux.HandleFunc(r.path, s.only(r.method, func(w http.ResponseWriter, req *http.Request) { s.answer(w, req, r.call) }))
	}
	mux.HandleFunc("/v1/conditions", s.only(get, s.atMost(maxStreams, s.conditions)))
	mux.HandleFunc("/metrics", s.only(get, s.cfg.Metrics.ServeHTTP))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, &status{http.StatusNotFound, fmt.Errorf("no such path; see docs/isolator-api.md")})
	})
	return s.calm(mux)
}

// only lets one method through, and one that changes things from those alone
// who may.
func (s *Server) only(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead) {
			w.Header().Set("Allow", method)
			s.refuse(w, &status{http.StatusMethodNotAllowed, fmt.Errorf("%s wants %s", r.URL.Path, method)})
			return
		}
		if method != http.MethodGet {
			if err := may(r); err != nil {
				s.refuse(w, err)
				return
			}
		}
		next(w, r)
	}
}

// may is an error for those who may only ask.
func may(r *http.Request) error {
	refusal := "nobody knows who calls"
	if p, ok := r.Context().Value(peerKey{}).(*peer); ok {
		refusal = p.refusal
	}
	if refusal == "" {
		return nil
	}
	return &status{http.StatusForbidden, errors.New(refusal)}
}

// atMost answers so many requests at a time.
func (s *Server) atMost(n int, next http.HandlerFunc) http.HandlerFunc {
	free := make(chan struct{}, n)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			next(w, r)
		default:
			s.refuse(w, &status{http.StatusServiceUnavailable, fmt.Errorf("%d others are served so already, try again", n)})
		}
	}
}

// calm turns a panic into an answer: one bad call must not end the daemon's
// care for all other containers. No reader holds up an answer for long.
func (s *Server) calm(next http.Handler) http.Handler {
	return http.HandlerFunc(func(plain http.ResponseWriter, r *http.Request) {
		w := patient.Writer{ResponseWriter: plain, Patience: s.patience}
		w.Begin()
		defer func() {
			if p := recover(); p != nil {
				s.cfg.Log.WithField("path", r.URL.Path).WithField("panic", fmt.Sprint(p)).Error("agent API call panicked")
				s.refuse(w, errors.New("the daemon has a fault, see its log"))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, c call) {
	if err := s.takeBody(w, r); err != nil {
		s.refuse(w, err)
		return
	}
	v, err := c(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	s.write(w, http.StatusOK, v)
}

func (s *Server) refuse(w http.ResponseWriter, err error) {
	s.write(w, codeOf(err), failure{err.Error()})
}

func codeOf(err error) int {
	var (
		told    *status
		invalid *containers.Invalid
		unknown *containers.Unknown
		refused *ledger.Refusal
	)
	switch {
	case errors.As(err, &told):
		return told.code
	case errors.As(err, &invalid):
		return http.StatusBadRequest
	case errors.As(err, &unknown), errors.Is(err, watch.ErrUnknown), errors.Is(err, share.ErrUnknown), errors.Is(err, mig.ErrUnknown):
		return http.StatusNotFound
	case errors.As(err, &refused), errors.Is(err, share.ErrStatic), errors.Is(err, share.ErrUnheld), errors.Is(err, mig.ErrRefused):
		return http.StatusConflict
	default:
		return http.StatusInternalServerError
	}
}

func (s *Server) write(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(text, '\n')) // a client that has gone misses it
}

// takeBody reads the whole body, so that a slow client has its end before the
// call begins. Calls that only ask have none.
func (s *Server) takeBody(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return nil
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &status{http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody)}
	case err != nil:
		return &status{http.StatusBadRequest, fmt.Errorf("read the body: %w", err)}
	}
	// The deadline of reading must not end a call that takes its time.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// read parses a request's whole body.
func read[T any](r *http.Request) (T, error) {
	var v T
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		return v, &status{http.StatusBadRequest, fmt.Errorf("read the body of %d bytes as JSON: %w", len(text), err)}
	}
	return v, nil
}
