package advertise

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	rp "mesos-gpu/internal/resourceprovider"
)

func plain(s *httptest.Server) { s.Start() }

func TestAdvertiseAndPublish(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	c.Authorization = "Bearer token"
	d := start(t, c, warned)

	info := a.call(rp.CallSubscribe).Subscribe.ResourceProviderInfo
	if info.ID != nil || info.Type != "io.mesos.gpu" || info.Name != "gpus" {
		t.Errorf("first SUBSCRIBE carries %v", info)
	}
	stream := await(t, a.streams, "stream")
	update := a.call(rp.CallUpdateState).UpdateState
	if diff := cmp.Diff(MachineGPUs{Host: c.Host}.Resources("provider-1"), update.Resources); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(update.ResourceVersionUUID.Value) != 16 {
		t.Errorf("resource version %x has not 16 bytes", update.ResourceVersionUUID.Value)
	}

	uuid := mesos.UUID{Value: []byte("0123456789abcdef")}
	for _, c := range []struct {
		id   string
		want rp.PublishStatus
	}{{c.Host.Devices[1].UUID, rp.PublishOK}, {"GPU-not-here", rp.PublishFailed}} {
		stream.Send(&rp.ProviderEvent{Type: rp.EventPublishResources, PublishResources: &rp.PublishResources{
			UUID: uuid,
			Resources: []mesos.Resource{
				{Name: ResourceGPUs, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 1}},
				{Name: ResourceGPUIDs, Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: []string{c.id}}},
			},
		}})
		got := a.call(rp.CallUpdatePublishResourcesStatus).UpdatePublishResourcesStatus
		if got.Status != c.want || string(got.UUID.Value) != string(uuid.Value) {
			t.Errorf("publish %s: got %s, want %s", c.id, got, c.want)
		}
	}
	a.set(func() {
		if a.headers[rp.CallSubscribe] != "Bearer token" || a.headers[rp.CallUpdateState] != "Bearer token" {
			t.Errorf("Authorization was %v", a.headers)
		}
	})
	d.end(t)
	a.set(func() {
		if len(a.live) != 0 {
			t.Error("Run returned before the agent had let the connection go")
		}
	})
}

// After a reconnection, and after a restart of the daemon, the provider keeps its ID. It
// never has two subscriptions at a time (the fake agent checks that).
func TestReconnects(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	d := start(t, c, warned)
	stream := a.subscribed("")
	for range 20 {
		stream.Close()
		stream = a.subscribed("provider-1")
	}
	d.warned.want(t, "GPUs not advertised: the agent closed the connection")
	d.end(t)
	d = start(t, c, warned)
	a.subscribed("provider-1")
	d.end(t)
}

// If the daemon closes the session itself, it must not reconnect before the agent has
// noticed.
func TestReconnectsAfterOwnClose(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	a.set(func() {
		for range 10 {
			a.refuse[rp.CallUpdateState] = append(a.refuse[rp.CallUpdateState], http.StatusBadRequest)
		}
	})
	d := start(t, c, warned)
	a.call(rp.CallSubscribe)
	for range 9 {
		a.call(rp.CallSubscribe)
	}
	d.warned.want(t, "the agent answers UPDATE_STATE with 400 Bad Request: not now")
	a.call(rp.CallSubscribe)
	a.call(rp.CallUpdateState)
	d.end(t)
}

func TestWaitsForTheAgent(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	a.set(func() {
		a.refuse[rp.CallSubscribe] = []int{http.StatusServiceUnavailable, http.StatusServiceUnavailable, http.StatusNotFound}
	})
	d := start(t, c, warned)
	d.warned.want(t, "the agent answers SUBSCRIBE with 503 Service Unavailable")
	d.warned.want(t, "the agent's URL ends in /slave(1)")
	a.subscribed("")
	d.end(t)

	a.server.Close()
	d = start(t, c, warned)
	d.warned.want(t, "connection refused")
	d.end(t)
}

