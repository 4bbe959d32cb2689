package proxyconfig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/job"
)

// serviceView returns a service with a running task for each list of ports, on 10.0.0.1,
// 10.0.0.2 and so on.
func serviceView(name string, ports []job.Port, tasks ...[]int) api.JobView {
	j := api.JobView{}
	j.Spec = job.Spec{Name: name, Service: &job.Service{}, Container: job.Container{Ports: ports}}
	for i, held := range tasks {
		j.Tasks = append(j.Tasks, job.Task{Index: i, State: job.Running, AgentURL: "http://10.0.0." + string(rune('1'+i)) + ":5051", Hostname: "host", Ports: held})
	}
	return j
}

// exampleJobs are services of all kinds, and tasks that must get no requests.
func exampleJobs() []api.JobView {
	yes, no := true, false
	web := serviceView("web", []job.Port{{Service: 10080}, {Name: "metrics"}}, []int{31001, 31002}, []int{31003, 31004}, []int{31005, 31006}, []int{31007, 31008}, []int{31009, 31010})
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
    retry-on conn-failure

backend strange
    mode tcp
    balance leastconn

backend web
    mode http
    balance leastconn
    option http-server-close
    retry-on conn-failure
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
