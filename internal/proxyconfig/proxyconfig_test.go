package proxyconfig

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// serviceView returns a service with a running task for each list of ports, on 10.0.0.1,
// 10.0.0.2 and so on.
func serviceView(name string, ports []job.Port, tasks ...[]int) api.JobView {
	j := api.JobView{}
	j.Spec = &job.Spec{Name: name, Service: &job.Service{}, Container: job.Container{Ports: ports}}
	for i, held := range tasks {
		j.Tasks = append(j.Tasks, job.Task{Index: i, State: job.Running, AgentURL: "http://10.0.0." + string(rune('1'+i)) + ":5051", Hostname: "host", Ports: held})
	}
	return j
}

// exampleJobs are services of all kinds, and tasks that must get no requests.
func exampleJobs() []api.JobView {
	yes, no := true, false
	web := serviceView("web", []job.Port{{Service: 10080}, {Name: "metrics"}}, []int{31001, 31002}, []int{31003, 31004},
		[]int{31005, 31006}, []int{31007, 31008}, []int{31009, 31010})
	web.Spec.HealthCheck = &job.HealthCheck{Check: job.Check{HTTP: &job.HTTPCheck{Path: "/health"}}}
	web.Tasks[0].Healthy, web.Tasks[1].Healthy, web.Tasks[2].Healthy = &yes, &yes, &no // 3 is not checked yet
	web.Tasks[4].Healthy, web.Tasks[4].KillRequested = &yes, time.Unix(1, 0)
	grpc := serviceView("grpc.v1", []job.Port{{Service: 10081}, {Protocol: job.UDP}}, []int{32000, 32001})
	starting := serviceView("starting", []job.Port{{Name: "http"}}, []int{33000})
	starting.Tasks[0].State = job.Starting
	batch := serviceView("batch", []job.Port{{}}, []int{34000})
	batch.Spec.Service = nil
	ended := serviceView("ended", []job.Port{{}}, []int{34001})
	ended.Terminal = true
	strange := serviceView("strange", []job.Port{{}}, []int{35000})
	strange.Tasks[0].AgentURL, strange.Tasks[0].Hostname = "", "a b\n server evil"
	return []api.JobView{web, grpc, starting, batch, ended, strange}
}

const wantHAProxy = `# Written by mesos-gpu service-config.
global
    stats socket /run/haproxy.sock mode 600 level admin expose-fd listeners

defaults
    timeout connect 3s
    timeout client 10m
    timeout server 10m
    timeout tunnel 1h
    retries 3
    option redispatch 1

frontend mesos-gpu-http
    mode http
    bind 127.0.0.1:18080
    option forwardfor
    use_backend starting if { req.hdr(host),host_only -i -m str starting } || { req.hdr(host) -i -m beg starting. }
    use_backend web if { req.hdr(host),host_only -i -m str web } || { req.hdr(host) -i -m beg web. }

frontend port-10081
    mode tcp
    bind :10081
    default_backend grpc.v1

frontend port-10080
    mode http
    bind :10080
    default_backend web

backend grpc.v1
    mode tcp
    balance leastconn
    server grpc.v1.0 10.0.0.1:32000

backend starting
    mode http
    balance leastconn
    option http-server-close
    retry-on conn-failure empty-response
    http-request disable-l7-retry unless { method GET HEAD OPTIONS PUT DELETE }

backend strange
    mode tcp
    balance leastconn

backend web
    mode http
    balance leastconn
    option http-server-close
    retry-on conn-failure empty-response
    http-request disable-l7-retry unless { method GET HEAD OPTIONS PUT DELETE }
    server web.0 10.0.0.1:31001
    server web.1 10.0.0.2:31003

backend web-metrics
    mode tcp
    balance leastconn
    server web.0 10.0.0.1:31002
    server web.1 10.0.0.2:31004
`

