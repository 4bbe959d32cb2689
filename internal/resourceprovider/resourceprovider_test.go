package resourceprovider

import (
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/gogo/protobuf/proto"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

func uuid(b byte) mesos.UUID { return mesos.UUID{Value: []byte{b, 0xff, 0x10}} }

func gpus(n float64) mesos.Resource {
	return mesos.Resource{
		ProviderID: &mesos.ResourceProviderID{Value: "rp"},
		Name:       "gpus",
		Type:       mesos.SCALAR.Enum(),
		Scalar:     &mesos.Value_Scalar{Value: n},
	}
}

func ids(set ...string) mesos.Resource {
	return mesos.Resource{Name: "gpu_ids", Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: set}}
}

func status(s mesos.OperationState) mesos.OperationStatus {
	return mesos.OperationStatus{State: s, UUID: &mesos.UUID{Value: []byte{7}}}
}

// messages has every field of every message set somewhere.
func messages() map[string]proto.Message {
	id := mesos.ResourceProviderID{Value: "rp"}
	framework := &mesos.FrameworkID{Value: "f"}
	latest := status(mesos.OPERATION_FINISHED)
	return map[string]proto.Message{
		"empty event": &ProviderEvent{},
		"subscribed":  &ProviderEvent{Type: EventSubscribed, Subscribed: &Subscribed{ProviderID: id}},
		"apply": &ProviderEvent{Type: EventApplyOperation, ApplyOperation: &ApplyOperation{
			FrameworkID: framework,
			Info: mesos.Offer_Operation{
				Type:    mesos.Offer_Operation_RESERVE,
				Reserve: &mesos.Offer_Operation_Reserve{Resources: []mesos.Resource{gpus(2)}},
			},
			OperationUUID:       uuid(1),
			ResourceVersionUUID: uuid(2),
		}},
		"publish": &ProviderEvent{Type: EventPublishResources, PublishResources: &PublishResources{
			UUID: uuid(3), Resources: []mesos.Resource{gpus(1), ids("GPU-a")},
		}},
		"acknowledge": &ProviderEvent{Type: EventAcknowledgeOperationStatus,
			AcknowledgeOperationStatus: &AcknowledgeOperationStatus{StatusUUID: uuid(4), OperationUUID: uuid(5)}},
		"reconcile": &ProviderEvent{Type: EventReconcileOperations,
			ReconcileOperations: &ReconcileOperations{OperationUUIDs: []mesos.UUID{uuid(6), uuid(7)}}},
		"teardown": &ProviderEvent{Type: EventTeardown},
		"subscribe": &ProviderCall{Type: CallSubscribe, Subscribe: &Subscribe{
			ResourceProviderInfo: mesos.ResourceProviderInfo{ID: &id, Type: "t.x", Name: "gpus"},
		}},
		"operation status": &ProviderCall{ResourceProviderID: &id, Type: CallUpdateOperationStatus,
			UpdateOperationStatus: &UpdateOperationStatus{
				FrameworkID: framework, Status: status(mesos.OPERATION_FAILED), LatestStatus: &latest, OperationUUID: uuid(8),
			}},
		"state": &ProviderCall{ResourceProviderID: &id, Type: CallUpdateState, UpdateState: &UpdateState{
			Operations: []mesos.Operation{{
				FrameworkID:  framework,
				Info:         mesos.Offer_Operation{Type: mesos.Offer_Operation_UNRESERVE, Unreserve: &mesos.Offer_Operation_Unreserve{}},
				LatestStatus: latest,
				UUID:         uuid(9),
			}},
			Resources:           []mesos.Resource{gpus(4), ids("GPU-a", "GPU-b")},
			ResourceVersionUUID: uuid(10),
		}},
		"publish status": &ProviderCall{ResourceProviderID: &id, Type: CallUpdatePublishResourcesStatus,
			UpdatePublishResourcesStatus: &UpdatePublishResourcesStatus{UUID: uuid(11), Status: PublishOK}},
	}
}

// sameMessage compares what goes over the wire: an absent list and an empty
// one are the same there.
func sameMessage(t *testing.T, got, want proto.Message) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(w), string(g)); diff != "" {
		t.Errorf("changed on the way (-want +got):\n%s", diff)
	}
}

func TestProtobufRoundTrip(t *testing.T) {
	for name, m := range messages() {
		t.Run(name, func(t *testing.T) {
			wire, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			back := reflect.New(reflect.TypeOf(m).Elem()).Interface().(proto.Message)
			if err := proto.Unmarshal(wire, back); err != nil {
				t.Fatal(err)
			}
			sameMessage(t, back, m)
		})
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for name, m := range messages() {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			back := reflect.New(reflect.TypeOf(m).Elem()).Interface().(proto.Message)
			if err := json.Unmarshal(text, back); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			sameMessage(t, back, m)
		})
	}
}

