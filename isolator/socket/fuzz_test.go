package socket_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
)

// For any bytes on the socket, the server answers or closes the connection and never
// panics. A rejected request changes nothing.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"container":"c"}`, `{"containers":["c","c.d"]}`, `{"container":"d","resources":[{"name":"gpus","scalar":1}]}`, `{"container":"c","pid":1}`,
		`{"container":"c","resources":[{"name":"gpus","scalar":1e308},{"name":"gpu_ids","set":["GPU-0",""]}]}`, `{"container":"c.x","rootfs":true}`,
	} {
		for _, path := range []string{"recover", "prepare", "isolate", "update", "cleanup"} {
			f.Add(post("/v1/"+path, len(body), body))
		}
	}
	f.Add("GET /v1/devices HTTP/1.1\r\nHost: a\r\n\r\n")
	f.Add("GET /v1/status?container=c HTTP/1.1\r\nHost: a\r\n\r\nPOST /v1/cleanup HTTP/1.0\r\n\r\n")
	f.Add("POST /v1/devices/GPU-0/cordon HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"rea\r\n")
	d := started(f)
	launch := containers.LaunchRequest{Container: "c", Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}}}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/v1/conditions") {
			t.Skip("a stream has no end")
		}
		if err := d.containers.Recover(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := d.containers.Prepare(t.Context(), launch); err != nil {
			t.Fatal(err)
		}
		held, states := d.containers.Holders(), d.devices.DeviceStates()
		c := dial(t, d.path)
		_, _ = c.Write([]byte(text))
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		answers := bufio.NewReader(c)
		for {
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				break
			}
			if answer.StatusCode == http.StatusInternalServerError {
				t.Errorf("a fault: %q", text)
			}
			if answer.StatusCode == http.StatusOK {
				return // a valid request, or one at the start of the bytes
			}
			answer.Body.Close()
		}
		if diff := cmp.Diff(held, d.containers.Holders()); diff != "" {
			t.Errorf("%q was refused and changed what is held:\n%s", text, diff)
		}
		if diff := cmp.Diff(states, d.devices.DeviceStates()); diff != "" {
			t.Errorf("%q was refused and changed a device:\n%s", text, diff)
		}
	})
}
