package master

import (
	"net/http"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/internal/mesosapi"
)

// serveOperator serves the part of the operator API that the scheduler and its
// tests use.
func (m *EmbeddedMaster) serveOperator(w http.ResponseWriter, r *http.Request) {
	call := new(operator.Call)
	if err := mesosapi.ReadCall(r, call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	answer, err := (*operator.Response)(nil), errStopped
	m.withLock(func() { answer, err = m.answerOperator(call) })
	switch {
	case err != nil:
		mesosapi.WriteError(w, err)
	case answer != nil:
		mesosapi.WriteResponse(w, r, answer)
	default:
		// Clients that decode every 200 response require the type even for an
		// empty body.
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	}
}

// answerOperator executes a call. The answer to a call that changes state is nil.
func (m *EmbeddedMaster) answerOperator(call *operator.Call) (*operator.Response, error) {
	switch call.Type {
	case operator.Call_GET_HEALTH:
		return &operator.Response{Type: operator.Response_GET_HEALTH, GetHealth: &operator.Response_GetHealth{Healthy: true}}, nil
	case operator.Call_GET_AGENTS:
		return &operator.Response{Type: operator.Response_GET_AGENTS, GetAgents: m.describeAgents()}, nil
	case operator.Call_GET_FRAMEWORKS:
		return &operator.Response{Type: operator.Response_GET_FRAMEWORKS, GetFrameworks: m.describeFrameworks()}, nil
	case operator.Call_GET_TASKS:
		return &operator.Response{Type: operator.Response_GET_TASKS, GetTasks: m.describeTasks()}, nil
	case operator.Call_DRAIN_AGENT:
		return nil, m.drainAgent(call.GetDrainAgent())
	case operator.Call_UPDATE_MAINTENANCE_SCHEDULE:
		return nil, m.planMaintenance(call.GetUpdateMaintenanceSchedule())
	case operator.Call_UPDATE_QUOTA:
		return nil, m.updateQuota(call.GetUpdateQuota())
	case operator.Call_GET_WEIGHTS:
		return &operator.Response{Type: operator.Response_GET_WEIGHTS, GetWeights: m.describeWeights()}, nil
	case operator.Call_UPDATE_WEIGHTS:
		return nil, m.updateWeights(call.GetUpdateWeights().GetWeightInfos())
	case operator.Call_TEARDOWN:
		return nil, m.teardownFramework(call.GetTeardown().GetFrameworkID())
	}
	return nil, mesosapi.Errorf(http.StatusNotImplemented, "calls of type %v are not implemented by this embedded master", call.Type)
}

func (m *EmbeddedMaster) teardownFramework(id mesos.FrameworkID) error {
	f := m.frameworks[id.Value]
	if f == nil {
		return mesosapi.Errorf(http.StatusBadRequest, "no framework found with ID %q", id.Value)
	}
	m.removeFramework(f)
	return nil
}
