//go:build mesos

package chaos

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/clustersetup"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/zktest"
)

// host is a network namespace with its programs.
type host struct {
	name, ip string
}

// program is a process that is restarted when it ends, as by systemd.
type program struct {
	name, group string
	host        *host
	command     []string
	log         string
	history     *historyFile

	mu      sync.Mutex
	process *os.Process // nil while it does not run
	held    bool        // it is not started
	release *sync.Cond  // held has become false, or the run has ended
}

const restartPause = time.Second

// supervise runs the program until ctx ends.
func (p *program) supervise(ctx context.Context) {
	// The kernel sends Pdeathsig when the thread ends that has started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stopWaiting := context.AfterFunc(ctx, func() { p.signal(syscall.SIGKILL); p.setHeld(false) })
	defer stopWaiting()
	for {
		cmd, err := p.start(ctx)
		if cmd == nil {
			if err != nil {
				p.history.record(Event{Kind: ProcessExited, Job: p.name, Detail: err.Error()})
			}
			return
		}
		err = cmd.Wait()
		p.mu.Lock()
		p.process = nil
		expected := p.held || ctx.Err() != nil
		p.mu.Unlock()
		if !expected {
			p.history.record(Event{Kind: ProcessExited, Job: p.name, Detail: fmt.Sprint(err)})
		}
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
		}
	}
}

// start starts the program once it is not held. It returns nil if ctx has ended or the start
// has failed.
func (p *program) start(ctx context.Context) (*exec.Cmd, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held && ctx.Err() == nil {
		p.release.Wait()
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// The UTS namespace gives each agent its own hostname: tasks record it, and simulated GPUs
	// are numbered by it.
	args := append([]string{"--net=/run/netns/" + prefix + p.host.name, "unshare", "--uts", "sh", "-c",
		`echo "$0" >/proc/sys/kernel/hostname; exec "$@"`, p.host.name}, p.command...)
	cmd := exec.Command("nsenter", args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.process = cmd.Process
	return cmd, nil
}

// signal sends a signal to the process, if it runs.
func (p *program) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		_ = p.process.Signal(s) // it may have ended
	}
}

// awaitEnd waits until the process, which was killed, has ended.
func (p *program) awaitEnd() {
	for ended := false; !ended; time.Sleep(10 * time.Millisecond) {
		p.mu.Lock()
		ended = p.process == nil
		p.mu.Unlock()
	}
}

// setHeld prevents or permits that the program starts.
func (p *program) setHeld(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.release.Broadcast()
}

// chaosCluster is 3 ZooKeepers, 3 masters, 3 schedulers and 5 agents, each with its daemon.
//
// There are 3 masters because the registry is a replicated log: its quorum is a majority, so 2
// masters would stop when one fails, and a new log is initialized by 2*quorum-1 replicas.
type chaosCluster struct {
	t       *testing.T
	binary  string
	module  string // the agents' module, or ""
	dir     string
	logs    string
	history *historyFile
	network *network
	// authority is nil without TLS.
	authority *authority
	// tls has the groups of programs that serve HTTPS.
	tls      map[string]*tls.Config
	hosts    []*host
	programs []*program
}

const (
	zooKeepers, masters, schedulers, agents = 3, 3, 3, 5
	agentGPUs                               = "2xV100"

	// pingTimeout and pingTimeouts are how long a master waits for an agent's answer, and how many
	// answers must be missing before it removes the agent.
	pingTimeout, pingTimeouts = 3 * time.Second, 4
)

