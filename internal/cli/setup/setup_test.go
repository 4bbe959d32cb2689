package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/clustersetup"
	"mesos-gpu/internal/testing/mesostest"
)

// runSetup runs "mesos-gpu cluster" with the arguments.
func runSetup(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := Command(&cli.App{ProcessIO: cli.ProcessIO{Stdout: &out, Stderr: &out}})
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// writeMachine writes the configuration of all roles of a single machine below a folder.
func writeMachine(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, role := range clustersetup.Roles() {
		if out, err := runSetup(t, "config", "--role", role, "--ip", "127.0.0.1", "--masters", "127.0.0.1", "--credentials",
			filepath.Join(root, "secrets"), "--simulate", "2xV100", "--out", root); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return root
}

func checkMachine(t *testing.T, root string, args ...string) []clustersetup.Finding {
	t.Helper()
	out, err := runSetup(t, append([]string{"check", "-o", "json", "--root", root}, args...)...)
	var status *cli.ExitStatus
	if err != nil && !errors.As(err, &status) {
		t.Fatal(err)
	}
	var findings []clustersetup.Finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return findings
}

func findProblem(list []clustersetup.Finding, check, text string) bool {
	for _, f := range list {
		if f.Check == check && strings.Contains(f.Problem, text) {
			return true
		}
	}
	return false
}

// The facts of this machine and of written files are collected: the files are complete, and
// what does not run is reported.
func TestCheckOfWrittenMachine(t *testing.T) {
	root := writeMachine(t)
	got := checkMachine(t, root, "--mesos", "/nonexistent")
	for check, text := range map[string]string{
		"zookeeper": "127.0.0.1:2181 does not answer",
		"mesos":     "/nonexistent/sbin/mesos-agent",
		"daemon":    "does not answer",
		"module":    "libmesosgpumodule.so",
	} {
		if !findProblem(got, check, text) {
			t.Errorf("no finding of %s with %q in %+v", check, text, got)
		}
	}
	for _, check := range []string{"configuration", "addresses", "credentials", "authentication", "isolation", "driver"} {
		if check != "isolation" && findProblem(got, check, "") {
			t.Errorf("a finding of %s in %+v", check, got)
		}
	}
	agent := filepath.Join(root, clustersetup.AgentEnv)
	text, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.Replace(string(text), "MESOS_CREDENTIAL=file:///etc/mesos/agent-credential.json", "MESOS_CREDENTIAL=/etc/none\nbad line", 1)
	if err := os.WriteFile(agent, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "etc/mesos/credentials.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/mesos-gpu/scheduler-credential.json"), []byte("name secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = checkMachine(t, root)
	for check, texts := range map[string][]string{
		"configuration": {`"bad line" is not NAME=VALUE`},
		"credentials":   {"/etc/none, which the configuration names, does not exist", "credentials.json has mode 0644", "scheduler-credential.json: not JSON"},
	} {
		for _, text := range texts {
			if !findProblem(got, check, text) {
				t.Errorf("no finding of %s with %q in %+v", check, text, got)
			}
		}
	}
}

// The weights in the roles file are compared with those of the master, with the scheduler's credential.
func TestCheckComparesWeights(t *testing.T) {
	for name, test := range map[string]struct {
		roles   string
		refused map[operator.Call_Type]int
		want    string // "" for no finding
	}{
		"different": {"gold: {weight: 3}\nbronze: {weight: 1}\n", nil, "role gold has weight 3 in /etc/mesos-gpu/roles.yaml, but 1 in Mesos"},
		"equal":     {"gold: {weight: 1}\nbronze: {weight: 1}\n", nil, ""},
		"unset":     {"gold: {}\n", nil, ""},
		"not permitted": {"gold: {weight: 3}\n", map[operator.Call_Type]int{operator.Call_GET_WEIGHTS: http.StatusForbidden},
			`403 Forbidden: no: principal "mesos-gpu-scheduler" may not do that`},
		"unknown to the master": {"gold: {weight: 3}\n", map[operator.Call_Type]int{operator.Call_GET_WEIGHTS: http.StatusNotImplemented},
			"501 Not Implemented: no"},
	} {
		t.Run(name, func(t *testing.T) {
			m := mesostest.NewMaster(t, mesostest.WithAuth("mesos-gpu-scheduler", "secret"))
			m.RefuseWeights, m.RefuseText = test.refused, "no"
			root := t.TempDir()
			for path, text := range map[string]string{
				clustersetup.SchedulerConf:  "master=" + m.URL() + "\nroles=/etc/mesos-gpu/roles.yaml\ncredential=/etc/mesos-gpu/credential\n",
				"/etc/mesos-gpu/roles.yaml": test.roles, "/etc/mesos-gpu/credential": `{"principal": "mesos-gpu-scheduler", "secret": "secret"}`,
			} {
				if err := os.MkdirAll(filepath.Dir(root+path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(root+path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := checkMachine(t, root, "--role", clustersetup.Scheduler)
			if found := findProblem(got, "weights", test.want); found != (test.want != "") {
				t.Errorf("got %+v, want %q", got, test.want)
			}
		})
	}
}

// A roles file with a mistake is a problem of that file.
func TestCheckReadsRolesFile(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/etc/mesos-gpu", 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{clustersetup.SchedulerConf: "roles=/etc/mesos-gpu/roles.yaml\n", "/etc/mesos-gpu/roles.yaml": "gold: {wait: 3}\n"} {
		if err := os.WriteFile(root+path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := checkMachine(t, root, "--role", clustersetup.Scheduler); !findProblem(got, "credentials", `role gold: unknown key "wait"`) {
		t.Errorf("got %+v", got)
	}
}

// closedPort returns a port that refuses connections, and that no other process can open during the test: it is bound, but nothing
// listens.
func closedPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{}); err != nil {
		t.Fatal(err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return address.(*unix.SockaddrInet4).Port
}

// ZooKeeper's servers are asked, and a port's owner is found. The server listens on all addresses, so that no other process has its
// port on one of them.
func TestServersAndPorts(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			question := make([]byte, 4)
			if _, err := io.ReadFull(conn, question); err == nil && string(question) == "srvr" {
				_, _ = io.WriteString(conn, "Zookeeper version: 3.8.0\nMode: follower\n")
			}
			conn.Close()
		}
	}()
	address := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	port := l.Addr().(*net.TCPAddr).Port
	if got := askZooKeeper(t.Context(), address(port)); got.Mode != "follower" || got.Problem != "" {
		t.Errorf("got %+v", got)
	}
	c := collector{}
	own, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.portOwner(port); got != strings.TrimSpace(string(own)) {
		t.Errorf("the port's owner is %q, want %q", got, own)
	}
	free := closedPort(t)
	if got := askZooKeeper(t.Context(), address(free)); !strings.Contains(got.Problem, "refused") {
		t.Errorf("got %+v", got)
	}
	if got := c.portOwner(free); got != "" {
		t.Errorf("the free port's owner is %q", got)
	}
}

// Facts of hardware are read from the kernel's files.
func TestHardwareFacts(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/self/mountinfo": "29 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n30 29 0:27 / " +
			"/sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n31 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
		"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
		"sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n",
		"sys/bus/pci/devices/0000:02:00.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:02:00.0/class": "0x030000\n",
		"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := collector{root: root}
	c.readCgroups()
	c.readDriver()
	if g := c.facts.Cgroups; g.V2Mounted || !strings.Contains(strings.Join(g.V1, " "), "cpu cpuacct") {
		t.Errorf("cgroups: got %+v", g)
	}
	if d := c.facts.Driver; d.PCI != 1 || d.Kernel != "550.54.15" {
		t.Errorf("driver: got %+v", d)
	}
}

// Files are written with their permissions, and another content is not replaced.
func TestConfigurationIsNotReplaced(t *testing.T) {
	root := writeMachine(t)
	info, err := os.Stat(filepath.Join(root, "etc/mesos/credentials.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
	args := []string{"config", "--role", "master", "--ip", "127.0.0.1", "--masters", "127.0.0.1", "--credentials", filepath.Join(root, "secrets"), "--out", root}
	if out, err := runSetup(t, args...); err != nil {
		t.Errorf("the same content: %v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(root, clustersetup.MasterEnv), []byte("MESOS_QUORUM=7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := runSetup(t, args...); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("another content: got %v", err)
	}
	if _, err := runSetup(t, append(args, "--force")...); err != nil {
		t.Error(err)
	}
	if _, err := runSetup(t, "check", "--root", t.TempDir()); err == nil || !strings.Contains(err.Error(), "cluster config") {
		t.Errorf("a machine without configuration: got %v", err)
	}
}

// New secrets are reported once, also if the configuration is only printed.
func TestNewSecretsAreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets.json")
	for _, isNew := range []bool{true, false} {
		out, err := runSetup(t, "config", "--role", "master", "--ip", "127.0.0.1", "--masters", "127.0.0.1", "--credentials", path)
		if err != nil || strings.Contains(out, "created "+path+" with new secrets: copy it to all other machines of the cluster\n") != isNew {
			t.Errorf("new secrets %t: got %v and %s", isNew, err, out)
		}
	}
}

// The configuration that the package installs is replaced until it is changed.
func TestPackagedConfigurationIsReplaced(t *testing.T) {
	for _, role := range []string{clustersetup.Agent, clustersetup.Scheduler} {
		root := t.TempDir()
		path := filepath.Join(root, configFile(role))
		if role == clustersetup.Agent {
			path = filepath.Join(root, clustersetup.AgentConf)
		}
		packaged, err := os.ReadFile(filepath.Join("../../../deploy/etc", filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(packaged), string(packaged) + "log-level=debug\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := runSetup(t, "config", "--role", role, "--ip", "127.0.0.1", "--masters", "127.0.0.1", "--out", root)
			if (err == nil) != (text == string(packaged)) {
				t.Errorf("%s: changed %t: got %v", role, text != string(packaged), err)
			}
		}
	}
}
