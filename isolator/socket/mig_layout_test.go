package socket

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/isolator/layout"
	"mesos-gpu/isolator/mig"
)

// fakePartitioner partitions only GPU-a, into any number of MIG devices except eight.
type fakePartitioner struct{}

func (fakePartitioner) ListGPUs() ([]mig.PartitionedGPU, error) {
	at := layout.GPUInstance{Profile: "1g.6gb", Start: 2, Size: 1}
	return []mig.PartitionedGPU{{
		UUID: "GPU-a", Model: "A30", Minor: 1, MemMiB: 24576, Layout: []string{"2g.12gb"}, Pending: true, Reason: "in use",
		Instances: []mig.InstanceStatus{{GPUInstance: at, Ours: true}}, Profiles: []layout.InstanceProfile{{Name: "1g.6gb",
			ID: 14, Slices: 1, MemMiB: 5952, Max: 4, Size: 1, Starts: []int{0, 1}}},
	}}, nil
}

func (fakePartitioner) RequestLayout(uuid string, names []string) (bool, error) {
	switch {
	case uuid != "GPU-a":
		return false, fmt.Errorf("cut GPU %s: %w", uuid, mig.ErrUnknownGPU)
	case len(names) == 8:
		return false, fmt.Errorf("cut GPU %s: %w", uuid, mig.ErrLayoutRejected)
	}
	return len(names) == 2, nil
}

// The exact responses of the API for MIG layouts, and the statuses of rejections.
func TestMIGLayoutCalls(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	o := &oneSharedDevice{}
	for _, c := range []struct {
		cutting            MIGPartitioner
		method, path, body string
		code               int
		want               string
	}{
		{fakePartitioner{}, "GET", "/v1/mig", "", 200, `[{"uuid":"GPU-a","model":"A30","minor":1,"mem_mib":24576,"layout":["2g.12gb"],"pending":true,"reason":"in use",` +
			`"instances":[{"profile":"1g.6gb","start":2,"size":1,"ours":true}],"profiles":[{"name":"1g.6gb","id":14,"slices":1,"mem_mib":5952,"max":4,"size":1,"starts":[0,1]}]}]`},
		{nil, "GET", "/v1/mig", "", 200, `[]`},
		{fakePartitioner{}, "POST", "/v1/devices/GPU-a/mig", `{"layout":["a","b"]}`, 200, `{"pending":true}`},
		{fakePartitioner{}, "POST", "/v1/devices/GPU-a/mig", `{"layout":["a"]}`, 200, `{"pending":false}`},
		{fakePartitioner{}, "POST", "/v1/devices/GPU-b/mig", `{"layout":["a"]}`, 404, mig.ErrUnknownGPU.Error()},
		{nil, "POST", "/v1/devices/GPU-a/mig", `{"layout":["a"]}`, 404, mig.ErrUnknownGPU.Error()},
		{fakePartitioner{}, "POST", "/v1/devices/GPU-a/mig", `{"layout":["1","2","3","4","5","6","7","8"]}`, 409, mig.ErrLayoutRejected.Error()},
		{fakePartitioner{}, "POST", "/v1/devices/GPU-a/mig", `[]`, 400, "as JSON"},
	} {
		s, err := NewServer(ServerConfig{
			Containers:     oneDeviceContainers{o},
			Devices:        oneDeviceMonitor{o},
			MIGPartitioner: c.cutting,
			Metrics:        http.NotFoundHandler(),
			Log:            log,
		})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		w := httptest.NewRecorder()
		s.newHandler().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, &peerConn{})))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, w.Code, w.Body, c.code, c.want)
		}
	}
}
