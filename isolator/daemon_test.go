package isolator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	rp "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/internal/wire"
)

// The daemon subscribes what it discovered, and ends with its context.
func TestDaemon(t *testing.T) {
	calls := make(chan *rp.Call, 10)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := new(rp.Call)
		if err := wire.ReadCall(r, call); err != nil {
			wire.WriteError(w, err)
			return
		}
		calls <- call
		if call.Type != rp.CallSubscribe {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		stream, err := wire.NewStream(r)
		if err != nil {
			wire.WriteError(w, err)
			return
		}
		event := &rp.Event{Type: rp.EventSubscribed, Subscribed: &rp.Subscribed{}}
		event.Subscribed.ProviderID.Value = "p"
		stream.Send(event)
		_ = stream.Serve(r.Context(), w, "stream")
	}))
	defer agent.Close()

	log, _ := logtest.NewNullLogger()
	h := host(t)
	d, err := NewDaemon(DaemonConfig{
		AgentURL: agent.URL, StateDir: t.TempDir(), Log: log,
		Discover: func() (gpu.Host, error) { return h, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case call := <-calls:
			if call.Type != rp.CallUpdateState {
				continue
			}
			if n := len(call.UpdateState.Resources); n != 2 {
				t.Errorf("got %d resources, want gpus and gpu_ids", n)
			}
		case <-timeout:
			t.Fatal("no UPDATE_STATE in 20 s")
		}
		break
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestDaemonErrors(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	none := errors.New("no NVIDIA driver")
	good := func() (gpu.Host, error) { return host(t), nil }
	if _, err := NewDaemon(DaemonConfig{Log: log}); err == nil {
		t.Error("no Discover: no error")
	}
	if _, err := NewDaemon(DaemonConfig{Discover: good}); err == nil {
		t.Error("no Log: no error")
	}
	cases := map[string]struct {
		discover func() (gpu.Host, error)
		want     string
	}{
		"no driver": {func() (gpu.Host, error) { return gpu.Host{}, none }, "discover GPUs: no NVIDIA driver"},
		"twice": {func() (gpu.Host, error) {
			d := gpu.Device{UUID: "GPU-a"}
			return gpu.Host{Devices: []gpu.Device{d, d}}, nil
		}, `discover GPUs: two devices have the UUID "GPU-a"`},
		"no agent URL": {good, `advertise GPUs: agent URL "" is none`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, err := NewDaemon(DaemonConfig{Discover: c.discover, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Run(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
