//go:build marathonclients

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// The tests of clients concern the API: they use no program with the race detector.
func init() { binaryFlags = nil }

// python is Debian's interpreter, for which Debian has the modules that the clients import.
const python = "/usr/bin/python3"

// requireSource returns the folder of a client's source. The test is skipped if it is absent.
func requireSource(t *testing.T, client, repository string) string {
	t.Helper()
	dir := filepath.Join(os.Getenv("MESOS_GPU_MARATHON_CLIENTS"), client)
	if _, err := os.Stat(dir); err != nil || os.Getenv("MESOS_GPU_MARATHON_CLIENTS") == "" {
		t.Skipf("needs the source of %s: clone %s into the folder of make test-marathon CLIENTS=DIR", client, repository)
	}
	return dir
}

// requirePython skips the test if a module is absent.
func requirePython(t *testing.T, modules, packages string) {
	t.Helper()
	if out, err := exec.Command(python, "-c", "import "+modules).CombinedOutput(); err != nil {
		t.Skipf("needs Debian's %s: %v\n%s", packages, err, out)
	}
}

// buildClient builds the main package of a module. Modules that are not in its go.sum are added.
func buildClient(t *testing.T, module string) string {
	t.Helper()
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "client")
	if err := os.CopyFS(dir, os.DirFS(module)); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-mod=mod", "-o", program, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", module, err, out)
	}
	return program
}

// startMarathon starts a cluster with the released program. It returns when the scheduler leads:
// go-marathon, which Traefik uses, does not repeat a request that is answered with 503. Apps
// without GPUs use the agent too.
func startMarathon(t *testing.T, args ...string) *cluster {
	t.Helper()
	c := startDaemon(t, buildReleased(t), append([]string{
		"local", "--free-ports", "--process-user=", "--gpu-scheduling-behavior", "unrestricted", "--work-dir",
		makeWorkDir(t),
	}, args...)...)
	c.mustCallMarathon(http.MethodGet, "/info", "")
	return c
}

// webAppDefinition returns an app that answers requests, with further fields.
func webAppDefinition(t *testing.T, instances int, fields string) string {
	t.Helper()
	program := filepath.Join(makeWorkDir(t), "server.py")
	if err := os.WriteFile(program, []byte(drainingServer), 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"id": "/web", "cmd": "exec python3 %s", "cpus": 0.05, "mem": 64, "instances": %d, "portDefinitions": [{"port": 0, "name": "http"}], "taskKillGracePeriodSeconds": 20, "backoffSeconds": 1, %s}`,
		program, instances, fields)
}

const webHealthCheck = `"healthChecks": [{"protocol": "HTTP", "path": "/", "portIndex": 0, "intervalSeconds": 1}]`

// drainingServer answers with its task's number. After SIGTERM it ends when it has got no request
// for two seconds: the load balancer has read the configuration without it by then.
const drainingServer = `
import http.server, os, signal, threading, time
last = time.monotonic()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global last
        last = time.monotonic()
        text = os.environ["MESOS_TASK_ID"].encode() if "MESOS_TASK_ID" in os.environ else b"task"
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("", int(os.environ["PORT0"])), Answer)
server.daemon_threads = False
def end(*args):
    global last
    last = time.monotonic()
    def drain():
        while time.monotonic() - last < 2:
            time.sleep(0.1)
        server.shutdown()
    threading.Thread(target=drain).start()