// The bytes were worked out by hand from the field numbers of the .proto.
func TestFieldNumbers(t *testing.T) {
	cases := map[string]struct {
		m    proto.Message
		want string
	}{
		"subscribed": {
			&ProviderEvent{Type: EventSubscribed, Subscribed: &Subscribed{ProviderID: mesos.ResourceProviderID{Value: "rp"}}},
			"0801" + "1206" + "0a04" + "0a027270",
		},
		"reconcile": {
			&ProviderEvent{Type: EventReconcileOperations, ReconcileOperations: &ReconcileOperations{OperationUUIDs: []mesos.UUID{uuid(1)}}},
			"0805" + "3207" + "0a05" + "0a0301ff10",
		},
		"acknowledge": {
			&ProviderEvent{Type: EventAcknowledgeOperationStatus, AcknowledgeOperationStatus: &AcknowledgeOperationStatus{StatusUUID: uuid(1), OperationUUID: uuid(2)}},
			"0804" + "2a0e" + "0a050a0301ff10" + "12050a0302ff10",
		},
		"publish status": {
			&ProviderCall{
				ResourceProviderID:           &mesos.ResourceProviderID{Value: "rp"},
				Type:                         CallUpdatePublishResourcesStatus,
				UpdatePublishResourcesStatus: &UpdatePublishResourcesStatus{UUID: uuid(1), Status: PublishFailed},
			},
			"0a04" + "0a027270" + "1004" + "3209" + "0a050a0301ff10" + "1002",
		},
		"state": {
			&ProviderCall{Type: CallUpdateState, UpdateState: &UpdateState{ResourceVersionUUID: uuid(1)}},
			"1003" + "2a07" + "1a05" + "0a0301ff10",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := proto.Marshal(c.m)
			if err != nil {
				t.Fatal(err)
			}
			if hex.EncodeToString(got) != c.want {
				t.Errorf("got %x, want %s", got, c.want)
			}
		})
	}
}

func TestJSONForm(t *testing.T) {
	text, err := json.Marshal(&ProviderCall{
		ResourceProviderID:           &mesos.ResourceProviderID{Value: "rp"},
		Type:                         CallUpdatePublishResourcesStatus,
		UpdatePublishResourcesStatus: &UpdatePublishResourcesStatus{UUID: uuid(1), Status: PublishOK},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"resource_provider_id":{"value":"rp"},"type":"UPDATE_PUBLISH_RESOURCES_STATUS",` +
		`"update_publish_resources_status":{"uuid":{"value":"Af8Q"},"status":"OK"}}`
	if string(text) != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
}

func TestUnknownEnumNames(t *testing.T) {
	for _, text := range []string{`{"type":"NO_SUCH"}`, `{"type":{}}`} {
		if err := json.Unmarshal([]byte(text), &ProviderEvent{}); err == nil {
			t.Errorf("%s was read without an error", text)
		}
		if err := json.Unmarshal([]byte(text), &ProviderCall{}); err == nil {
			t.Errorf("%s was read without an error", text)
		}
	}
	var s PublishStatus
	if err := json.Unmarshal([]byte(`"NO"`), &s); err == nil {
		t.Error(`status "NO" was read without an error`)
	}
}

// A newer agent may send a type this package does not know: the number stays.
func TestUnknownEnumNumbers(t *testing.T) {
	var e ProviderEvent
	if err := proto.Unmarshal([]byte{0x08, 0x63}, &e); err != nil {
		t.Fatal(err)
	}
	if e.Type != 99 || e.Type.String() != "99" {
		t.Errorf("got type %d %q, want 99", e.Type, e.Type)
	}
	if CallType(-1).String() != "-1" || PublishStatus(9).String() != "9" {
		t.Error("an unknown number must print as itself")
	}
}

// Strings are for logs: they must name the type and not panic on any message.
func TestStrings(t *testing.T) {
	for name, m := range messages() {
		if got := m.String(); !strings.HasPrefix(got, "{") {
			t.Errorf("%s prints as %s", name, got)
		}
		fields := reflect.ValueOf(m).Elem()
		for i := range fields.NumField() {
			part, ok := fields.Field(i).Interface().(proto.Message)
			if !ok || fields.Field(i).IsNil() || fields.Type().Field(i).Name == "ResourceProviderID" {
				continue // mesos-go's own message, or none
			}
			if !strings.Contains(m.String(), part.String()) {
				t.Errorf("%s prints as %s, its part as %s", name, m, part)
			}
			if part.Reset(); !reflect.ValueOf(part).Elem().IsZero() {
				t.Errorf("%s after Reset: still %s", name, part)
			}
		}
		m.Reset()
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatalf("%s after Reset: %v", name, err)
		}
		if len(wire) > 2 {
			t.Errorf("%s after Reset: still %d bytes", name, len(wire))
		}
	}
}
