package resourceprovider

import mesos "github.com/mesos/mesos-go/api/v1/lib"

// CallType selects the field of a ProviderCall that is set.
type CallType int32

// Types of the calls from a provider to its agent.
const (
	CallUnknown CallType = iota
	CallSubscribe
	CallUpdateOperationStatus
	CallUpdateState
	CallUpdatePublishResourcesStatus
)

var callTypes = enumNames{
	"UNKNOWN", "SUBSCRIBE", "UPDATE_OPERATION_STATUS", "UPDATE_STATE",
	"UPDATE_PUBLISH_RESOURCES_STATUS",
}

func (t CallType) String() string { return callTypes.name(int32(t)) }

// MarshalJSON writes the name.
func (t CallType) MarshalJSON() ([]byte, error) { return callTypes.marshalName(int32(t)) }

// UnmarshalJSON reads a name or a number.
func (t *CallType) UnmarshalJSON(data []byte) error {
	n, err := callTypes.unmarshalName(data, "Call.Type")
	*t = CallType(n)
	return err
}

// PublishStatus is the result of a PublishResources event.
type PublishStatus int32

// PublishOK continues the launch that waits for the resources; PublishFailed
// fails it.
const (
	PublishUnknown PublishStatus = iota
	PublishOK
	PublishFailed
)

var publishStatuses = enumNames{"UNKNOWN", "OK", "FAILED"}

func (s PublishStatus) String() string { return publishStatuses.name(int32(s)) }

// MarshalJSON writes the name.
func (s PublishStatus) MarshalJSON() ([]byte, error) { return publishStatuses.marshalName(int32(s)) }

// UnmarshalJSON reads a name or a number.
func (s *PublishStatus) UnmarshalJSON(data []byte) error {
	n, err := publishStatuses.unmarshalName(data, "UpdatePublishResourcesStatus.Status")
	*s = PublishStatus(n)
	return err
}

// ProviderCall is a call from a provider. ResourceProviderID is set on every
// call except SUBSCRIBE, whose ResourceProviderInfo contains it.
type ProviderCall struct {
	ResourceProviderID           *mesos.ResourceProviderID     `protobuf:"bytes,1,opt,name=resource_provider_id" json:"resource_provider_id,omitempty"`
	Type                         CallType                      `protobuf:"varint,2,opt,name=type,enum=mesos.v1.resource_provider.Call_Type" json:"type"`
	Subscribe                    *Subscribe                    `protobuf:"bytes,3,opt,name=subscribe" json:"subscribe,omitempty"`
	UpdateOperationStatus        *UpdateOperationStatus        `protobuf:"bytes,4,opt,name=update_operation_status" json:"update_operation_status,omitempty"`
	UpdateState                  *UpdateState                  `protobuf:"bytes,5,opt,name=update_state" json:"update_state,omitempty"`
	UpdatePublishResourcesStatus *UpdatePublishResourcesStatus `protobuf:"bytes,6,opt,name=update_publish_resources_status" json:"update_publish_resources_status,omitempty"`
}

// Subscribe opens the provider's event stream. An info without an id requests a
// new one.
type Subscribe struct {
	ResourceProviderInfo mesos.ResourceProviderInfo `protobuf:"bytes,1,req,name=resource_provider_info" json:"resource_provider_info"`
}

// UpdateOperationStatus reports the status of an operation.
type UpdateOperationStatus struct {
	FrameworkID   *mesos.FrameworkID     `protobuf:"bytes,1,opt,name=framework_id" json:"framework_id,omitempty"`
	Status        mesos.OperationStatus  `protobuf:"bytes,2,req,name=status" json:"status"`
	LatestStatus  *mesos.OperationStatus `protobuf:"bytes,3,opt,name=latest_status" json:"latest_status,omitempty"`
	OperationUUID mesos.UUID             `protobuf:"bytes,4,req,name=operation_uuid" json:"operation_uuid"`
}

// UpdateState replaces the provider's resources and pending operations.
// ResourceVersionUUID changes whenever the resources do.
type UpdateState struct {
	Operations          []mesos.Operation `protobuf:"bytes,1,rep,name=operations" json:"operations,omitempty"`
	Resources           []mesos.Resource  `protobuf:"bytes,2,rep,name=resources" json:"resources,omitempty"`
	ResourceVersionUUID mesos.UUID        `protobuf:"bytes,3,req,name=resource_version_uuid" json:"resource_version_uuid"`
}

// UpdatePublishResourcesStatus answers the PublishResources event with that
// UUID.
type UpdatePublishResourcesStatus struct {
	UUID   mesos.UUID    `protobuf:"bytes,1,req,name=uuid" json:"uuid"`
	Status PublishStatus `protobuf:"varint,2,req,name=status,enum=mesos.v1.resource_provider.Call_UpdatePublishResourcesStatus_Status" json:"status"`
}

func (c *ProviderCall) Reset()                 { *c = ProviderCall{} }
func (s *Subscribe) Reset()                    { *s = Subscribe{} }
func (s *UpdateOperationStatus) Reset()        { *s = UpdateOperationStatus{} }
func (s *UpdateState) Reset()                  { *s = UpdateState{} }
func (s *UpdatePublishResourcesStatus) Reset() { *s = UpdatePublishResourcesStatus{} }

func (c *ProviderCall) String() string                 { return formatMessage(c) }
func (s *Subscribe) String() string                    { return formatMessage(s) }
func (s *UpdateOperationStatus) String() string        { return formatMessage(s) }
func (s *UpdateState) String() string                  { return formatMessage(s) }
func (s *UpdatePublishResourcesStatus) String() string { return formatMessage(s) }

// ProtoMessage marks the protobuf messages.
func (*ProviderCall) ProtoMessage()                 {}
func (*Subscribe) ProtoMessage()                    {}
func (*UpdateOperationStatus) ProtoMessage()        {}
func (*UpdateState) ProtoMessage()                  {}
func (*UpdatePublishResourcesStatus) ProtoMessage() {}