signal.signal(signal.SIGTERM, end)
server.serve_forever()
server.server_close()
`

// awaitInstances waits until n instances run, serve and have no deployment, and returns the
// sorted addresses of all.
func (c *cluster) awaitInstances(n int) (addresses []string) {
	c.t.Helper()
	view := c.awaitApp("/web", fmt.Sprintf("run %d instances", n), func(a *appView) bool {
		return a.isUpToDate() && a.Instances == n && a.TasksRunning == n
	})
	for _, task := range view.Tasks {
		addresses = append(addresses, net.JoinHostPort(task.Host, strconv.Itoa(task.Ports[0])))
	}
	slices.Sort(addresses)
	return addresses
}

// TestMarathonClientPython runs the acceptance suite of marathon-python. The suite requires the API
// at port 18080, and one of its apps mounts two paths of the agent.
func TestMarathonClientPython(t *testing.T) {
	source := requireSource(t, "marathon-python", "https://github.com/thefactory/marathon-python")
	requirePython(t, "behave, requests, requests_toolbelt", "python3-behave, python3-requests and python3-requests-toolbelt")
	startMarathon(t, "--listen", "127.0.0.1:18080", "--allow-volumes", "/etc/stuff,/root/.dockercfg")
	suite := exec.Command(python, "-B", "-m", "behave", "--no-color", ".")
	suite.Dir, suite.Env = filepath.Join(source, "itests"), append(os.Environ(), "PYTHONPATH="+source)
	out, err := suite.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", regexp.MustCompile(`(?m)^\d+ scenarios passed.*$`).Find(out))
}

// haproxyHead is the part of HAProxy's configuration that marathon-lb does not generate. Its own
// one loads files of its container image.
const haproxyHead = `global
  stats socket %s expose-fd listeners level admin
defaults
  retries 3
  option redispatch
  timeout connect 3s
  timeout client 30s
  timeout server 30s
`

// TestMarathonClientLoadBalancer runs marathon-lb with HAProxy. The instances of an app with the
// default service port are reachable at that port, and remain so while the app is upgraded.
func TestMarathonClientLoadBalancer(t *testing.T) {
	source := requireSource(t, "marathon-lb", "https://github.com/mesosphere/marathon-lb")
	testneeds.RequireProgram(t, "haproxy", "haproxy")
	requirePython(t, "requests, pycurl, dateutil, cryptography, jwt, six",
		"python3-requests, python3-pycurl, python3-dateutil, python3-cryptography, python3-jwt and python3-six")
	dir, bind := t.TempDir(), freeAddress(t)
	config, pid, reload := filepath.Join(dir, filepath.Base(dir)+"-haproxy.cfg"), filepath.Join(dir, "haproxy.pid"), filepath.Join(dir, "reload.sh")
	script := fmt.Sprintf("if [ -s %[1]s ]; then kill -USR2 $(head -n 1 %[1]s); else haproxy -W -D -p %[1]s -f %[2]s; fi", pid, config)
	if err := os.WriteFile(reload, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	port := bind[strings.LastIndexByte(bind, ':')+1:]
	c := startMarathon(t, "--marathon-service-ports", port+"-"+port)
	t.Setenv("HAPROXY_HEAD", fmt.Sprintf(haproxyHead, filepath.Join(dir, "haproxy.sock")))
	balancer := startProcess(t, python, "-B", filepath.Join(source, "marathon_lb.py"), "--marathon", c.api, "--group", "external", "--haproxy-config", config,
		"--sse", "--health-check", "--dont-bind-http-https", "--command", "sh "+reload, "--archive-versions", "1", "--syslog-socket", "/dev/null")
	t.Cleanup(func() {
		if text, err := os.ReadFile(pid); err == nil {
			if process, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || syscall.Kill(process, syscall.SIGTERM) != nil {
				t.Errorf("HAProxy's process %q: %v", text, err)
			}
		}
		os.Remove(filepath.Join("/tmp", filepath.Base(config)+".1")) // marathon-lb copies each configuration there
	})

	app := func(env string) string {
		return webAppDefinition(t, 2, webHealthCheck+
			`, "upgradeStrategy": {"minimumHealthCapacity": 1, "maximumOverCapacity": 1}, "labels": {"HAPROXY_GROUP": "external", "HAPROXY_0_MODE": "http"}, "env": {"RELEASE": "`+
			env+`"}`)
	}
	c.mustCallMarathon(http.MethodPost, "/apps", app("1"))
	awaitServers := func(n int) []string {
		t.Helper()
		addresses := c.awaitInstances(n)
		awaitCondition(t, balancer, func() error {
			text, err := os.ReadFile(config)
			var servers []string
			for _, m := range regexp.MustCompile(`(?m)^  server \S+ (\S+)`).FindAllStringSubmatch(string(text), -1) {
				servers = append(servers, m[1])
			}
			slices.Sort(servers)
			if err == nil && !slices.Equal(servers, addresses) {
				err = fmt.Errorf("servers %v, want %v", servers, addresses)
			}
			return err
		})
		return addresses
	}
	awaitServers(2)
	awaitAnswer(t, bind, balancer)

	stop, done := make(chan struct{}), make(chan struct{})
	var answered, failed atomic.Int64
	var causes []error
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := requestService(http.MethodGet, bind); err != nil {
				failed.Add(1)
				causes = append(causes, err)
			} else {
				answered.Add(1)
			}
		}
	}()
	c.mustCallMarathon(http.MethodPut, "/apps/web", app("2"))
	awaitServers(2)
	for _, n := range []int{4, 1} {
		c.mustCallMarathon(http.MethodPatch, "/apps/web", fmt.Sprintf(`{"instances": %d}`, n))
		awaitServers(n)
	}
	close(stop)
	<-done
	if failed.Load() > 0 || answered.Load() < 20 {
		t.Errorf("%d requests were answered and %d failed: %v\n%s", answered.Load(), failed.Load(), errors.Join(causes...), balancer.output)
	}
	t.Logf("%d requests were answered during an upgrade and two changes of the scale, %d failed", answered.Load(), failed.Load())
}

