// Package apachemesos runs an Apache Mesos master and agents for the duration
// of a test and removes what they leave behind. It finds Mesos on PATH or under
// MESOS_PREFIX, and skips the test without one. The test chooses the isolators
// and resources of an agent.
package apachemesos

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// StartMaster starts a master on 127.0.0.1 with the given flags in addition to
// the common ones, and waits until it is ready.
func StartMaster(t testing.TB, flags ...string) *MesosProcess {
	t.Helper()
	testneeds.RequireRoot(t)
	master, addr := LookupProgram(t, "mesos-master"), freeAddr(t, "127.0.0.1")
	args := append(ListenFlags(addr), "--work_dir="+t.TempDir(), "--registry=in_memory")
	p := Spawn(t, nil, master, append(args, flags...)...)
	p.Addr = addr
	p.AwaitReady(t)
	return p
}

// AgentProcess configures an agent.
type AgentProcess struct {
	// Master is the master's HOST:PORT, or the zk:// URL of several. IP is the agent's
	// listen address.
	Master, IP string
	// Addr is the agent's HOST:PORT. The default is a free port of IP.
	Addr string
	// WorkDir is the parent of the agent's --work_dir. The default is a new folder.
	WorkDir string
	// Cgroup is the agent's --cgroups_root. The default is a new name.
	Cgroup string
	// RuntimeDir is the agent's --runtime_dir. The default is a new folder.
	RuntimeDir string
	// Containerizers is the agent's --containerizers. Empty selects Mesos's
	// default.
	Containerizers string
	// Prepare is a shell script that runs before the agent, in the agent's
	// private mount namespace.
	Prepare string
	// Env is the agent's environment as NAME=VALUE, ExecutorEnv that of its
	// executors.
	Env         []string
	ExecutorEnv map[string]string
	// Flags are added to the flags that every agent gets: --isolation,
	// --resources, --modules and so on.
	Flags []string
}

// namespace hides a mount that Mesos rejects: a cgroup2 file system next to the
// v1 hierarchies.
const namespace = `set -e
mount --make-rprivate /
umount /sys/fs/cgroup/unified 2>/dev/null || true
`

// Start starts the agent. AwaitReady waits until it is ready.
func (a AgentProcess) Start(t testing.TB) *MesosProcess {
	t.Helper()
	if a.Addr == "" {
		a.Addr = freeAddr(t, a.IP)
	}
	command := a.Command(t)
	p := Spawn(t, a.Env, command[0], command[1:]...)
	p.Addr = a.Addr
	return p
}

// Command returns the command line of an agent with an Addr, for a caller that starts it
// otherwise than by Start. The agent's cgroups are removed when the test ends.
func (a AgentProcess) Command(t testing.TB) []string {
	t.Helper()
	agent := LookupProgram(t, "mesos-agent")
	if a.WorkDir == "" {
		a.WorkDir = t.TempDir()
		if err := os.Chmod(filepath.Dir(a.WorkDir), 0o755); err != nil { // tasks of other users enter their sandboxes
			t.Fatal(err)
		}
	}
	a.RuntimeDir = cmp.Or(a.RuntimeDir, filepath.Join(a.WorkDir, "run"))
	a.Cgroup = cmp.Or(a.Cgroup, "mesos-gpu-test-"+rand.Text())
	t.Cleanup(func() { RemoveCgroups(t, a.Cgroup) })
	env := map[string]string{"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
	maps.Copy(env, a.ExecutorEnv)
	executorEnv, err := json.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"unshare", "-m", "sh", "-c", namespace + a.Prepare + "\n" + `exec "$@"`, "sh", agent}, ListenFlags(a.Addr)...)
	args = append(args, "--master="+a.Master, "--work_dir="+filepath.Join(a.WorkDir, "agent"), "--runtime_dir="+a.RuntimeDir,
		"--containerizers="+cmp.Or(a.Containerizers, "mesos"), "--launcher=linux", "--cgroups_root="+a.Cgroup, "--no-systemd_enable_support",
		"--executor_environment_variables="+string(executorEnv))
	return append(args, a.Flags...)
}

// LookupProgram returns the path of a Mesos program. It skips the test without one.
func LookupProgram(t testing.TB, name string) string {
	t.Helper()
	prefix := os.Getenv("MESOS_PREFIX")
	for _, dir := range []string{"sbin", "bin"} {
		path := filepath.Join(prefix, dir, name)
		if _, err := os.Stat(path); err == nil && prefix != "" {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s on PATH or under MESOS_PREFIX (%q)", name, prefix)
	}
	return path
}

// ListenFlags returns the flags of a master or an agent for its address, HOST:PORT.
func ListenFlags(addr string) []string {
	i := strings.LastIndexByte(addr, ':')
	return []string{"--ip=" + addr[:i], "--hostname=" + addr[:i], "--port=" + addr[i+1:]}
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
