// Package apachemesos runs a master and agents of Apache Mesos, found on PATH
// or under MESOS_PREFIX, for as long as a test, and removes what they leave.
// Without a Mesos it skips the test. What an agent isolates and has is for
// the test to say.
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
// the common ones, and waits until it answers.
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

// AgentProcess is an agent to start.
type AgentProcess struct {
	// Master is HOST:PORT, IP where the agent listens.
	Master, IP string
	// RuntimeDir is the agent's --runtime_dir; a fresh folder if empty.
	RuntimeDir string
	// Containerizers are the agent's --containerizers; Mesos's own if empty.
	Containerizers string
	// Prepare are shell commands that run before the agent, in the mount
	// namespace that it has to itself.
	Prepare string
	// Env is for the agent, NAME=VALUE each, ExecutorEnv for its executors.
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

// Start starts the agent; Await waits until it answers.
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

// lookupProgram finds one of Mesos's programs.
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

// listenFlags are the flags for the address.
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