// TestMarathonClientTraefik runs Traefik's provider. Its servers follow upgrade, scale and removal
// of an app, and at least one serves during the upgrade though the provider leaves out instances
// that are not ready.
func TestMarathonClientTraefik(t *testing.T) {
	program := buildClient(t, filepath.Join("testdata", "traefikprovider"))
	c := startMarathon(t)
	provider := startProcess(t, program, c.api)
	configurations := func() (all [][]string) {
		for line := range strings.Lines(provider.output.String()) {
			var v struct {
				HTTP struct {
					Services map[string]struct {
						LoadBalancer struct{ Servers []struct{ URL string } }
					}
				}
			}
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				continue // a line of its log, or not complete
			}
			servers := []string{}
			for _, service := range v.HTTP.Services {
				for _, server := range service.LoadBalancer.Servers {
					at, err := url.Parse(server.URL)
					if err != nil {
						t.Fatal(err)
					}
					servers = append(servers, at.Host)
				}
			}
			slices.Sort(servers)
			all = append(all, servers)
		}
		return all
	}
	awaitServers := func(addresses []string) {
		t.Helper()
		awaitCondition(t, provider, func() error {
			if all := configurations(); len(all) == 0 || !slices.Equal(all[len(all)-1], addresses) {
				return fmt.Errorf("configurations %v, want %v in the last one", all, addresses)
			}
			return nil
		})
	}
	app := func(env string) string {
		return webAppDefinition(t, 4, webHealthCheck+`, "readinessChecks": [{"portName": "http", "intervalSeconds": 3, "timeoutSeconds": 2}],
			"upgradeStrategy": {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}, "env": {"RELEASE": "`+env+`"}`)
	}
	c.mustCallMarathon(http.MethodPost, "/apps", app("1"))
	first := c.awaitInstances(4)
	awaitServers(first)
	before := len(configurations())
	c.mustCallMarathon(http.MethodPut, "/apps/web", app("2"))
	second := c.awaitInstances(4)
	awaitServers(second)
	if slices.Equal(first, second) {
		t.Errorf("the upgrade replaced no instance: %v", first)
	}
	for _, servers := range configurations()[before:] {
		if len(servers) == 0 {
			t.Errorf("no server serves during the upgrade: %v", configurations()[before:])
		}
	}
	t.Logf("servers during the upgrade: %v", configurations()[before:])
	c.mustCallMarathon(http.MethodPatch, "/apps/web", `{"instances": 1}`)
	awaitServers(c.awaitInstances(1))
	c.mustCallMarathon(http.MethodDelete, "/apps/web", "")
	awaitServers([]string{})
}

