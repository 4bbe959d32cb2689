package advertise

import (
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	rp "mesos-gpu/internal/resourceprovider"
)

// answer gives the calls that an event asks for.
func (p *provider) answer(event *rp.Event, id string) []*rp.Call {
	switch {
	case event.Type == rp.EventPublishResources && event.PublishResources != nil:
		return []*rp.Call{p.published(event.PublishResources)}
	case event.Type == rp.EventApplyOperation && event.ApplyOperation != nil:
		// Reserving the GPUs would need a ledger. The agent has applied the
		// reservation in advance: a new state takes it back.
		p.Log.WithField("operation", event.ApplyOperation.Info.Type.String()).Warn("operation on GPUs refused")
		failed := operation(id, event.ApplyOperation.OperationUUID, mesos.OPERATION_FAILED, "the GPUs' provider carries out no operations")
		failed.UpdateOperationStatus.FrameworkID = event.ApplyOperation.FrameworkID
		return []*rp.Call{failed, stateOf(p.Host, id)}
	case event.Type == rp.EventReconcileOperations && event.ReconcileOperations != nil:
		var calls []*rp.Call
		for _, unknown := range event.ReconcileOperations.OperationUUIDs {
			calls = append(calls, operation(id, unknown, mesos.OPERATION_DROPPED, "the GPUs' provider does not know the operation"))
		}
		return calls
	}
	return nil // an acknowledgement, or news of a later Mesos
}

// published says that GPUs are ready, as they always are, unless the agent
// asks for one that this host does not have: then the launch must fail.
func (p *provider) published(event *rp.PublishResources) *rp.Call {
	status := rp.PublishOK
	for _, r := range event.Resources {
		if r.Name != GPUIDs || r.Set == nil {
			continue
		}
		if _, err := p.Host.ByUUID(r.Set.Item); err != nil {
			p.Log.WithError(err).Error("GPU not published")
			status = rp.PublishFailed
		}
	}
	return &rp.Call{
		Type:                         rp.CallUpdatePublishResourcesStatus,
		UpdatePublishResourcesStatus: &rp.UpdatePublishResourcesStatus{UUID: event.UUID, Status: status},
	}
}

// stateOf is UPDATE_STATE: all GPUs, no pending operations, a new version.
func stateOf(h gpu.Host, id string) *rp.Call {
	return &rp.Call{Type: rp.CallUpdateState, UpdateState: &rp.UpdateState{
		Resources:           Resources(h, id),
		ResourceVersionUUID: newUUID(),
	}}
}

// operation reports on an operation. The status has no UUID, so that nobody
// has to acknowledge it: this daemon would not repeat it.
func operation(id string, op mesos.UUID, state mesos.OperationState, message string) *rp.Call {
	status := mesos.OperationStatus{State: state, Message: &message, ResourceProviderID: providerID(id)}
	return &rp.Call{Type: rp.CallUpdateOperationStatus, UpdateOperationStatus: &rp.UpdateOperationStatus{
		Status: status, LatestStatus: &status, OperationUUID: op,
	}}
}

func newUUID() mesos.UUID {
	u := uuid.New()
	return mesos.UUID{Value: u[:]}
}
