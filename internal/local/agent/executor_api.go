package agent

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/internal/mesosapi"
)

// serveExecutor serves the v1 executor API.
func (a *EmbeddedAgent) serveExecutor(w http.ResponseWriter, r *http.Request) {
	var call executor.Call
	if err := mesosapi.ReadCall(r, &call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	if err := checkCall(&call); err != nil {
		mesosapi.WriteError(w, mesosapi.Errorf(http.StatusBadRequest, "validate executor call: %v", err))
		return
	}
	switch call.Type {
	case executor.Call_SUBSCRIBE:
		a.serveSubscription(w, r, &call)
		return
	case executor.Call_HEARTBEAT:
	default:
		if err := doOnLoop(r.Context(), a.loop, func() error { return a.executorCall(&call) }); err != nil {
			mesosapi.WriteError(w, err)
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// checkCall rejects the calls that Mesos's agents reject.
func checkCall(call *executor.Call) error {
	switch call.Type {
	case executor.Call_SUBSCRIBE:
		if call.Subscribe == nil {
			return fmt.Errorf("expecting 'subscribe' to be present")
		}
		for _, u := range call.Subscribe.UnacknowledgedUpdates {
			if err := checkStatus(call.ExecutorID, &u.Status); err != nil {
				return fmt.Errorf("unacknowledged update: %w", err)
			}
		}
	case executor.Call_UPDATE:
		if call.Update == nil {
			return fmt.Errorf("expecting 'update' to be present")
		}
		return checkStatus(call.ExecutorID, &call.Update.Status)
	case executor.Call_HEARTBEAT:
	default:
		return fmt.Errorf("call type %v is unknown", call.Type)
	}
	return nil
}

func checkStatus(id mesos.ExecutorID, s *mesos.TaskStatus) error {
	switch _, err := uuid.FromBytes(s.UUID); {
	case len(s.UUID) == 0:
		return fmt.Errorf("expecting 'uuid' to be present")
	case err != nil:
		return fmt.Errorf("uuid has %d bytes, want 16", len(s.UUID))
	case s.State == nil:
		return fmt.Errorf("expecting 'state' to be present")
	case s.ExecutorID != nil && s.ExecutorID.Value != id.Value:
		return fmt.Errorf("executor id %s of the call is not that of its status, %s", id.Value, s.ExecutorID.Value)
	case s.Source == nil || *s.Source != mesos.SOURCE_EXECUTOR:
		return fmt.Errorf("status of executor %s has another source than SOURCE_EXECUTOR", id.Value)
	case *s.State == mesos.TASK_STAGING:
		return fmt.Errorf("status of executor %s is TASK_STAGING, which is not allowed", id.Value)
	}
	return nil
}

// findCaller returns the executor that makes the call.
func (a *EmbeddedAgent) findCaller(call *executor.Call) (*executorState, error) {
	f := a.frameworks[call.FrameworkID.Value]
	if f == nil {
		return nil, mesosapi.Errorf(http.StatusBadRequest, "framework %s cannot be found", call.FrameworkID.Value)
	}
	e := f.executors[call.ExecutorID.Value]
	if e == nil {
		return nil, mesosapi.Errorf(http.StatusBadRequest, "executor %s cannot be found", call.ExecutorID.Value)
	}
	return e, nil
}

// executorCall handles a call of a subscribed executor. An executor that is
// shutting down can still report terminal statuses.
func (a *EmbeddedAgent) executorCall(call *executor.Call) error {
	e, err := a.findCaller(call)
	if err != nil {
		return err
	}
	if e.phase == starting {
		return mesosapi.Errorf(http.StatusForbidden, "executor %s is not subscribed", e.id())
	}
	a.executorStatus(e, call.Update.Status)
	return nil
}

// serveSubscription serves an executor's event stream until either side closes
// it.
func (a *EmbeddedAgent) serveSubscription(w http.ResponseWriter, r *http.Request, call *executor.Call) {
	stream, err := mesosapi.NewStream(r)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	e, err := askLoop(r.Context(), a.loop, func() (*executorState, error) {
		e, err := a.findCaller(call)
		if err == nil {
			a.subscribeExecutor(e, stream, call.Subscribe)
		}
		return e, err
	})
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	cause := stream.Serve(r.Context(), w, "")
	a.loop.post(func() {
		if e.stream == stream {
			e.stream = nil
			a.cfg.Log.WithFields(e.logFields()).WithField("cause", cause).Info("executor disconnected")
		}
	})
}

// subscribeExecutor connects an executor for the first time or after a
// reconnect.
func (a *EmbeddedAgent) subscribeExecutor(e *executorState, stream *mesosapi.EventStream, s *executor.Call_Subscribe) {
	if e.phase >= ending {
		stream.Send(&executor.Event{Type: executor.Event_SHUTDOWN})
		stream.Close()
		return
	}
	if e.stream != nil {
		e.stream.Close()
	}
	e.stream, e.phase = stream, running
	a.cfg.Log.WithFields(e.logFields()).Info("executor subscribed")
	e.sendEvent(&executor.Event{Type: executor.Event_SUBSCRIBED, Subscribed: &executor.Event_Subscribed{
		ExecutorInfo: e.info, FrameworkInfo: e.framework.info, AgentInfo: a.info, ContainerID: new(e.containerID()),
	}})
	for _, u := range s.UnacknowledgedUpdates {
		a.executorStatus(e, u.Status)
	}
	e.markUnknownTasks(s.UnacknowledgedTasks)
	a.deliverTasks(e)
	a.shutdownUnused(e)
}

// markUnknownTasks marks for redelivery the tasks that were sent to an executor
// but that it does not list: its connection broke before they arrived. An
// executor lists every task without an acknowledged status.
func (e *executorState) markUnknownTasks(known []mesos.TaskInfo) {
	has := map[string]bool{}
	for _, t := range known {
		has[t.TaskID.Value] = true
	}
	for _, t := range e.tasks {
		if t.state == mesos.TASK_STAGING && !has[t.info.TaskID.Value] {
			t.sent = false
		}
	}
}
