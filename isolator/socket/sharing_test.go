package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/watch"
)

// oneSharedDevice is a host with one shared device, and the container c with a share of
// it. Other calls panic.
type oneSharedDevice struct {
	ContainerManager
	DeviceMonitor
	share.NoLimiter
	err error
}

func (o *oneSharedDevice) SharedCapacity(uuid string) (gpu.DeviceShare, bool) {
	return gpu.DeviceShare{UUID: uuid, MemMiB: 100, Cores: 150}, uuid == "GPU-a"
}
func (o *oneSharedDevice) IsPending(uuid string) bool { return o.err == nil }
func (o *oneSharedDevice) Set(string, bool) error     { return o.err }

// oneDeviceContainers separates the two interfaces, whose methods Devices differ.
type oneDeviceContainers struct{ *oneSharedDevice }

func (a oneDeviceContainers) Devices(string) ([]string, error) { return []string{"GPU-a"}, a.err }
func (a oneDeviceContainers) Stock() []string                  { return nil }
func (a oneDeviceContainers) Holders() []gpu.ContainerDevices {
	return []gpu.ContainerDevices{{Container: "c", Devices: []string{"GPU-a"}, Shares: []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 40, Cores: 30}}}}
}
func (a oneDeviceContainers) Share(context.Context, string) (containers.ContainerShare, error) {
	return containers.NewContainerShare(gpu.NotEnforced, a.Holders()[0].Shares, share.LimitSetup{}), a.err
}

type oneDeviceMonitor struct{ *oneSharedDevice }

func (oneDeviceMonitor) DeviceStates() []watch.DeviceState {
	return []watch.DeviceState{{Device: gpu.Device{UUID: "GPU-a"}}}
}

func (o *oneSharedDevice) ReadUsage(string) ([]share.ShareUsage, error) {
	return []share.ShareUsage{{UUID: "GPU-a", MemLimitBytes: 40, Cores: 30, Measured: true, MemUsedBytes: 7, Throttled: time.Second}, {UUID: "GPU-b"}}, nil
}

// The exact responses of the API for shared devices, and the statuses of rejections.
func TestSharingCalls(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	o := &oneSharedDevice{}
	s, err := NewServer(ServerConfig{
		Containers: oneDeviceContainers{o},
		Devices:    oneDeviceMonitor{o},
		Modes:      o,
		Limiter:    o,
		Metrics:    http.NotFoundHandler(),
		Log:        log,
	})
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader("{}"))
		r = r.WithContext(context.WithValue(r.Context(), peerKey{}, &peerConn{}))
		w := httptest.NewRecorder()
		s.newHandler().ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Body)
		return w.Code, string(text)
	}
	for _, c := range []struct {
		method, path string
		err          error
		status       int
		want         string
	}{
		{"GET", "/v1/devices", nil, 200,
			`"share":{"shared":true,"pending":true,"mem_mib":100,"cores":150,"limit":"none","shares":[{"container":"c","mem_mib":40,"cores":30}]}`},
		{"GET", "/v1/containers", nil, 200, `[{"container":"c","devices":["GPU-a"],"shares":[{"uuid":"GPU-a","mem_mib":40,"cores":30}]}]`},
		{"GET", "/v1/usage?container=c", nil, 200,
			`"shares":[{"device":"GPU-a","mem_limit_bytes":40,"cores":30,"mem_used_bytes":7,"throttled_seconds":1},{"device":"GPU-b","mem_limit_bytes":0,"cores":0}]`},
		{"GET", "/v1/share?container=c", nil, 200,
			`{"method":"none","shares":[{"uuid":"GPU-a","mem_mib":40,"cores":30}],"mounts":[],"environment":{},"warning":"no limit holds`},
		{"GET", "/v1/share?container=c", &allocation.RejectedError{Why: "MPS does not answer"}, 409, "MPS does not answer"},
		{"GET", "/v1/share?container=c", errors.New("no space"), 500, "no space"},
		{"POST", "/v1/devices/GPU-a/share", nil, 200, `{"pending":true}`},
		{"POST", "/v1/devices/GPU-z/unshare", fmt.Errorf("unshare: %w", share.ErrUnknownDevice), 404, "no such device"},
		{"POST", "/v1/devices/GPU-a/share", fmt.Errorf("share: %w", share.ErrStatic), 409, "agent's flags list its devices"},
		{"GET", "/v1/devices/GPU-a/share", nil, 405, "wants POST"},
	} {
		o.err = c.err
		if status, text := call(c.method, c.path); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.path, status, text, c.status, c.want)
		}
	}
}
