package provider

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/framing"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/mesosapi"
	api "mesos-gpu/internal/resourceprovider"
)

// providerRig is a manager that serves HTTP.
type providerRig struct {
	t       *testing.T
	manager *ProviderManager
	server  *httptest.Server
	changed chan struct{}
}

func newRig(t *testing.T, timeout time.Duration) *providerRig {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := &providerRig{t: t, changed: make(chan struct{}, 16)}
	r.manager = New(ManagerConfig{Log: log, Changed: func() { r.changed <- struct{}{} }, PublishTimeout: timeout})
	r.server = httptest.NewServer(r.manager)
	t.Cleanup(r.server.Close)
	t.Cleanup(r.manager.Close)
	return r
}

func (r *providerRig) awaitChange() {
	r.t.Helper()
	select {
	case <-r.changed:
	case <-time.After(time.Minute):
		r.t.Fatal("no change within a minute")
	}
}

func (r *providerRig) post(ctx context.Context, streamID string, call *api.ProviderCall) *http.Response {
	r.t.Helper()
	body, err := proto.Marshal(call)
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", mesosapi.Protobuf)
	req.Header.Set("Accept", mesosapi.Protobuf)
	if streamID != "" {
		req.Header.Set(mesosapi.HeaderStreamID, streamID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// providerClient is a subscribed provider.
type providerClient struct {
	r          *providerRig
	id, stream string
	events     framing.Reader
	leave      context.CancelFunc
}

func subscribe(id string) *api.ProviderCall {
	info := mesos.ResourceProviderInfo{Type: "org.test", Name: "gpus"}
	if id != "" {
		info.ID = &mesos.ResourceProviderID{Value: id}
	}
	return &api.ProviderCall{Type: api.CallSubscribe, Subscribe: &api.Subscribe{ResourceProviderInfo: info}}
}

func (r *providerRig) subscribe(id string) *providerClient {
	r.t.Helper()
	ctx, leave := context.WithCancel(r.t.Context())
	resp := r.post(ctx, "", subscribe(id))
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("SUBSCRIBE: %s: %s", resp.Status, text)
	}
	c := &providerClient{r: r, stream: resp.Header.Get(mesosapi.HeaderStreamID), events: recordio.NewReader(resp.Body), leave: leave}
	c.id = c.next().Subscribed.ProviderID.Value
	return c
}

func (c *providerClient) next() *api.ProviderEvent {
	c.r.t.Helper()
	frame, err := c.events.ReadFrame()
	if err != nil {
		c.r.t.Fatal(err)
	}
	var e api.ProviderEvent
	if err := proto.Unmarshal(frame, &e); err != nil {
		c.r.t.Fatal(err)
	}
	return &e
}

func (c *providerClient) call(call *api.ProviderCall) (status int, text string) {
	c.r.t.Helper()
	if call.ResourceProviderID == nil {
		call.ResourceProviderID = &mesos.ResourceProviderID{Value: c.id}
	}
	resp := c.r.post(c.r.t.Context(), c.stream, call)
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

func (c *providerClient) state(resources ...mesos.Resource) *api.ProviderCall {
	return &api.ProviderCall{Type: api.CallUpdateState, UpdateState: &api.UpdateState{Resources: resources, ResourceVersionUUID: mesos.UUID{Value: []byte("v")}}}
}

func gpus(provider string, n float64) mesos.Resource {
	r := mesos.Resource{Name: "gpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: n}}
	if provider != "" {
		r.ProviderID = &mesos.ResourceProviderID{Value: provider}
	}
	return r
}

func TestSubscribeUpdateDisconnect(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.subscribe("")
	if c.id == "" || c.stream == "" {
		t.Fatalf("id %q, stream %q", c.id, c.stream)
	}
	if status, text := c.call(c.state(gpus(c.id, 4))); status != http.StatusAccepted {
		t.Fatalf("UPDATE_STATE: %d %s", status, text)
	}
	r.awaitChange()
	if diff := cmp.Diff([]mesos.Resource{gpus(c.id, 4)}, r.manager.Resources()); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	c.leave()
	r.awaitChange()
	if got := r.manager.Resources(); len(got) != 0 {
		t.Errorf("after the disconnect: %v", got)
	}
	if again := r.subscribe(c.id); again.id != c.id || again.stream == c.stream {
		t.Errorf("came back as %s, want %s, on another stream", again.id, c.id)
	}
}

func TestSecondConnectionIsRejected(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.subscribe("gpu-provider")
	resp := r.post(t.Context(), "", subscribe("gpu-provider"))
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "already connected") {
		t.Errorf("second connection: %s: %s", resp.Status, text)
	}
	if status, text := c.call(c.state(gpus(c.id, 1))); status != http.StatusAccepted {
		t.Errorf("the first connection afterwards: %d %s", status, text)
	}
}

func TestBadCalls(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.subscribe("")
	for what, call := range map[string]*api.ProviderCall{
		"another's resources": c.state(gpus("other", 1)),
		"resources of none":   c.state(gpus("", 1)),
		"negative resources":  c.state(gpus(c.id, -1)),
		"unknown provider":    {Type: api.CallUpdateState, ResourceProviderID: &mesos.ResourceProviderID{Value: "other"}},
		"no state":            {Type: api.CallUpdateState},
		"no status":           {Type: api.CallUpdatePublishResourcesStatus},
	} {
		if status, text := c.call(call); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	if status, _ := c.call(&api.ProviderCall{Type: api.CallUnknown}); status != http.StatusNotImplemented {
		t.Errorf("unknown call: %d", status)
	}
	c.stream = "another stream"
	if status, _ := c.call(c.state()); status != http.StatusBadRequest {
		t.Errorf("wrong stream: %d", status)
	}
	if resp := r.post(t.Context(), "", &api.ProviderCall{Type: api.CallSubscribe}); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("SUBSCRIBE without info: %s", resp.Status)
	}
}

// publish runs Publish in the background. The channel receives its result.
func (r *providerRig) publish(wanted []mesos.Resource, others ...mesos.Resource) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.manager.Publish(r.t.Context(), wanted, others) }()
	return done
}

func list(rs ...mesos.Resource) []mesos.Resource { return rs }

func (c *providerClient) answer(e *api.ProviderEvent, status api.PublishStatus) {
	c.r.t.Helper()
	call := &api.ProviderCall{Type: api.CallUpdatePublishResourcesStatus, UpdatePublishResourcesStatus: &api.UpdatePublishResourcesStatus{
		UUID: e.PublishResources.UUID, Status: status,
	}}
	if status, text := c.call(call); status != http.StatusAccepted {
		c.r.t.Fatalf("answer: %d %s", status, text)
	}
}

func TestPublish(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.subscribe("")
	allocated := gpus(c.id, 1)
	allocated.AllocationInfo = &mesos.Resource_AllocationInfo{Role: proto.String("*")}
	done := r.publish(list(gpus("", 8), allocated), gpus(c.id, 1), gpus("not-here", 1))
	e := c.next()
	if diff := cmp.Diff([]mesos.Resource{gpus(c.id, 2)}, e.PublishResources.Resources); diff != "" {
		t.Errorf("PUBLISH_RESOURCES (-want +got):\n%s", diff)
	}
	c.answer(e, api.PublishOK)
	if err := <-done; err != nil {
		t.Error(err)
	}

	done = r.publish(list(gpus(c.id, 1)))
	c.answer(c.next(), api.PublishFailed)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "FAILED") {
		t.Errorf("a refused publish gives %v", err)
	}

	done = r.publish(list(gpus(c.id, 1)))
	c.next()
	c.leave()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "disconnected") {
		t.Errorf("a publish cut off gives %v", err)
	}
	if err := <-r.publish(list(gpus(c.id, 1))); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("a publish without a provider gives %v", err)
	}
	if err := <-r.publish(list(gpus("", 1)), gpus(c.id, 1)); err != nil {
		t.Errorf("a publish that wants nothing of the provider that left: %v", err)
	}
}

func TestPublishTimeout(t *testing.T) {
	r := newRig(t, time.Millisecond)
	c := r.subscribe("")
	if err := <-r.publish(list(gpus(c.id, 1))); err == nil || !strings.Contains(err.Error(), "no answer within 1ms") {
		t.Errorf("error %v", err)
	}
}
