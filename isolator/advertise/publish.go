package advertise

import (
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	rp "mesos-gpu/internal/resourceprovider"
)

// publishResources says that ResourceGPUs are ready, as they always are, unless the agent asks
// for one that is not offered any more: then the launch must fail. The agent
// names all that is in use, and one that was is no news: a task that holds a
// failed device must not fail the launches of others.
func (p *resourceProvider) publishResources(event *rp.PublishResources) *rp.ProviderCall {
	there := map[string]bool{}
	for _, d := range p.hosts.latestHost().Devices {
		there[d.UUID] = true
	}
	asked, status := map[string]bool{}, rp.PublishOK
	for _, r := range event.Resources {
		ids, _ := resourceDevices(r)
		for _, id := range ids {
			asked[id] = true
			if !there[id] && p.publishedDevices != nil && !p.publishedDevices[id] {
				p.Log.WithField("gpu", id).Error("GPU not published: it is not among those offered")
				status = rp.PublishFailed
			}
		}
	}
	if status == rp.PublishOK {
		p.publishedDevices = asked
	}
	return &rp.ProviderCall{
		Type:                         rp.CallUpdatePublishResourcesStatus,
		UpdatePublishResourcesStatus: &rp.UpdatePublishResourcesStatus{UUID: event.UUID, Status: status},
	}
}

// operationStatusCall reports on an operation. The status has no UUID, so that nobody
// has to acknowledge it: this daemon would not repeat it.
func operationStatusCall(id string, op mesos.UUID, state mesos.OperationState, message string) *rp.ProviderCall {
	status := mesos.OperationStatus{State: state, Message: &message, ResourceProviderID: providerIDMessage(id)}
	return &rp.ProviderCall{Type: rp.CallUpdateOperationStatus, UpdateOperationStatus: &rp.UpdateOperationStatus{
		Status: status, LatestStatus: &status, OperationUUID: op,
	}}
}

func newUUID() mesos.UUID {
	u := uuid.New()
	return mesos.UUID{Value: u[:]}
}
