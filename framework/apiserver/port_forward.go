package apiserver

import (
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/internal/execwire"
)

// handlePortForward connects a client to a port of a running task, over a WebSocket. It
// requires the same permission as handleExec, because a program may give access to all of its task.
func (s *apiServer) handlePortForward(w http.ResponseWriter, r *http.Request) error {
	if err := checkSameOrigin(r); err != nil {
		return err
	}
	leader, spec, task, err := s.findExecTarget(r.Context(), r.PathValue(runOfPath), r.PathValue("task"))
	if err != nil {
		return err
	}
	port := r.URL.Query().Get("port")
	if _, err := spec.ConnectAddresses(&task, port); err != nil {
		return api.NewProblemf(http.StatusConflict, "%v", err)
	}
	note := apihttp.AuditNoteOf(r.Context())
	note.Job, note.Task = task.Job, task.ID
	if r.Header.Get("Upgrade") == "" {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		return api.NewProblemf(http.StatusUpgradeRequired, "a port is forwarded over a WebSocket")
	}
	upstream, err := leader.Streams.OpenPort(r.Context(), task.RunID().String(), task.Index, port)
	if err != nil {
		return err
	}
	defer upstream.Close()
	handshake := &handshakeRecorder{ResponseWriter: w}
	conn, err := websocket.Accept(handshake, r, nil)
	if handshake.status != 0 {
		return api.NewProblemf(handshake.status, "%s", strings.TrimSpace(handshake.message.String()))
	}
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	defer leader.Streams.TrackConnection(task.RunID().String())()
	if execwire.Relay(r.Context(), conn, upstream) == nil {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
	return nil
}
