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

// cuts cuts GPU-a alone, into anything but eight.
type cuts struct{}

func (cuts) GPUs() ([]mig.GPU, error) {
	at := layout.Instance{Profile: "1g.6gb", Start: 2, Size: 1}
	return []mig.GPU{{
		UUID: "GPU-a", Model: "A30", Minor: 1, MemMiB: 24576, Layout: []string{"2g.12gb"}, Pending: true, Reason: "in use",
		Instances: []mig.Instance{{Instance: at, Ours: true}}, Profiles: []layout.Profile{{Name: "1g.6gb", ID: 14, Slices: 1, MemMiB: 5952, Max: 4, Size: 1, Starts: []int{0, 1}}},
	}}, nil
}

func (cuts) Ask(uuid string, names []string) (bool, error) {
	switch {
	case uuid != "GPU-a":
		return false, fmt.Errorf("cut GPU %s: %w", uuid, mig.ErrUnknown)
	case len(names) == 8:
		return false, fmt.Errorf("cut GPU %s: %w", uuid, mig.ErrRefused)
	}
	return len(names) == 2, nil
}

// What the API says of GPUs that are cut, word for word, and with what status it
// refuses.
func TestCuttingCalls(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	o := &one{}
	for _, c := range []struct {
		cutting            Cutting
		method, path, body string
		code               int
		want               string
	}{
		{cuts{}, "GET", "/v1/mig", "", 200, `[{"uuid":"GPU-a","model":"A30","minor":1,"mem_mib":24576,"layout":["2g.12gb"],"pending":true,"reason":"in use",` +
			`"instances":[{"profile":"1g.6gb","start":2,"size":1,"ours":true}],"profiles":[{"name":"1g.6gb","id":14,"slices":1,"mem_mib":5952,"max":4,"size":1,"starts":[0,1]}]}]`},
		{nil, "GET", "/v1/mig", "", 200, `[]`},
		{cuts{}, "POST", "/v1/devices/GPU-a/mig", `{"layout":["a","b"]}`, 200, `{"pending":true}`},
		{cuts{}, "POST", "/v1/devices/GPU-a/mig", `{"layout":["a"]}`, 200, `{"pending":false}`},
		{cuts{}, "POST", "/v1/devices/GPU-b/mig", `{"layout":["a"]}`, 404, mig.ErrUnknown.Error()},
		{nil, "POST", "/v1/devices/GPU-a/mig", `{"layout":["a"]}`, 404, mig.ErrUnknown.Error()},
		{cuts{}, "POST", "/v1/devices/GPU-a/mig", `{"layout":["1","2","3","4","5","6","7","8"]}`, 409, mig.ErrRefused.Error()},
		{cuts{}, "POST", "/v1/devices/GPU-a/mig", `[]`, 400, "as JSON"},
	} {
		s, err := New(Config{Containers: asContainers{o}, Devices: asDevices{o}, Cutting: c.cutting, Metrics: http.NotFoundHandler(), Log: log})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		w := httptest.NewRecorder()
		s.routes().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, &peer{})))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, w.Code, w.Body, c.code, c.want)
		}
	}
}
