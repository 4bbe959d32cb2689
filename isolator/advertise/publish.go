package advertise

import (
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	rp "mesos-gpu/internal/resourceprovider"
)

// publishResources answers that the GPUs are ready. It fails only if the agent
// requests a device that is no longer offered, so that the launch fails. The
// agent always lists all devices in use; a device that was in use before is
// accepted, because a task with a failed device must not fail the launches of
// others.
func (p *resourceProvider) publishResources(event *rp.PublishResources) *rp.ProviderCall {
	there := map[string]bool{}
	for _, d := range p.hosts.latestHost().Devices {
		there[d.UUID] = true
	}
	requested, status := map[string]bool{}, rp.PublishOK
	for _, r := range event.Resources {
		ids, _ := resourceDevices(r)
		for _, id := range ids {
			requested[id] = true
			if !there[id] && p.publishedDevices != nil && !p.publishedDevices[id] {
				p.Log.WithField("gpu", id).Error("GPU not published: it is not among those offered")
				status = rp.PublishFailed
			}
		}
	}
	if status == rp.PublishOK {
		p.publishedDevices = requested
	}
	return &rp.ProviderCall{
		Type:                         rp.CallUpdatePublishResourcesStatus,
		UpdatePublishResourcesStatus: &rp.UpdatePublishResourcesStatus{UUID: event.UUID, Status: status},
	}
}

// operationStatusCall reports the state of an operation. The status has no
// UUID, so it needs no acknowledgement: this daemon would not repeat it.
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
