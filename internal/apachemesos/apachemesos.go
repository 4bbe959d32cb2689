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

	"mesos-gpu/internal/testneeds"
)

// StartMaster starts a master on 127.0.0.1 with the given flags in addition to
// the common ones, and waits until it is ready.
func StartMaster(t testing.TB, flags ...string) *MesosProcess {
	t.Helper()
	testneeds.RequireRoot(t)
	master, addr := lookupProgram(t, "mesos-master"), freeAddr(t, "127.0.0.1")
	args := append(listenFlags(addr), "--work_dir="+t.TempDir(), "--registry=in_memory")
	p := Spawn(t, nil, master, append(args, flags...)...)
	p.Addr = addr
	p.AwaitReady(t)
	return p
}

// AgentProcess configures an agent.
type AgentProcess struct {
	// Master is the master's HOST:PORT, and IP the agent's listen address.
	Master, IP string
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
	agent, addr, work := lookupProgram(t, "mesos-agent"), freeAddr(t, a.IP), t.TempDir()
	if a.RuntimeDir == "" {
		a.RuntimeDir = filepath.Join(work, "run")
	}
	cgroup := "mesos-gpu-test-" + rand.Text()
	t.Cleanup(func() { removeCgroups(t, cgroup) })
	env := map[string]string{"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
	maps.Copy(env, a.ExecutorEnv)
	executorEnv, err := json.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-m", "sh", "-c", namespace + a.Prepare + "\n" + `exec "$@"`, "sh", agent}, listenFlags(addr)...)
	args = append(args, "--master="+a.Master, "--work_dir="+filepath.Join(work, "agent"), "--runtime_dir="+a.RuntimeDir,
		"--containerizers="+cmp.Or(a.Containerizers, "mesos"), "--launcher=linux", "--cgroups_root="+cgroup, "--no-systemd_enable_support",
		"--executor_environment_variables="+string(executorEnv))
	p := Spawn(t, a.Env, "unshare", append(args, a.Flags...)...)
	p.Addr = addr
	return p
}

// lookupProgram returns the path of a Mesos program.
func lookupProgram(t testing.TB, name string) string {
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

// listenFlags returns the flags for the listen address.
func listenFlags(addr string) []string {
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
