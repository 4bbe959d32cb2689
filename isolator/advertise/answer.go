package advertise

import (
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	rp "mesos-gpu/internal/resourceprovider"
)

// publish says that GPUs are ready, as they always are, unless the agent asks
// for one that is not offered any more: then the launch must fail. The agent
// names all that is in use, and one that was is no news: a task that holds a
// failed device must not fail the launches of others.
func (p *provider) publish(event *rp.PublishResources) *rp.Call {
	there := map[string]bool{}
	for _, d := range p.board.newest().Devices {
		there[d.UUID] = true
	}
	asked, status := map[string]bool{}, rp.PublishOK
	for _, r := range event.Resources {
		ids, _ := devicesOf(r)
		for _, id := range ids {
			asked[id] = true
			if !there[id] && p.published != nil && !p.published[id] {
				p.Log.WithField("gpu", id).Error("GPU not published: it is not among those offered")
				status = rp.PublishFailed
			}
		}
	}
	if status == rp.PublishOK {
		p.published = asked
	}
	return &rp.Call{
		Type:                         rp.CallUpdatePublishResourcesStatus,
		UpdatePublishResourcesStatus: &rp.UpdatePublishResourcesStatus{UUID: event.UUID, Status: status},
	}
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
