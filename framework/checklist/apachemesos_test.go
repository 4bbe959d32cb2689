//go:build mesos

package checklist

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"syscall"
	"testing"

	"mesos-gpu/internal/testing/apachemesos"
)

// cluster is an Apache Mesos master with agents. The agents offer GPUs by count and do
// not isolate them.
type cluster struct {
	t      testing.TB
	proxy  http.Handler
	agents map[machine]*apachemesos.MesosProcess
}

func newCluster(t testing.TB, _ string, machines []machine) *cluster {
	t.Helper()
	// An agent becomes unreachable after two unanswered pings.
	master := apachemesos.StartMaster(t, "--allocation_interval=100ms", "--agent_ping_timeout=1secs", "--max_agent_ping_timeouts=2").Addr
	c := &cluster{t: t, proxy: newReverseProxy(t, master), agents: map[machine]*apachemesos.MesosProcess{}}
	for _, machine := range machines {
		c.agents[machine] = apachemesos.AgentProcess{Master: master, IP: machine.ip, Flags: agentFlags(machine)}.Start(t)
	}
	for _, agent := range c.agents {
		agent.AwaitReady(t)
	}
	c.awaitAgents(len(machines))
	return c
}

func agentFlags(m machine) []string {
	isolation, resources := "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux", "--resources=cpus:4;mem:2048;disk:4096;ports:[31000-31100]"
	if m.gpus == 0 {
		return []string{isolation, resources, "--attributes=kind:plain"}
	}
	return []string{isolation, fmt.Sprintf("%s;gpus:%d", resources, m.gpus), "--attributes=gpu_type:V100"}
}

// newReverseProxy returns a handler that forwards requests to the master.
func newReverseProxy(t testing.TB, addr string) http.Handler {
	target := &url.URL{Scheme: "http", Host: addr}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1, Transport: transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// awaitAgents polls the master, which sends no events to a client that is not
// subscribed.
func (c *cluster) awaitAgents(n int) {
	w := &testEnv{t: c.t, cluster: c}
	apachemesos.PollUntil(c.t, fmt.Sprintf("%d agents", n), func() bool { return len(w.listAgents()) == n })
}

func (c *cluster) handler() http.Handler { return c.proxy }

// finishTasks does nothing: tasks poll for a file.
func (c *cluster) finishTasks(string) {}

// loseTasks returns false: an agent of Apache Mesos reports the end of every task that it has started.
func (c *cluster) loseTasks(string) bool { return false }

// disconnect stops an agent's process, heal continues it.
func (c *cluster) disconnect(m machine) { c.signalAgent(m, syscall.SIGSTOP) }
func (c *cluster) reconnect(m machine)  { c.signalAgent(m, syscall.SIGCONT) }

func (c *cluster) signalAgent(m machine, s syscall.Signal) {
	c.t.Helper()
	if err := c.agents[m].Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// newSuccessor is the same master at another address: without ZooKeeper, agents of Apache
// Mesos support one master only.
func (c *cluster) newSuccessor(string) *cluster { return c }
func (c *cluster) registerAgents()              {}

// newExecutorEnv returns a world whose agents run executors, as all do in this build.
func newExecutorEnv(t *testing.T) *testEnv { t.Helper(); return newTestEnv(t, gpuAgent) }
