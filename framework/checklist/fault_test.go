package checklist

import (
	"bytes"
	"io"
	"net/http"
	"slices"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/testing/faultproxy"
)

// rewriteCall changes a call before the master receives it.
func rewriteCall(change func(*scheduler.Call)) faultproxy.CallFault {
	return func(w http.ResponseWriter, r *http.Request, master http.Handler) {
		call := readCall(r)
		change(call)
		body, err := proto.Marshal(call)
		if err != nil {
			panic(err) // impossible: it was decoded from a valid call
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		master.ServeHTTP(w, r)
	}
}

// readCall decodes the call and leaves the request's body readable.
func readCall(r *http.Request) *scheduler.Call {
	call := &scheduler.Call{}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, call)
	}
	if err != nil {
		panic(err) // impossible: the fault proxy has decoded it before
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return call
}

// declineBefore declines an ACCEPT's offers before the master receives the ACCEPT, so that they
// are invalid. then decides what happens to the ACCEPT.
func (w *testEnv) declineBefore(then faultproxy.CallFault) faultproxy.CallFault {
	return func(rw http.ResponseWriter, r *http.Request, master http.Handler) {
		call := readCall(r)
		none := 0.0
		status, err := w.MakeCall(&scheduler.Call{
			Type: scheduler.Call_DECLINE, FrameworkID: call.FrameworkID,
			Decline: &scheduler.Call_Decline{OfferIDs: call.Accept.OfferIDs, Filters: &mesos.Filters{RefuseSeconds: &none}},
		})
		if err != nil || status != http.StatusAccepted {
			w.t.Errorf("give offers back: %d %v", status, err)
		}
		for _, id := range call.Accept.OfferIDs {
			w.InjectEvents(&scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: id}})
		}
		then(rw, r, master)
	}
}

// launchedTasks returns the ids of the tasks that an ACCEPT launches.
func launchedTasks(c *scheduler.Call) (ids []string) {
	for _, op := range c.GetAccept().GetOperations() {
		for _, t := range op.GetLaunch().GetTaskInfos() {
			ids = append(ids, t.TaskID.Value)
		}
	}
	return ids
}

func isLaunchOf(id string) func(faultproxy.RecordedCall) bool {
	return func(c faultproxy.RecordedCall) bool { return slices.Contains(launchedTasks(c.Call), id) }
}

// isReconciliation reports whether an event is the answer to a reconciliation.
func isReconciliation(e *scheduler.Event) bool {
	return e.GetType() == scheduler.Event_UPDATE && e.GetUpdate().Status.GetReason() == mesos.REASON_RECONCILIATION
}

// isImplicitReconcile reports whether a RECONCILE is implicit: it names no task and requests the states of all.
func isImplicitReconcile(c faultproxy.RecordedCall) bool {
	return len(c.GetReconcile().GetTasks()) == 0
}

// isReconcileOf matches explicit RECONCILEs of a task.
func isReconcileOf(id string) func(faultproxy.RecordedCall) bool {
	return func(c faultproxy.RecordedCall) bool {
		return slices.ContainsFunc(c.GetReconcile().GetTasks(), func(t scheduler.Call_Reconcile_Task) bool { return t.TaskID.Value == id })
	}
}

// dropEvents returns a filter that drops the events that match.
func dropEvents(match func(*scheduler.Event) bool) faultproxy.EventFilter {
	return func(e *scheduler.Event) []*scheduler.Event {
		if match(e) {
			return nil
		}
		return []*scheduler.Event{e}
	}
}

func updateEvent(s mesos.TaskStatus) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: s}}
}

func failureEvent(message string) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: message}}
}
