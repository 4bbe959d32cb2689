package resourceprovider

import mesos "github.com/mesos/mesos-go/api/v1/lib"

// EventType selects the field of a ProviderEvent that is set.
type EventType int32

// Types of the events from an agent to a provider.
const (
	EventUnknown EventType = iota
	EventSubscribed
	EventApplyOperation
	EventPublishResources
	EventAcknowledgeOperationStatus
	EventReconcileOperations
	EventTeardown
)

var eventTypes = enumNames{
	"UNKNOWN", "SUBSCRIBED", "APPLY_OPERATION", "PUBLISH_RESOURCES",
	"ACKNOWLEDGE_OPERATION_STATUS", "RECONCILE_OPERATIONS", "TEARDOWN",
}

func (t EventType) String() string { return eventTypes.name(int32(t)) }

// MarshalJSON writes the name.
func (t EventType) MarshalJSON() ([]byte, error) { return eventTypes.marshalName(int32(t)) }

// UnmarshalJSON reads a name or a number.
func (t *EventType) UnmarshalJSON(data []byte) error {
	n, err := eventTypes.unmarshalName(data, "Event.Type")
	*t = EventType(n)
	return err
}

// ProviderEvent is a message from the agent on a provider's stream.
type ProviderEvent struct {
	Type                       EventType                   `protobuf:"varint,1,opt,name=type,enum=mesos.v1.resource_provider.Event_Type" json:"type"`
	Subscribed                 *Subscribed                 `protobuf:"bytes,2,opt,name=subscribed" json:"subscribed,omitempty"`
	ApplyOperation             *ApplyOperation             `protobuf:"bytes,3,opt,name=apply_operation" json:"apply_operation,omitempty"`
	PublishResources           *PublishResources           `protobuf:"bytes,4,opt,name=publish_resources" json:"publish_resources,omitempty"`
	AcknowledgeOperationStatus *AcknowledgeOperationStatus `protobuf:"bytes,5,opt,name=acknowledge_operation_status" json:"acknowledge_operation_status,omitempty"`
	ReconcileOperations        *ReconcileOperations        `protobuf:"bytes,6,opt,name=reconcile_operations" json:"reconcile_operations,omitempty"`
}

// Subscribed assigns the provider its id, which it uses in later SUBSCRIBE
// calls.
type Subscribed struct {
	ProviderID mesos.ResourceProviderID `protobuf:"bytes,1,req,name=provider_id" json:"provider_id"`
}

// ApplyOperation requests that the provider apply an operation (reserve, create
// a volume) to its resources, if ResourceVersionUUID is its latest.
type ApplyOperation struct {
	FrameworkID         *mesos.FrameworkID    `protobuf:"bytes,1,opt,name=framework_id" json:"framework_id,omitempty"`
	Info                mesos.Offer_Operation `protobuf:"bytes,2,req,name=info" json:"info"`
	OperationUUID       mesos.UUID            `protobuf:"bytes,3,req,name=operation_uuid" json:"operation_uuid"`
	ResourceVersionUUID mesos.UUID            `protobuf:"bytes,4,req,name=resource_version_uuid" json:"resource_version_uuid"`
}

// PublishResources requests that the provider make resources ready for use on
// the agent. Resources is the complete list of resources in use.
type PublishResources struct {
	UUID      mesos.UUID       `protobuf:"bytes,1,req,name=uuid" json:"uuid"`
	Resources []mesos.Resource `protobuf:"bytes,2,rep,name=resources" json:"resources,omitempty"`
}

// AcknowledgeOperationStatus acknowledges an operation status.
type AcknowledgeOperationStatus struct {
	StatusUUID    mesos.UUID `protobuf:"bytes,1,req,name=status_uuid" json:"status_uuid"`
	OperationUUID mesos.UUID `protobuf:"bytes,2,req,name=operation_uuid" json:"operation_uuid"`
}

// ReconcileOperations requests the status of operations.
type ReconcileOperations struct {
	OperationUUIDs []mesos.UUID `protobuf:"bytes,1,rep,name=operation_uuids" json:"operation_uuids,omitempty"`
}

func (e *ProviderEvent) Reset()              { *e = ProviderEvent{} }
func (s *Subscribed) Reset()                 { *s = Subscribed{} }
func (o *ApplyOperation) Reset()             { *o = ApplyOperation{} }
func (r *PublishResources) Reset()           { *r = PublishResources{} }
func (s *AcknowledgeOperationStatus) Reset() { *s = AcknowledgeOperationStatus{} }
func (o *ReconcileOperations) Reset()        { *o = ReconcileOperations{} }

func (e *ProviderEvent) String() string              { return formatMessage(e) }
func (s *Subscribed) String() string                 { return formatMessage(s) }
func (o *ApplyOperation) String() string             { return formatMessage(o) }
func (r *PublishResources) String() string           { return formatMessage(r) }
func (s *AcknowledgeOperationStatus) String() string { return formatMessage(s) }
func (o *ReconcileOperations) String() string        { return formatMessage(o) }

// ProtoMessage marks the protobuf messages.
func (*ProviderEvent) ProtoMessage()              {}
func (*Subscribed) ProtoMessage()                 {}
func (*ApplyOperation) ProtoMessage()             {}
func (*PublishResources) ProtoMessage()           {}
func (*AcknowledgeOperationStatus) ProtoMessage() {}
func (*ReconcileOperations) ProtoMessage()        {}
