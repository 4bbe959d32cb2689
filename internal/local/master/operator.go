package master

import (
	"net/http"
	"strconv"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/mesosapi"
)

func (m *EmbeddedMaster) serveOperator(w http.ResponseWriter, r *http.Request) {
	call := new(operator.Call)
	if err := mesosapi.ReadCall(r, call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	if call.Type == operator.Call_SUBSCRIBE {
		m.serveWatch(w, r)
		return
	}
	var answer *operator.Response
	err := errStopped
	m.withLock(func() {
		if answer, err = m.answerQuery(call); answer == nil && err == nil {
			err = m.applyOperation(call)
		}
	})
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	if answer == nil {
		// Clients that decode every 200 response require the type even for an
		// empty body.
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		return
	}
	mesosapi.WriteResponse(w, r, answer)
}

// answerQuery answers a read-only call. It returns nil for a call that changes
// state.
func (m *EmbeddedMaster) answerQuery(call *operator.Call) (*operator.Response, error) {
	switch call.Type {
	case operator.Call_GET_HEALTH:
		return &operator.Response{Type: operator.Response_GET_HEALTH, GetHealth: &operator.Response_GetHealth{Healthy: true}}, nil
	case operator.Call_GET_VERSION:
		return &operator.Response{Type: operator.Response_GET_VERSION, GetVersion: &operator.Response_GetVersion{
			VersionInfo: mesos.VersionInfo{Version: link.Version},
		}}, nil
	case operator.Call_GET_MASTER:
		return &operator.Response{Type: operator.Response_GET_MASTER, GetMaster: &operator.Response_GetMaster{
			MasterInfo: &m.info, StartTime: unixSeconds(m.started), ElectedTime: unixSeconds(m.started),
		}}, nil
	case operator.Call_GET_FLAGS:
		return &operator.Response{Type: operator.Response_GET_FLAGS, GetFlags: &operator.Response_GetFlags{Flags: m.masterFlags()}}, nil
	case operator.Call_GET_STATE:
		return &operator.Response{Type: operator.Response_GET_STATE, GetState: m.describeState()}, nil
	case operator.Call_GET_AGENTS:
		return &operator.Response{Type: operator.Response_GET_AGENTS, GetAgents: m.describeAgents()}, nil
	case operator.Call_GET_FRAMEWORKS:
		return &operator.Response{Type: operator.Response_GET_FRAMEWORKS, GetFrameworks: m.describeFrameworks()}, nil
	case operator.Call_GET_EXECUTORS:
		return &operator.Response{Type: operator.Response_GET_EXECUTORS, GetExecutors: m.describeExecutors()}, nil
	case operator.Call_GET_TASKS:
		return &operator.Response{Type: operator.Response_GET_TASKS, GetTasks: m.describeTasks()}, nil
	case operator.Call_GET_ROLES:
		return &operator.Response{Type: operator.Response_GET_ROLES, GetRoles: m.describeRoles()}, nil
	case operator.Call_GET_OPERATIONS:
		return &operator.Response{Type: operator.Response_GET_OPERATIONS, GetOperations: &operator.Response_GetOperations{}}, nil
	case operator.Call_GET_MAINTENANCE_SCHEDULE:
		return &operator.Response{Type: operator.Response_GET_MAINTENANCE_SCHEDULE,
			GetMaintenanceSchedule: &operator.Response_GetMaintenanceSchedule{Schedule: m.schedule}}, nil
	case operator.Call_GET_MAINTENANCE_STATUS:
		return &operator.Response{Type: operator.Response_GET_MAINTENANCE_STATUS, GetMaintenanceStatus: m.describeMaintenance()}, nil
	case operator.Call_GET_QUOTA:
		return &operator.Response{Type: operator.Response_GET_QUOTA, GetQuota: m.describeQuota()}, nil
	}
	return nil, nil
}

// applyOperation executes a call that changes state.
func (m *EmbeddedMaster) applyOperation(call *operator.Call) error {
	switch call.Type {
	case operator.Call_DRAIN_AGENT:
		return m.drainAgent(call.GetDrainAgent())
	case operator.Call_DEACTIVATE_AGENT:
		return m.deactivateAgent(call.GetDeactivateAgent().GetAgentID())
	case operator.Call_REACTIVATE_AGENT:
		return m.reactivateAgent(call.GetReactivateAgent().GetAgentID())
	case operator.Call_MARK_AGENT_GONE:
		return m.markGone(call.GetMarkAgentGone().GetAgentID())
	case operator.Call_UPDATE_MAINTENANCE_SCHEDULE:
		return m.planMaintenance(call.GetUpdateMaintenanceSchedule())
	case operator.Call_UPDATE_QUOTA:
		return m.updateQuota(call.GetUpdateQuota())
	case operator.Call_TEARDOWN:
		return m.teardownFramework(call.GetTeardown().GetFrameworkID())
	}
	return mesosapi.Errorf(http.StatusNotImplemented, "calls of type %v are not implemented by this embedded master", call.Type)
}

func (m *EmbeddedMaster) teardownFramework(id mesos.FrameworkID) error {
	f := m.frameworks[id.Value]
	if f == nil {
		return mesosapi.Errorf(http.StatusBadRequest, "no framework found with ID %q", id.Value)
	}
	m.removeFramework(f)
	return nil
}

// masterFlags returns the flags of an equivalent Apache Mesos master.
func (m *EmbeddedMaster) masterFlags() []mesos.Flag {
	_, port := hostPort(m.cfg.Addr)
	flag := func(name, value string) mesos.Flag { return mesos.Flag{Name: name, Value: proto.String(value)} }
	return []mesos.Flag{
		flag("allocation_interval", m.cfg.AllocationInterval.String()),
		flag("filter_gpu_resources", "true"),
		flag("heartbeat_interval", m.cfg.HeartbeatInterval.String()),
		flag("hostname", m.info.GetHostname()),
		flag("port", strconv.Itoa(port)),
		flag("registry", "in_memory"),
	}
}