func TestUnknownProvider(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	c.AnswerTimeout = 2 * time.Second
	file := filepath.Join(c.StateDir, "provider_id")
	if err := os.WriteFile(file, []byte("of-another-agent\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, c, warned)
	a.call(rp.CallSubscribe)
	d.warned.want(t, "does not know that provider; remove "+file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for call := range a.calls {
		if call.Type == rp.CallUpdateState {
			break
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "provider-1\nagent-1\n" {
		t.Errorf("checkpoint holds %q, %v", got, err)
	}
	d.end(t)
}

func TestTeardownRemovesProvider(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	d := start(t, c, warned)
	a.subscribed("").Send(&rp.ProviderEvent{Type: rp.EventTeardown})
	if err := await(t, d.done, "end of Run"); !errors.Is(err, ErrRemoved) {
		t.Errorf("got %v, want ErrRemoved", err)
	}
	start(t, c, warned)
	a.subscribed("") // with a new provider ID
}

func TestOperationsAreRejected(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	d := start(t, c, warned)
	stream := a.subscribed("")
	op := mesos.UUID{Value: []byte("operation-uuid-1")}
	stream.Send(&rp.ProviderEvent{Type: rp.EventAcknowledgeOperationStatus, AcknowledgeOperationStatus: &rp.AcknowledgeOperationStatus{
		StatusUUID: op, OperationUUID: op,
	}})
	stream.Send(&rp.ProviderEvent{Type: 99})
	stream.Send(&rp.ProviderEvent{Type: rp.EventApplyOperation, ApplyOperation: &rp.ApplyOperation{
		FrameworkID:   &mesos.FrameworkID{Value: "f"},
		Info:          mesos.Offer_Operation{Type: mesos.Offer_Operation_RESERVE, Reserve: &mesos.Offer_Operation_Reserve{}},
		OperationUUID: op, ResourceVersionUUID: op,
	}})
	failed := a.call(rp.CallUpdateOperationStatus).UpdateOperationStatus
	if failed.Status.State != mesos.OPERATION_FAILED || failed.FrameworkID.GetValue() != "f" ||
		failed.Status.ResourceProviderID.GetValue() != "provider-1" || string(failed.OperationUUID.Value) != string(op.Value) {
		t.Errorf("a reservation is answered with %s", failed)
	}
	a.call(rp.CallUpdateState)
	stream.Send(&rp.ProviderEvent{Type: rp.EventReconcileOperations, ReconcileOperations: &rp.ReconcileOperations{OperationUUIDs: []mesos.UUID{op}}})
	if got := a.call(rp.CallUpdateOperationStatus).UpdateOperationStatus; got.Status.State != mesos.OPERATION_DROPPED {
		t.Errorf("an unknown operation is answered with %s", got)
	}
	d.end(t)
}

func TestTLS(t *testing.T) {
	a := newAgent(t, (*httptest.Server).StartTLS)
	c, warned := config(t, a)
	c.TLS = &tls.Config{RootCAs: a.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	d := start(t, c, warned)
	a.subscribed("").Close()
	a.subscribed("provider-1")
	d.end(t)
	c.TLS = &tls.Config{}
	d = start(t, c, warned)
	d.warned.want(t, "certificate")
	d.end(t)
}

func TestConfigErrors(t *testing.T) {
	log, _ := newLog()
	good := ProviderConfig{AgentURL: "http://127.0.0.1:1/slave(1)", StateDir: t.TempDir(), Log: log}
	cases := map[string]struct {
		change func(*ProviderConfig)
		want   string
	}{
		"no URL":      {func(c *ProviderConfig) { c.AgentURL = "" }, `agent URL "" is invalid`},
		"host alone":  {func(c *ProviderConfig) { c.AgentURL = "127.0.0.1:5051" }, `agent URL "127.0.0.1:5051" is invalid`},
		"scheme":      {func(c *ProviderConfig) { c.AgentURL = "ftp://a/" }, `agent URL "ftp://a/" is invalid`},
		"no state":    {func(c *ProviderConfig) { c.StateDir = "" }, "no state folder given"},
		"state: file": {func(c *ProviderConfig) { c.StateDir = "/dev/null/x" }, "make folder"},
		"no log":      {func(c *ProviderConfig) { c.Log = nil }, "no log given"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bad := good
			c.change(&bad)
			if err := Run(context.Background(), bad); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