func TestHAProxyConfiguration(t *testing.T) {
	got := WriteHAProxy(ListEndpoints(exampleJobs()), HAProxySettings{Bind: "127.0.0.1:18080", StatsSocket: "/run/haproxy.sock"})
	if diff := cmp.Diff(wantHAProxy, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if plain := WriteHAProxy(nil, HAProxySettings{}); strings.Contains(plain, "frontend") || strings.Contains(plain, "socket") {
		t.Errorf("without services:\n%s", plain)
	}
}

// HAProxy itself accepts the configuration.
func TestHAProxyAcceptsConfiguration(t *testing.T) {
	testneeds.RequireProgram(t, "haproxy", "haproxy")
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	for _, text := range []string{wantHAProxy, WriteHAProxy(nil, HAProxySettings{Bind: ":18080"})} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "haproxy", "-c", "-f", file).CombinedOutput(); err != nil || strings.Contains(string(out), "WARNING") {
			t.Errorf("%v\n%s\n%s", err, out, text)
		}
	}
}

// A task that ends before HAProxy knows it closes connections without a response. HAProxy sends
// requests that may be repeated to another task.
func TestHAProxyRepeatsRequestsOfEndedTasks(t *testing.T) {
	testneeds.RequireProgram(t, "haproxy", "haproxy")
	ending, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ending.Close() })
	var closed atomic.Int64
	go func() {
		for {
			c, err := ending.Accept()
			if err != nil {
				return
			}
			closed.Add(1)
			c.Close()
		}
	}()
	serving := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method) }))
	t.Cleanup(serving.Close)
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "haproxy.cfg"), filepath.Join(dir, "http")
	endpoint := Endpoint{
		Name:    "web",
		Job:     "web",
		First:   true,
		HTTP:    true,
		Servers: []Server{{"web.0", ending.Addr().String()}, {"web.1", serving.Listener.Addr().String()}},
	}
	if err := os.WriteFile(file, []byte(WriteHAProxy([]Endpoint{endpoint}, HAProxySettings{Bind: "unix@" + socket})), 0o600); err != nil {
		t.Fatal(err)
	}
	balancer := exec.Command("haproxy", "-W", "-S", filepath.Join(dir, "master"), "-f", file)
	if err := balancer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = balancer.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = balancer.Wait()                          // by a signal
	})
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	send := func(method string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://web/", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	apachemesos.PollUntil(t, "HAProxy to serve", func() bool {
		_, err := send("HEAD")
		return err == nil
	})
	for _, method := range []string{"GET", "PUT", "DELETE", "GET"} {
		if status, err := send(method); status != http.StatusOK {
			t.Errorf("%s: status %d, %v", method, status, err)
		}
	}
	if closed.Load() == 0 {
		t.Error("no request was sent to the task that ends")
	}
	failed := 0
	for range 4 {
		status, err := send("POST")
		if err != nil {
			t.Error(err)
		}
		if status == http.StatusBadGateway {
			failed++
		}
	}
	if failed == 0 {
		t.Error("HAProxy repeated a POST, which may have had an effect")
	}
}

func TestTraefikConfiguration(t *testing.T) {
	got, err := WriteTraefik(ListEndpoints(exampleJobs()), "gpu.example.org")
	if err != nil {
		t.Fatal(err)
	}
	want := "# Written by mesos-gpu service-config.\n" + `http:
    routers:
        web:
            rule: Host(` + "`web.gpu.example.org`" + `)
            service: web
    services:
        web:
            loadBalancer:
                servers:
                    - url: http://10.0.0.1:31001
                    - url: http://10.0.0.2:31003
tcp:
    services:
        grpc.v1:
            loadBalancer:
                servers:
                    - address: 10.0.0.1:32000
        web-metrics:
            loadBalancer:
                servers:
                    - address: 10.0.0.1:31002
                    - address: 10.0.0.2:31004
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if bare, err := WriteTraefik(ListEndpoints(exampleJobs()), ""); err != nil || !strings.Contains(bare, "Host(`web`)") {
		t.Errorf("without a domain: %v\n%s", err, bare)
	}
}

// Names of endpoints are unique and safe, also if a job is named like another one's port.
func TestEndpointNames(t *testing.T) {
	list := ListEndpoints([]api.JobView{
		serviceView("a", []job.Port{{}, {}, {Name: "x y\n"}}), serviceView("a-1", []job.Port{{}}),
	})
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	if diff := cmp.Diff([]string{"a", "a-1", "a-1-2", "a-x_y_"}, names); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