// startCluster starts the processes until the test ends. It returns when the master and the
// scheduler with the numbers in leaders lead, and does not wait until the other processes serve.
// module is the path of the agents' module, or "". With TLS, all connections to and of masters, agents, daemons and schedulers but those
// of the schedulers' own API have it.
func startCluster(t *testing.T, binary, module string, withTLS bool, logs string, history *historyFile, leaders map[string]int) *chaosCluster {
	t.Helper()
	c := &chaosCluster{t: t, binary: binary, module: module, logs: logs, history: history, dir: "/var/tmp/" + prefix + "run"}
	if withTLS {
		c.authority = newAuthority(t)
		c.tls = map[string]*tls.Config{"master": c.authority.clientConfig()}
	}
	for i := range agents {
		apachemesos.RemoveCgroups(t, agentCgroup(i)) // of a killed run
	}
	if err := os.RemoveAll(c.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(c.dir); err != nil {
			t.Error(err)
		}
	})
	c.network = startNetwork(t)
	for i := range zooKeepers {
		c.addProgram(fmt.Sprintf("zk%d", i), "zookeeper", c.addHost("zk", i, 11), c.zooKeeperCommand(i))
	}
	for i := range masters {
		h := c.addHost("master", i, 21)
		command := append([]string{apachemesos.LookupProgram(t, "mesos-master")}, apachemesos.ListenFlags(h.ip+":5050")...)
		if withTLS {
			_, env := c.createTLSEnv(h)
			command = slices.Concat([]string{"env"}, env, command)
		}
		c.addProgram(h.name, "master", h, append(command, "--zk="+c.zooKeeperURL("/mesos"), "--quorum=2", "--registry=replicated_log",
			"--work_dir="+filepath.Join(c.dir, h.name), "--allocation_interval=500ms", "--zk_session_timeout=5secs",
			fmt.Sprintf("--agent_ping_timeout=%.0fsecs", pingTimeout.Seconds()), fmt.Sprint("--max_agent_ping_timeouts=", pingTimeouts)))
	}
	for i := range schedulers {
		h := c.addHost("sched", i, 31)
		command := []string{binary, "scheduler", "--log-level", "debug", "--master",
			c.zooKeeperURL("/mesos"), "--journal", c.zooKeeperURL("/mesos-gpu"),
			"--listen", h.ip + ":8080", "--insecure-api", "--executor", binary, "--process-user", "root",
			"--unreachable-timeout", "20s", "--gpu-scheduling-behavior", "unrestricted"}
		if withTLS {
			dir, _ := c.createTLSEnv(h)
			command = append(command, "--tls-ca", filepath.Join(dir, "ca.pem"))
		}
		c.addProgram(h.name, "scheduler", h, command)
	}
	for i := range agents {
		c.addAgent(i)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	for group, leader := range leaders {
		for i, p := range c.programsOf(group) {
			p.held = i != leader
		}
	}
	for _, p := range c.programs {
		running.Go(func() { p.supervise(ctx) })
	}
	for _, group := range slices.Sorted(maps.Keys(leaders)) { // the scheduler needs the master
		programs := c.programsOf(group)
		want := programs[leaders[group]].host
		apachemesos.PollUntil(t, want.name+" to lead", func() bool { return c.findLeader(group) == want })
		for _, p := range programs {
			p.setHeld(false)
		}
	}
	return c
}

// programsOf returns the programs of a group.
func (c *chaosCluster) programsOf(group string) []*program {
	return slices.DeleteFunc(slices.Clone(c.programs), func(p *program) bool { return p.group != group })
}

// findProgram returns the program of a group on a host.
func (c *chaosCluster) findProgram(group string, h *host) *program {
	for _, p := range c.programsOf(group) {
		if p.host == h {
			return p
		}
	}
	c.t.Fatalf("no %s on %s", group, h.name)
	return nil
}

func agentCgroup(i int) string { return fmt.Sprintf("%sagent%d", prefix, i) }

func (c *chaosCluster) addHost(group string, i, first int) *host {
	c.t.Helper()
	h := &host{fmt.Sprintf("%s%d", group, i), fmt.Sprintf("%s%d", subnet, first+i)}
	c.network.addHost(h.name, h.ip)
	c.hosts = append(c.hosts, h)
	return h
}

func (c *chaosCluster) addProgram(name, group string, h *host, command []string) {
	p := &program{name: name, group: group, host: h, command: command, log: filepath.Join(c.logs, name+".log"), history: c.history}
	p.release = sync.NewCond(&p.mu)
	c.programs = append(c.programs, p)
}

func (c *chaosCluster) zooKeeperURL(path string) string {
	var addrs []string
	for i := range zooKeepers {
		addrs = append(addrs, fmt.Sprintf("%s%d:2181", subnet, 11+i))
	}
	return "zk://" + strings.Join(addrs, ",") + path
}

