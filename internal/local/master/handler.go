package master

import (
	"net/http"

	"github.com/google/uuid"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master/check"
	"mesos-gpu/internal/mesosapi"
)

func (m *EmbeddedMaster) newRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/master"} {
		mux.HandleFunc(prefix+"/api/v1/scheduler", m.serveScheduler)
		mux.HandleFunc(prefix+"/api/v1", m.serveOperator)
		mux.HandleFunc(prefix+"/roles", m.serveRoles)
		mux.HandleFunc(prefix+"/redirect", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "//"+m.cfg.Addr)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		mux.HandleFunc(prefix+"/health", func(http.ResponseWriter, *http.Request) {})
	}
	return mux
}

func (m *EmbeddedMaster) serveScheduler(w http.ResponseWriter, r *http.Request) {
	call := new(scheduler.Call)
	if err := mesosapi.ReadCall(r, call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	if err := check.ValidateCall(call); err != nil {
		mesosapi.WriteError(w, mesosapi.Errorf(http.StatusBadRequest, "validate scheduler call: %v", err))
		return
	}
	if call.Type == scheduler.Call_SUBSCRIBE {
		m.serveSubscription(w, r, call)
		return
	}
	status, err := m.handleCall(call, r.Header.Get(mesosapi.HeaderStreamID))
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	if status == http.StatusOK {
		// Clients that decode every 200 response require the type even for an
		// empty body.
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	}
	w.WriteHeader(status)
}

func (m *EmbeddedMaster) serveSubscription(w http.ResponseWriter, r *http.Request, call *scheduler.Call) {
	if r.Header.Get(mesosapi.HeaderStreamID) != "" {
		mesosapi.WriteError(w, mesosapi.Errorf(http.StatusBadRequest, "subscribe calls should not include the '%s' header", mesosapi.HeaderStreamID))
		return
	}
	stream, err := mesosapi.NewStream(r)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	streamID := uuid.NewString()
	id, err := m.subscribeFramework(call.Subscribe, stream, streamID)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	err = stream.Serve(r.Context(), w, streamID)
	m.withLock(func() { m.disconnectFramework(id, stream, err) })
}

// handleCall executes one call of a subscribed framework and returns the
// response's status code.
func (m *EmbeddedMaster) handleCall(call *scheduler.Call, streamID string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.frameworks[call.FrameworkID.Value]
	switch {
	case m.closed:
		return 0, errStopped
	case f == nil:
		return 0, mesosapi.Errorf(http.StatusBadRequest, "Framework cannot be found")
	case f.stream == nil:
		return 0, mesosapi.Errorf(http.StatusForbidden, "Framework is not subscribed")
	case streamID == "":
		return 0, mesosapi.Errorf(http.StatusBadRequest, "all non-subscribe calls should include the '%s' header", mesosapi.HeaderStreamID)
	case streamID != f.streamID:
		return 0, mesosapi.Errorf(http.StatusBadRequest,
			"the stream ID %q in this request didn't match the stream ID currently associated with framework ID %s", streamID, f.id())
	}
	return m.dispatchCall(f, call)
}
