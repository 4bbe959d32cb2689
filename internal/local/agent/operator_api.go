package agent

import (
	"context"
	"errors"
	"net/http"

	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/local/agent/files"
	"mesos-gpu/internal/mesosapi"
)

// operatorCall handles one type of operator call. A nil response means an empty
// body with the returned status, or 200.
type operatorCall func(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error)

// operatorCalls returns the handlers of the supported calls.
func operatorCalls() map[agent.Call_Type]operatorCall {
	return map[agent.Call_Type]operatorCall{
		agent.Call_GET_HEALTH:              getHealth,
		agent.Call_GET_VERSION:             getVersion,
		agent.Call_GET_FLAGS:               getFlags,
		agent.Call_GET_AGENT:               getAgent,
		agent.Call_GET_CONTAINERS:          getContainers,
		agent.Call_GET_TASKS:               getTasks,
		agent.Call_GET_EXECUTORS:           getExecutors,
		agent.Call_GET_FRAMEWORKS:          getFrameworks,
		agent.Call_GET_STATE:               getState,
		agent.Call_GET_OPERATIONS:          getOperations,
		agent.Call_GET_RESOURCE_PROVIDERS:  getResourceProviders,
		agent.Call_LIST_FILES:              listFiles,
		agent.Call_READ_FILE:               readFile,
		agent.Call_LAUNCH_NESTED_CONTAINER: launchNestedContainer, agent.Call_LAUNCH_CONTAINER: launchContainer,
		agent.Call_WAIT_NESTED_CONTAINER: waitNestedContainer, agent.Call_WAIT_CONTAINER: waitContainer,
		agent.Call_KILL_NESTED_CONTAINER: killNestedContainer, agent.Call_KILL_CONTAINER: killContainer,
		agent.Call_REMOVE_NESTED_CONTAINER: removeNestedContainer, agent.Call_REMOVE_CONTAINER: removeContainer,
	}
}

// serveOperator serves the v1 operator API.
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
	serve, ok := operatorCalls()[call.Type]
	if !ok {
		mesosapi.WriteError(w, mesosapi.Errorf(http.StatusNotImplemented, "call %v is not implemented", call.Type))
		return
	}
	response, status, err := serve(a, r.Context(), &call)
	switch {
	case err != nil:
		mesosapi.WriteError(w, withStatus(err))
	case response != nil:
		mesosapi.WriteResponse(w, r, response)
	case status != 0:
		w.WriteHeader(status)
	}
}

// withStatus adds to an error the status code that Mesos's agents return.
func withStatus(err error) error {
	var already *mesosapi.StatusError
	switch {
	case errors.As(err, &already):
		return already
	case errors.Is(err, errStopped):
		return mesosapi.Errorf(http.StatusServiceUnavailable, "%v", err)
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
