package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/mesosapi"
)

// serveInput serves ATTACH_CONTAINER_INPUT, a streamed call with a session's
// input and terminal size. It ends with the request body or with the session.
func (a *EmbeddedAgent) serveInput(w http.ResponseWriter, r *http.Request) {
	// Responses may precede the end of the request body.
	_ = http.NewResponseController(w).EnableFullDuplex() // a test's recorder has no connection
	w.Header().Set("Connection", "close")
	n, calls, err := a.readAttachCall(r)
	if err != nil {
		mesosapi.WriteError(w, withStatus(err))
		return
	}
	defer a.loop.post(func() { n.console.attached = false })
	interrupted := make(chan struct{})
	stop := context.AfterFunc(n.done, func() {
		defer close(interrupted)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // a test's recorder knows none
	})
	err = n.console.copyInput(calls)
	if !stop() {
		<-interrupted // w is not used after this function returns
		err = nil     // the session has ended; ignore the remaining input
	}
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// readAttachCall reads the first message, which identifies the session.
func (a *EmbeddedAgent) readAttachCall(r *http.Request) (*nestedContainer, *mesosapi.CallReader, error) {
	calls, err := mesosapi.NewCalls(r)
	if err != nil {
		return nil, nil, err
	}
	var call agent.Call
	if err := calls.Next(&call); err != nil {
		return nil, nil, mesosapi.Errorf(http.StatusBadRequest, "read the first call: %v", err)
	}
	in := call.AttachContainerInput
	switch {
	case call.Type != agent.Call_ATTACH_CONTAINER_INPUT:
		return nil, nil, mesosapi.Errorf(http.StatusUnsupportedMediaType, "streaming 'Content-Type' %s is not supported for %v call", mesosapi.RecordIO, call.Type)
	case in == nil:
		return nil, nil, missingField("attach_container_input")
	case in.Type != agent.Call_AttachContainerInput_CONTAINER_ID || in.ContainerID == nil:
		return nil, nil, mesosapi.Errorf(http.StatusBadRequest, "expecting 'attach_container_input.type' to be CONTAINER_ID")
	}
	n, err := a.findNested(r.Context(), *in.ContainerID)
	if err != nil {
		return nil, nil, err
	}
	if err := a.claimInput(r.Context(), n); err != nil {
		return nil, nil, err
	}
	return n, calls, nil
}

// claimInput ensures that only one client at a time sends input to a session.
func (a *EmbeddedAgent) claimInput(ctx context.Context, n *nestedContainer) error {
	return doOnLoop(ctx, a.loop, func() error {
		switch {
		case n.console == nil:
			return errors.New("I/O switchboard server was disabled for this container")
		case n.over:
			return mesosapi.Errorf(http.StatusNotFound, "container %s has ended", n.containerName())
		case n.console.attached:
			return mesosapi.Errorf(http.StatusConflict, "multiple input connections are not allowed")
		}
		n.console.attached = true
		return nil
	})
}

// copyInput forwards messages to the command until the last one.
func (c *sessionConsole) copyInput(calls *mesosapi.CallReader) error {
	for {
		var call agent.Call
		switch err := calls.Next(&call); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := c.applyInput(call.AttachContainerInput.GetProcessIO()); err != nil {
			return err
		}
	}
}

// applyInput applies one message. Input that the command does not read is lost.
func (c *sessionConsole) applyInput(m *agent.ProcessIO) error {
	switch {
	case m.GetType() == agent.ProcessIO_CONTROL && m.Control.GetType() == agent.ProcessIO_Control_HEARTBEAT:
		return nil
	case m.GetType() == agent.ProcessIO_CONTROL && m.Control.GetTTYInfo().GetWindowSize() != nil:
		if err := c.resizeTerminal(m.Control.TTYInfo.WindowSize); err != nil {
			return fmt.Errorf("unable to set the window size: %w", err)
		}
		return nil
	case m.GetType() != agent.ProcessIO_DATA || m.Data.GetType() != agent.ProcessIO_Data_STDIN:
		return errors.New("expecting 'process_io' to be DATA of STDIN, a heartbeat or a window size")
	case len(m.Data.Data) == 0 && !c.terminal:
		_ = c.stdin.Close() // the command reads end of file
		return nil
	}
	_, _ = c.stdin.Write(m.Data.Data)
	return nil
}