func (c *chaosCluster) zooKeeperCommand(i int) []string {
	c.t.Helper()
	dir := c.makeDir(fmt.Sprintf("zk%d", i))
	config := fmt.Sprintf("dataDir=%s\nclientPort=2181\ntickTime=500\ninitLimit=20\nsyncLimit=6\nadmin.enableServer=false\nmaxClientCnxns=0\n", dir)
	for j := range zooKeepers {
		config += fmt.Sprintf("server.%d=%s%d:2888:3888\n", j+1, subnet, 11+j)
	}
	for name, text := range map[string]string{"zoo.cfg": config, "myid": fmt.Sprint(i + 1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	return zktest.ServerCommand("96m", filepath.Join(dir, "zoo.cfg"))
}

// deviceNodesScript gives an agent's /dev nodes of two GPUs that no driver serves. %[1]s is a folder.
const deviceNodesScript = `mkdir -p "%[1]s/dev"
mount -t tmpfs -o mode=755 tmpfs "%[1]s/dev"
cp -a /dev/. "%[1]s/dev/"
rm -f "%[1]s"/dev/nvidia*
mkdir -p "%[1]s/dev/pts" "%[1]s/dev/shm"
for n in 0 1; do mknod -m 666 "%[1]s/dev/nvidia$n" c 195 $n; done
mknod -m 666 "%[1]s/dev/nvidiactl" c 195 255
mknod -m 666 "%[1]s/dev/nvidia-uvm" c 510 0
mount --bind /dev/pts "%[1]s/dev/pts"
mount --rbind "%[1]s/dev" /dev`

// agentWorkDir returns the work directory of the Mesos agent on a host.
func (c *chaosCluster) agentWorkDir(h *host) string { return filepath.Join(c.dir, h.name, "agent") }

// addAgent adds a Mesos agent and its GPU daemon, which offers two simulated GPUs.
func (c *chaosCluster) addAgent(i int) {
	c.t.Helper()
	h := c.addHost("agent", i, 41)
	dir := c.makeDir(h.name)
	socket := filepath.Join(dir, "agent.sock")
	flags, err := exec.Command("unshare", "--uts", "sh", "-c", `echo "$0" >/proc/sys/kernel/hostname; exec "$@"`, h.name,
		c.binary, "agent", "flags", "--simulate", agentGPUs).Output()
	if err != nil {
		c.t.Fatal(err)
	}
	attributes := slices.DeleteFunc(strings.Fields(string(flags)), func(flag string) bool { return !strings.HasPrefix(flag, "--attributes=") })
	agent := apachemesos.AgentProcess{
		Master: c.zooKeeperURL("/mesos"), Addr: h.ip + ":5051", WorkDir: dir, Cgroup: agentCgroup(i), RuntimeDir: filepath.Join(dir, "run"),
		ExecutorEnv: map[string]string{"MESOS_GPU_SOCKET": socket, "MESOS_GPU_VOLUMES": filepath.Join(dir, "volumes")},
		Flags:       append(attributes, "--resources=gpus:0;cpus:8;mem:2048;disk:1024", "--executor_reregistration_timeout=5secs", "--zk_session_timeout=5secs"),
	}
	isolation := "cgroups/cpu,cgroups/mem,filesystem/linux"
	if c.module != "" {
		isolation = "cgroups/devices," + isolation + "," + clustersetup.IsolatorName
		agent.Prepare = fmt.Sprintf(deviceNodesScript, dir)
		agent.Flags = append(agent.Flags, fmt.Sprintf(`--modules={"libraries":[{"file":%q,"modules":[{"name":%q,"parameters":[
			{"key":"socket","value":%q},{"key":"runtime_dir","value":%q}]}]}]}`, c.module, clustersetup.IsolatorName, socket, agent.RuntimeDir))
	}
	agent.Flags = append(agent.Flags, "--isolation="+isolation)
	command, daemon := agent.Command(c.t), []string{c.binary, "agent", "--simulate", agentGPUs, "--state-dir", dir, "--runtime-dir", filepath.Join(dir, "gpu"),
		"--socket", socket, "--volumes", filepath.Join(dir, "volumes"), "--listen", "", "--cgroups-root", agentCgroup(i)}
	scheme := "http"
	if c.authority != nil {
		folder, env := c.createTLSEnv(h)
		command = slices.Concat([]string{"env"}, env, passSocket([]string{filepath.Join(dir, "executors.sock"), "executors"}), command)
		daemon = append(daemon, "--tls-ca", filepath.Join(folder, "ca.pem"))
		scheme = "https"
	}
	c.addProgram(h.name, "agent", h, command)
	c.addProgram("daemon"+h.name[len("agent"):], "daemon", h, append(daemon, "--agent", scheme+"://"+h.ip+":5051"))
}

func (c *chaosCluster) makeDir(name string) string {
	c.t.Helper()
	dir := filepath.Join(c.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	return dir
}

// schedulerURLs returns the addresses of the schedulers' APIs.
func schedulerURLs() []string {
	var urls []string
	for i := range schedulers {
		urls = append(urls, fmt.Sprintf("http://%s%d:8080", subnet, 31+i))
	}
	return urls
}

// findLeader returns the host that leads a group, or nil.
func (c *chaosCluster) findLeader(group string) *host {
	for _, p := range c.programs {
		if p.group != group {
			continue
		}
		leads := false
		switch group {
		case "zookeeper":
			leads = zktest.ServerMode(p.host.ip+":2181") == "leader"
		case "master":
			var metrics map[string]float64
			leads = c.getJSON(group, p.host.ip+":5050/metrics/snapshot", &metrics) && metrics["master/elected"] == 1
		case "scheduler":
			var health api.HealthStatus
			leads = c.getJSON(group, p.host.ip+":8080/healthz", &health) && health.Role == api.Leader
		}
		if leads {
			return p.host
		}
	}
	return nil
}

// getJSON reports whether a program of the group returns JSON within two seconds.
func (c *chaosCluster) getJSON(group, address string, into any) bool {
	transport := &http.Transport{TLSClientConfig: c.tls[group]}
	defer transport.CloseIdleConnections()
	client := http.Client{Timeout: 2 * time.Second, Transport: transport}
	resp, err := client.Get(c.scheme(group) + "://" + address)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(into) == nil
}

func (c *chaosCluster) scheme(group string) string {
	if c.tls[group] != nil {
		return "https"
	}
	return "http"
}
