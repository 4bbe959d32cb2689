//go:build mesos

package checklist

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/need"
)

// cluster is a master and agents of Apache Mesos, found on PATH or under
// MESOS_PREFIX. Agents hand GPUs out by count and confine nothing.
type cluster struct {
	t      testing.TB
	master string
	proxy  http.Handler
	agents map[machine]*process
}

// process is a running program; ended is closed when it is not any more.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

// program finds one of Mesos's programs.
func program(t testing.TB, name string) string {
	t.Helper()
	if prefix := os.Getenv("MESOS_PREFIX"); prefix != "" {
		if path := filepath.Join(prefix, "sbin", name); exists(path) {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s on PATH or under MESOS_PREFIX (%q)", name, os.Getenv("MESOS_PREFIX"))
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// namespace hides what Mesos refuses: a cgroup2 file system beside the v1
// hierarchies.
const namespace = `mount --make-rprivate / && { umount /sys/fs/cgroup/unified 2>/dev/null || true; } && exec "$@"`

// clusters numbers them, for the names of their cgroups.
var clusters atomic.Int32

func newCluster(t testing.TB, _ string, machines []machine) *cluster {
	t.Helper()
	need.Root(t)
	c := &cluster{t: t, master: freeAddr(t, "127.0.0.1"), agents: map[machine]*process{}}
	c.proxy = reverse(t, c.master)
	work := t.TempDir()
	_, port, _ := net.SplitHostPort(c.master)
	// An agent counts as unreachable after two pings that it does not answer.
	m := spawn(t, program(t, "mesos-master"), "--ip=127.0.0.1", "--hostname=127.0.0.1", "--port="+port, "--work_dir="+filepath.Join(work, "master"),
		"--registry=in_memory", "--allocation_interval=100ms", "--agent_ping_timeout=1secs", "--max_agent_ping_timeouts=2")
	await(t, m, "http://"+c.master+"/health")
	n := clusters.Add(1)
	for i, machine := range machines {
		c.agents[machine] = c.start(machine, filepath.Join(work, machine.ip), fmt.Sprintf("mesos-gpu-checklist-%d-%d-%d", os.Getpid(), n, i))
	}
	for machine, p := range c.agents {
		await(t, p, "http://"+machine.ip+":"+portOf(p)+"/health")
	}
	c.awaitAgents(len(machines))
	return c
}

func portOf(p *process) string {
	for _, arg := range p.Args {
		if port, found := strings.CutPrefix(arg, "--port="); found {
			return port
		}
	}
	return ""
}

// reverse is the master as a handler.
func reverse(t testing.TB, addr string) http.Handler {
	target := &url.URL{Scheme: "http", Host: addr}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1, Transport: transport,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

func (c *cluster) start(m machine, work, cgroup string) *process {
	c.t.Helper()
	_, port, _ := net.SplitHostPort(freeAddr(c.t, m.ip))
	resources := "--resources=cpus:4;mem:2048;disk:4096;ports:[31000-31100]"
	attributes := "--attributes=kind:plain"
	if m.gpus > 0 {
		resources += fmt.Sprintf(";gpus:%d", m.gpus)
		attributes = "--attributes=gpu_type:V100"
	}
	c.t.Cleanup(func() { removeCgroups(c.t, cgroup) })
	return spawn(c.t, "unshare", "-m", "sh", "-c", namespace, "sh", program(c.t, "mesos-agent"),
		"--ip="+m.ip, "--hostname="+m.ip, "--port="+port, "--master="+c.master, "--work_dir="+work, "--runtime_dir="+work+"-run",
		"--containerizers=mesos", "--launcher=linux", "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux", "--cgroups_root="+cgroup,
		"--no-systemd_enable_support", resources, attributes,
		`--executor_environment_variables={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}`)
}

func spawn(t testing.TB, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(name, args...)
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: cmd, ended: make(chan struct{})}
	go func() { defer close(p.ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.Process.Signal(syscall.SIGCONT) // it may have ended
		_ = p.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", strings.Join(args, " "), out.tail())
		}
	})
	return p
}

func freeAddr(t testing.TB, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// await polls an outside program that tells of its start in no other way.
func await(t testing.TB, p *process, url string) {
	t.Helper()
	poll(t, url, func() bool {
		select {
		case <-p.ended:
			t.Fatalf("%s ended before it answered", p.Args)
		default:
		}
		resp, err := http.Get(url)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func poll(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// awaitAgents polls the master, which has no event for a test that is not
// subscribed.
func (c *cluster) awaitAgents(n int) {
	w := &world{t: c.t, cluster: c}
	poll(c.t, fmt.Sprintf("%d agents", n), func() bool { return len(w.agents()) == n })
}

func (c *cluster) handler() http.Handler { return c.proxy }

// finish has nothing to do: tasks look for themselves.
func (c *cluster) finish(string) {}

// partition stops an agent's process, heal lets it go on.
func (c *cluster) partition(m machine) { c.signal(m, syscall.SIGSTOP) }
func (c *cluster) heal(m machine)      { c.signal(m, syscall.SIGCONT) }

func (c *cluster) signal(m machine, s syscall.Signal) {
	c.t.Helper()
	if err := c.agents[m].Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// successor is the same master behind another address: without ZooKeeper
// agents of Apache Mesos know one master only.
func (c *cluster) successor(string) *cluster { return c }
func (c *cluster) takeOver()                 {}

// newRunningWorld is one whose agents run executors; all do here.
func newRunningWorld(t *testing.T) *world { t.Helper(); return newWorld(t, gpuAgent) }

// removeCgroups kills what an agent's containers left. A killed process
// leaves its cgroup a moment later, and says so to nobody.
func removeCgroups(t testing.TB, cgroup string) {
	poll(t, "cgroups "+cgroup+" to go", func() bool {
		killAll("/sys/fs/cgroup/freezer/" + cgroup)
		roots, err := filepath.Glob("/sys/fs/cgroup/*/" + cgroup)
		if err != nil {
			t.Fatal(err)
		}
		for _, root := range roots {
			removeTree(root)
		}
		return len(roots) == 0
	})
}

func killAll(root string) {
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for pid := range strings.FieldsSeq(string(text)) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		return nil
	})
}

func removeTree(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}
