package agent

import (
	"context"
	"errors"
	"net/http"

	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/local/agent/files"
	"mesos-gpu/internal/mesosapi"
)

// serveOperator serves the part of the v1 operator API that the scheduler, the
// executor and the daemon use.
func (a *EmbeddedAgent) serveOperator(w http.ResponseWriter, r *http.Request) {
	if mesosapi.IsCallStream(r) {
		a.serveInput(w, r)
		return
	}
	var call agent.Call
	if err := mesosapi.ReadCall(r, &call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	switch call.Type {
	case agent.Call_LAUNCH_NESTED_CONTAINER_SESSION:
		a.serveSession(w, r, call.LaunchNestedContainerSession)
		return
	case agent.Call_ATTACH_CONTAINER_INPUT:
		mesosapi.WriteError(w, mesosapi.Errorf(http.StatusUnsupportedMediaType, "expecting 'Content-Type' to be %s for %v call", mesosapi.RecordIO, call.Type))
		return
	}
	status := http.StatusOK
	response, err := a.answerQuery(r.Context(), &call)
	if response == nil && err == nil {
		response, status, err = a.callContainer(r.Context(), &call)
	}
	switch {
	case err != nil:
		mesosapi.WriteError(w, withStatus(err))
	case response != nil:
		mesosapi.WriteResponse(w, r, response)
	default:
		w.WriteHeader(status)
	}
}

// callContainer executes a call for one nested container. A nil response means
// an empty body with the returned status.
func (a *EmbeddedAgent) callContainer(ctx context.Context, call *agent.Call) (response *agent.Response, status int, err error) {
	switch call.Type {
	case agent.Call_LAUNCH_NESTED_CONTAINER:
		if c := call.LaunchNestedContainer; c != nil {
			status, err = a.launchCall(ctx, c.ContainerID, nestedLaunch{command: c.Command, info: c.Container})
			return nil, status, err
		}
		return nil, 0, missingField("launch_nested_container")
	case agent.Call_WAIT_NESTED_CONTAINER:
		if c := call.WaitNestedContainer; c != nil {
			ended, err := a.waitNested(ctx, c.ContainerID)
			return &agent.Response{Type: agent.Response_WAIT_NESTED_CONTAINER, WaitNestedContainer: ended}, 0, err
		}
		return nil, 0, missingField("wait_nested_container")
	case agent.Call_KILL_NESTED_CONTAINER:
		if c := call.KillNestedContainer; c != nil {
			return nil, http.StatusOK, a.killNested(ctx, c.ContainerID, c.Signal)
		}
		return nil, 0, missingField("kill_nested_container")
	case agent.Call_REMOVE_NESTED_CONTAINER:
		if c := call.RemoveNestedContainer; c != nil {
			return nil, http.StatusOK, a.removeNested(ctx, c.ContainerID)
		}
		return nil, 0, missingField("remove_nested_container")
	}
	return nil, 0, mesosapi.Errorf(http.StatusNotImplemented, "call %v is not implemented", call.Type)
}

// withStatus adds to an error the status code that Mesos's agents return.
func withStatus(err error) error {
	var already *mesosapi.StatusError
	switch {
	case errors.As(err, &already):
		return already
	case errors.Is(err, files.ErrNotFound):
		return mesosapi.Errorf(http.StatusNotFound, "%v", err)
	case errors.Is(err, files.ErrInvalid):
		return mesosapi.Errorf(http.StatusBadRequest, "%v", err)
	}
	return mesosapi.Errorf(http.StatusInternalServerError, "%v", err)
}

func missingField(field string) error {
	return mesosapi.Errorf(http.StatusBadRequest, "expecting '%s' to be present", field)
}