// consulAgent is the part of Consul's API that marathon-consul calls.
type consulAgent struct {
	mu       sync.Mutex
	services map[string]consulService // by id
}

type consulService struct {
	ID, Name, Address string
	Port              int
	Tags              []string
}

func (a *consulAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var answer any
	switch path := r.URL.Path; {
	case path == "/v1/agent/service/register":
		var s consulService
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.services[s.ID] = s
	case strings.HasPrefix(path, "/v1/agent/service/deregister/"):
		delete(a.services, strings.TrimPrefix(path, "/v1/agent/service/deregister/"))
	case path == "/v1/catalog/datacenters":
		answer = []string{"dc1"}
	case path == "/v1/catalog/services":
		tags := map[string][]string{}
		for _, s := range a.services {
			tags[s.Name] = append(tags[s.Name], s.Tags...)
		}
		answer = tags
	case strings.HasPrefix(path, "/v1/catalog/service/"):
		list := []map[string]any{}
		for _, s := range a.services {
			if tag := r.URL.Query().Get("tag"); tag != "" && !slices.Contains(s.Tags, tag) {
				continue
			}
			list = append(list, map[string]any{
				"Address":        s.Address,
				"ServiceID":      s.ID,
				"ServiceName":    s.Name,
				"ServiceAddress": s.Address,
				"ServicePort":    s.Port,
				"ServiceTags":    s.Tags,
			})
		}
		answer = list
	default:
		http.NotFound(w, r)
		return
	}
	if answer != nil {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// addresses returns the sorted addresses of the registered services.
func (a *consulAgent) addresses() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []string{}
	for _, s := range a.services {
		all = append(all, net.JoinHostPort(s.Address, strconv.Itoa(s.Port)))
	}
	slices.Sort(all)
	return all
}

// TestMarathonClientConsul runs marathon-consul. It registers each instance once it is healthy
// and removes it when it ends, by events alone: its periodic comparison is not due.
func TestMarathonClientConsul(t *testing.T) {
	program := buildClient(t, requireSource(t, "marathon-consul", "https://github.com/allegro/marathon-consul"))
	consul := &consulAgent{services: map[string]consulService{}}
	server := httptest.NewServer(consul)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := startMarathon(t)
	client := startProcess(t, program, "--marathon-location="+strings.TrimPrefix(c.api, "http://"), "--marathon-leader=*",
		"--consul-port="+port, "--consul-local-agent-host=127.0.0.1",
		"--sync-interval=1h", "--listen=127.0.0.1:0", "--metrics-target=", "--log-level=debug")
	awaitServices := func(addresses []string) {
		t.Helper()
		awaitCondition(t, client, func() error {
			if got := consul.addresses(); !slices.Equal(got, addresses) {
				return fmt.Errorf("registered %v, want %v", got, addresses)
			}
			return nil
		})
	}
	c.mustCallMarathon(http.MethodPost, "/apps", webAppDefinition(t, 4, webHealthCheck+`, "labels": {"consul": "web"}`))
	awaitServices(c.awaitInstances(4))
	c.mustCallMarathon(http.MethodPatch, "/apps/web", `{"instances": 1}`)
	awaitServices(c.awaitInstances(1))
	c.mustCallMarathon(http.MethodPost, "/apps/web/restart", "")
	awaitServices(c.awaitInstances(1))
	c.mustCallMarathon(http.MethodDelete, "/apps/web", "")
	awaitServices([]string{})
}
